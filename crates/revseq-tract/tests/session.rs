//! Sessions: models opened and run by name, for sizes of the data and for symbolic ones.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use revseq_tract::{Error, ErrorKind, LoadOptions, Session, Size, Sizes};
use tract_onnx::data_resolver::MmapDataResolver;
use tract_onnx::prelude::*;
use tract_onnx::tensor::{load_tensor, proto_from_reader};
use tract_onnx::tract_hir::internal::Approximation;

fn all_models() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../models")
}

/// The folders of models with data, by their paths below `models`.
fn folders() -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut open = vec![all_models()];
    while let Some(folder) = open.pop() {
        for entry in folder.read_dir().expect("a folder of models") {
            let path = entry.expect("an entry").path();
            if path.join("test_data_set_0").is_dir() {
                found.push(path);
            } else if path.is_dir() {
                open.push(path);
            }
        }
    }
    found.sort();
    found
}

/// The tensors of a data set, in order.
fn tensors(folder: &Path, kind: &str) -> Vec<Tensor> {
    let set = folder.join("test_data_set_0");
    (0..)
        .map(|index| set.join(format!("{kind}_{index}.pb")))
        .map_while(|path| std::fs::File::open(path).ok())
        .map(|file| {
            let proto = proto_from_reader(file).expect("a tensor");
            load_tensor(&MmapDataResolver, &proto, None).expect("a tensor")
        })
        .collect()
}

/// Opens and runs a model on its data, and compares its outputs with those on record.
fn check(folder: &Path, sizes: Sizes) -> Result<bool, Error> {
    let options = LoadOptions::new().with_sizes(sizes);
    let session = Session::open_with(folder.join("model.onnx"), &options)?;
    let names: Vec<String> = session.inputs().iter().map(|it| it.name.clone()).collect();
    let inputs = std::iter::zip(names, tensors(folder, "input"));
    let outputs = session.run(inputs)?;
    let recorded = tensors(folder, "output");
    assert_eq!(outputs.len(), recorded.len(), "{folder:?}");
    for ((name, output), recorded) in outputs.iter().zip(&recorded) {
        if output.datum_type() == String::datum_type() {
            assert_eq!(output, recorded, "{folder:?}, {name}");
            continue;
        }
        let close = output.close_enough(recorded, Approximation::Custom(1e-5, 1e-4, 0.));
        close.unwrap_or_else(|error| panic!("{folder:?}, {name}: {error:#}"));
    }
    Ok(session.is_symbolic())
}

#[test]
fn all_models_run_for_the_sizes_of_the_data_and_for_symbolic_ones() {
    let mut refused: BTreeMap<String, Vec<String>> = BTreeMap::new();
    let (mut of_data, mut symbolic) = (0, 0);
    for folder in folders() {
        let name = folder.strip_prefix(all_models()).expect("it is below");
        let name = name.to_string_lossy().replace('\\', "/");
        match check(&folder, Sizes::OfData) {
            Ok(_) => of_data += 1,
            Err(error) => {
                refused.entry(error.to_string()).or_default().push(name);
                continue;
            }
        }
        match check(&folder, Sizes::Symbolic) {
            Ok(is_symbolic) => symbolic += usize::from(is_symbolic),
            Err(error) => panic!("{name} runs for the sizes of its data: {error}"),
        }
    }
    assert!(of_data >= 146 && symbolic >= 140, "{of_data}, {symbolic}");
    let refused: Vec<String> = refused.into_keys().collect();
    let types = ["bfloat16", "complex128", "complex64"].map(|it| format!("tract has no {it}"));
    assert_eq!(refused, types);
}

#[test]
fn a_session_may_be_shared() {
    fn is_shared<T: Send + Sync>() {}
    is_shared::<Session>();
    is_shared::<revseq_tract::Plan>();
    is_shared::<Error>();
}

fn masked() -> Session {
    let path = all_models().join("exported/keras_bilstm_masked/model.onnx");
    Session::open(path).expect("it opens")
}

#[test]
fn inputs_are_checked_by_name_type_and_size() {
    let session = masked();
    let [input] = session.inputs() else {
        panic!("{:?}", session.inputs());
    };
    let sizes = input.sizes.as_deref().expect("a rank");
    assert!(
        matches!(sizes, [Size::Symbol(_) | Size::Unknown, ..]),
        "{sizes:?}"
    );
    let name = input.name.clone();
    let run = |name: &str, value: Tensor| session.run([(name, value)]).err();
    let kind = |error: Option<Error>| error.map(|it| (it.kind(), it.to_string()));
    let given = tensors(&all_models().join("exported/keras_bilstm_masked"), "input").remove(0);
    assert_eq!(kind(run(&name, given.clone())), None);
    for (name, value, words) in [
        ("no such input", given.clone(), "is missing"),
        (
            &*name,
            given.cast_to::<f64>().expect("numbers").into_owned(),
            "double",
        ),
        (&*name, tensor0(1_f32), "expected"),
    ] {
        let (kind, message) = kind(run(name, value)).expect("it is refused");
        assert_eq!(kind, ErrorKind::Input);
        assert!(message.contains(words), "{message}");
    }
}
