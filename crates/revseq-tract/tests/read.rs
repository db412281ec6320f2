//! Models read in one call.

use std::path::{Path, PathBuf};

use tract_onnx::prelude::*;

fn models(group: &str) -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../../models")
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
        let changed = revseq_tract::prepare(&proto, &bytes).expect("it can be prepared");
        prepared += usize::from(changed.is_some());
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
fn what_is_no_model_is_an_error() {
    let error = revseq_tract::model_for_bytes(b"no model");
    assert!(error.is_err());
    let error = revseq_tract::model_for_path("/no/such/model.onnx");
    assert!(error.is_err());
}
