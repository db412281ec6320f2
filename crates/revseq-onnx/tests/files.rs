//! Models are read and written without loss, or refused.

use std::path::Path;

use revseq_onnx::model::{AttributeProto, AttributeType, GraphProto, ModelProto, node};
use revseq_onnx::{decode, encode};

#[test]
fn models_are_written_as_they_were() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../models");
    let files = walkdir::WalkDir::new(root).into_iter();
    let paths = files.map(|entry| entry.expect("models are there").into_path());
    let mut count = 0;
    for path in paths.filter(|path| path.ends_with("model.onnx")) {
        let mut bytes = std::fs::read(&path).unwrap();
        assert!(
            encode(&decode(&bytes).unwrap()).unwrap() == bytes,
            "{path:?}"
        );
        // Field 1000, which ONNX does not have.
        bytes.extend([0xc2, 0x3e, 4, b'k', b'e', b'p', b't']);
        assert!(
            encode(&decode(&bytes).unwrap()).unwrap() == bytes,
            "{path:?}"
        );
        count += 1;
    }
    assert!(count > 100, "{count}");
}

/// A model with a graph in a node in a graph, to this depth.
fn nested(depth: usize) -> Vec<u8> {
    let mut graph = GraphProto::default();
    for _ in 0..depth {
        let body = AttributeProto {
            name: Some("body".to_owned()),
            r#type: Some(AttributeType::GRAPH),
            g: graph.into(),
            ..AttributeProto::default()
        };
        graph = GraphProto {
            node: vec![node("Loop", &[], &["y"], vec![body])],
            ..GraphProto::default()
        };
    }
    let model = ModelProto {
        graph: graph.into(),
        ..ModelProto::default()
    };
    encode(&model).unwrap()
}

#[test]
fn an_invalid_model_is_refused() {
    let error = |bytes: &[u8]| decode(bytes).unwrap_err().to_string();
    assert_eq!(error(b"no model"), "it is not an ONNX model");
    assert_eq!(error(b""), "it has no graph: it is not an ONNX model");
    // A graph, a node and an attribute at each level.
    assert!(decode(&nested(32)).is_ok());
    assert_eq!(error(&nested(40)), "it is not an ONNX model");
    // A graph of ten bytes, of which two are there.
    assert_eq!(
        error(b"\x08\x0a\x3a\x0a\x12\x01"),
        "it ends too early: it has 6 bytes of at least 14"
    );
}
