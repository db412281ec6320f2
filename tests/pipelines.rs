//! Exporters' models in a pipeline on tract that learns their sizes when it runs.

use std::path::{Path, PathBuf};

use prost::Message;
use tract_onnx::data_resolver::MmapDataResolver;
use tract_onnx::pb::TensorProto;
use tract_onnx::prelude::*;
use tract_onnx::tensor::load_tensor;
use tract_onnx::tract_hir::internal::*;

/// The model in a folder of `models/exported`.
fn load(folder: &Path) -> InferenceModel {
    let mut onnx = tract_onnx::onnx();
    revseq_tract::register(&mut onnx);
    let model = onnx.model_for_path(folder.join("model.onnx"));
    model.unwrap_or_else(|error| panic!("{}: {error:#}", folder.display()))
}

/// The model for sizes that are not known yet.
fn prepared(folder: &Path) -> Arc<TypedRunnableModel> {
    let model = load(folder).into_optimized();
    let model = model.and_then(|model| model.into_runnable());
    model.unwrap_or_else(|error| panic!("{}: {error:#}", folder.display()))
}

fn folders() -> Vec<PathBuf> {
    let exported = Path::new(env!("CARGO_MANIFEST_DIR")).join("../models/exported");
    let entries = std::fs::read_dir(exported).expect("models");
    let mut folders: Vec<PathBuf> = entries
        .map(|entry| entry.expect("a folder").path())
        .filter(|path| path.join("model.onnx").exists())
        .collect();
    folders.sort();
    assert!(folders.len() >= 13, "{folders:?}");
    folders
}

fn tensors(set: &Path, kind: &str) -> TVec<Tensor> {
    (0..)
        .map(|index| set.join(format!("{kind}_{index}.pb")))
        .take_while(|path| path.exists())
        .map(|path| {
            let bytes = std::fs::read(path).expect("a tensor");
            let tensor = TensorProto::decode(bytes.as_slice()).expect("a tensor");
            load_tensor(&MmapDataResolver, &tensor, None).expect("a tensor")
        })
        .collect()
}

fn values(tensors: &[Tensor]) -> TVec<TValue> {
    tensors.iter().map(|it| it.clone().into_tvalue()).collect()
}

#[track_caller]
fn assert_close(name: &str, found: &[TValue], expected: &[Tensor]) {
    assert_eq!(found.len(), expected.len(), "{name}");
    for (found, expected) in found.iter().zip(expected) {
        let close = found.close_enough(expected, Approximation::Custom(1e-5, 1e-4, 0.));
        close.unwrap_or_else(|error| panic!("{name}: {error:#}"));
    }
}

/// A model prepared once gives the framework's outputs for all sizes.
#[test]
fn data_sets_of_several_sizes_run_on_one_model() {
    let mut sets = 0;
    for folder in folders() {
        let model = prepared(&folder);
        for set in ["test_data_set_0", "test_data_set_1"].map(|set| folder.join(set)) {
            let inputs = tensors(&set, "input");
            if inputs.is_empty() {
                continue;
            }
            let outputs = model.run(values(&inputs));
            let outputs = outputs.unwrap_or_else(|error| panic!("{}: {error:#}", set.display()));
            let name = set.display().to_string();
            assert_close(&name, &outputs, &tensors(&set, "output"));
            sets += 1;
        }
    }
    assert!(sets >= 20, "{sets}");
}

/// Many sizes, including no time steps and no batch, give the outputs of a model prepared for them.
#[test]
fn symbolic_sizes_give_the_outputs_of_known_sizes() {
    let keras = folders().into_iter().filter(|folder| {
        let name = folder.file_name().expect("a name").to_string_lossy();
        name.starts_with("keras_")
    });
    // Preparing a model takes most of the time.
    let compared: usize = std::thread::scope(|scope| {
        let spawn = |folder| scope.spawn(move || any_sizes_of(folder));
        let threads: Vec<_> = keras.map(spawn).collect();
        let compared = threads.into_iter().map(|thread| thread.join());
        compared.map(|it| it.expect("no difference")).sum()
    });
    assert!(compared > 20, "{compared}");
}

/// Compares a model for several sizes, and returns their number.
fn any_sizes_of(folder: PathBuf) -> usize {
    let template = load(&folder);
    let model = prepared(&folder);
    let mut compared = 0;
    for (batch, time) in [(1, 1), (3, 5), (2, 0), (0, 3), (1, 17)] {
        let name = format!("{} [{batch}, {time}]", folder.display());
        let fact = template.input_fact(0).expect("an input").shape.clone();
        let features = fact.dim(2).expect("three dimensions");
        let features = features.concretize().and_then(|size| size.as_i64());
        let shape = [batch, time, features.expect("a size") as usize];
        let count: usize = shape.iter().product();
        let elements = (0..count).map(|it| ((it * 37 % 19) as f32 - 9.) / 10.);
        let elements: Vec<f32> = elements.collect();
        let input = [Tensor::from_shape(&shape, &elements).expect("a tensor")];

        let known = template.clone().with_input_fact(0, f32::fact(shape).into());
        let known = known.and_then(|it| it.into_optimized());
        let known = known.and_then(|it| it.into_runnable());
        let Ok(expected) = known.and_then(|it| it.run(values(&input))) else {
            // tract refuses some of these models without a step.
            assert_eq!(time, 0, "{name}");
            continue;
        };
        let found = model.run(values(&input));
        let found = found.unwrap_or_else(|error| panic!("{name}: {error:#}"));
        let expected: Vec<Tensor> = expected.into_iter().map(|it| it.into_tensor()).collect();
        assert_close(&name, &found, &expected);
        compared += 1;
    }
    compared
}
