//! Models read in one call.

use std::path::{Path, PathBuf};

use revseq_test_models::text;
use revseq_tract::{Limits, LoadOptions};
use tract_onnx::prelude::*;
use tract_onnx::tract_hir::internal::Approximation;

use data::tensors;

mod data;

#[path = "../examples/run.rs"]
#[expect(dead_code, reason = "an example has a main function")]
mod example;

fn models(group: &str) -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../../../models")
        .join(group);
    let entries = folder.read_dir().expect("a folder of models");
    let mut paths: Vec<PathBuf> = entries
        .map(|entry| entry.expect("an entry").path().join("model.onnx"))
        .collect();
    paths.sort();
    paths
}

/// The names of a model's inputs and outputs.
fn interface(model: &InferenceModel) -> (Vec<String>, Vec<String>) {
    let inputs = model.input_outlets().expect("inputs").iter();
    let outputs = model.output_outlets().expect("outputs").iter();
    let label = |outlet: &OutletId| model.outlet_label(*outlet).map(str::to_owned);
    (
        inputs.map(|it| model.node(it.node).name.clone()).collect(),
        outputs.filter_map(label).collect(),
    )
}

#[test]
fn forms_are_prepared_by_path_and_by_bytes() {
    let mut prepared = 0;
    let paths = models("forms").into_iter().chain(models("graphs"));
    for path in paths {
        let bytes = std::fs::read(&path).expect("a model");
        let read = [
            revseq_tract::model_for_path(&path),
            revseq_tract::model_for_bytes(&bytes),
        ]
        .map(|model| model.unwrap_or_else(|error| panic!("{path:?}: {error:#}")));
        let proto = tract_onnx::onnx()
            .proto_model_for_path(&path)
            .expect("a model");
        let mut model = revseq_onnx::decode(&bytes).expect("a model");
        let changed = revseq_rewrite::for_tract(&mut model).expect("it can be prepared");
        prepared += usize::from(changed);
        let [by_path, by_bytes] = read.each_ref().map(interface);
        assert_eq!(by_path, by_bytes, "{path:?}");
        let graph = proto.graph.as_ref().expect("a graph");
        let outputs: Vec<&str> = graph.output.iter().map(|it| it.name.as_str()).collect();
        assert_eq!(by_path.1, outputs, "{path:?}");
        for model in read {
            model
                .into_optimized()
                .unwrap_or_else(|error| panic!("{path:?}: {error:#}"));
        }
    }
    assert!(prepared >= 9, "{prepared}");
}

#[test]
fn an_invalid_model_is_an_error() {
    let error = revseq_tract::model_for_path("/no/such/model.onnx");
    assert!(error.is_err());
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR"));
    let path = folder.join("invalid.onnx");
    for (content, what) in [
        (&b""[..], "it is empty"),
        (b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR", "it is a PNG image"),
        (b"PK\x03\x04\x14\0", "it is a zip archive, "),
        (b"Thank you.\n", "it is a text file"),
        (b"\x40\0\0\0\0\0\0\0{\"w\":{", "it is a safetensors file, "),
    ] {
        let what = format!("it is not an ONNX model: {what}");
        let error = revseq_tract::model_for_bytes(content).unwrap_err();
        assert!(error.to_string().starts_with(&what), "{error}");
        std::fs::write(&path, content).unwrap();
        let error = revseq_tract::model_for_path(&path).unwrap_err();
        let named = format!("cannot read {}: {what}", path.display());
        assert!(error.to_string().starts_with(&named), "{error}");
    }
    let error = revseq_tract::model_for_path(folder).unwrap_err();
    let named = format!("cannot read {}: it is a folder", folder.display());
    assert_eq!(error.to_string(), named);
}

fn model(name: &str) -> String {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../../models");
    format!("{folder}/{name}/model.onnx")
}

#[test]
fn the_example_runs_a_model_for_every_size() {
    let model = example::open(&model("exported/keras_bilstm_masked")).expect("it opens");
    for size in [1, 4] {
        let outputs = example::run(&model, size).unwrap_or_else(|error| panic!("{error:#}"));
        assert_eq!(outputs[0].shape()[0], size, "{outputs:?}");
    }
}

#[test]
fn limits_of_loops_are_options_of_a_model() {
    let path = model("loops/test_loop11");
    // Five steps.
    let run = |options: &LoadOptions| {
        let model = options.model_for_path(&path)?;
        // What was for the parsers is not part of the model.
        let mut properties = model.properties.keys();
        assert!(properties.all(|key| key.starts_with("onnx.")));
        let model = revseq_tract::into_optimized(model.into_typed()?)?.into_runnable()?;
        let (steps, goes_on) = (tensor0(5_i64), tensor0(true));
        model.run(tvec!(
            steps.into(),
            goes_on.into(),
            tensor1(&[-2_f32]).into()
        ))
    };
    let two = LoadOptions::new().with_limits(Limits::none().with_steps(2));
    let error = format!("{:#}", run(&two).expect_err("it takes more steps"));
    assert!(error.contains("within 2 steps"), "{error}");
    run(&LoadOptions::new()).unwrap_or_else(|error| panic!("{error:#}"));
}

/// Sizes, and numbers computed from sizes alone, are outputs like others.
#[test]
fn an_output_may_be_computed_from_sizes() {
    let graph = text::graph(
        "x:f32[N,3] -> sizes:i64[2] halves:i64[2] squares:i64[2] rests:i64[2]
         sizes = Shape(x)
         halves = Div(sizes, 2)
         squares = Mul(sizes, sizes)
         rests = Mod(halves, 2)",
    );
    let bytes = text::model(graph, 17);
    let model = revseq_tract::model_for_bytes(&bytes).expect("a model");
    assert_eq!(interface(&model).1, ["sizes", "halves", "squares", "rests"]);
    let model = model.into_typed().expect("a typed model");
    let model = revseq_tract::into_optimized(model).expect("it is optimised");
    let plan = model.into_runnable().expect("a plan");
    for rows in [5_i64, 0, 4] {
        let x = Tensor::zero::<f32>(&[rows as usize, 3]).expect("a matrix");
        let outputs = plan.run(tvec!(x.into())).expect("it runs");
        let expected = [
            [rows, 3],
            [rows / 2, 1],
            [rows * rows, 9],
            [rows / 2 % 2, 1],
        ];
        for (output, expected) in std::iter::zip(outputs, expected) {
            assert_eq!(*output, tensor1(&expected), "{rows}");
        }
    }
}

/// The command's `verify` does this for all models; here it is done where there is no command, too,
/// such as on WebAssembly.
#[test]
fn models_give_their_recorded_outputs() {
    let mut compared = 0;
    for path in models("graphs").into_iter().chain(models("exported")) {
        if !path.exists() {
            continue;
        }
        let folder = path.parent().expect("its folder");
        let run = || {
            let inputs = tensors(folder, "input")
                .into_iter()
                .map(Tensor::into_tvalue);
            let model = revseq_tract::model_for_path(&path)?.into_typed()?;
            let model = revseq_tract::into_optimized(model)?.into_runnable()?;
            model.run(inputs.collect())
        };
        let outputs = run().unwrap_or_else(|error| panic!("{path:?}: {error:#}"));
        let recorded = tensors(folder, "output");
        assert_eq!(outputs.len(), recorded.len(), "{path:?}");
        for (output, recorded) in outputs.iter().zip(&recorded) {
            let close = output.close_enough(recorded, Approximation::Custom(1e-5, 1e-4, 0.));
            close.unwrap_or_else(|error| panic!("{path:?}: {error:#}"));
            compared += 1;
        }
    }
    assert!(compared >= 30, "{compared}");
}
