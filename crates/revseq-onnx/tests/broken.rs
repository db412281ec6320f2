//! Models that no runtime takes are asked all the same.

use revseq_onnx::model::{FLOAT, GraphProto, TensorProto, int, int64_tensor, node, value};
use revseq_onnx::scope::Scope;
use revseq_onnx::{constant, sizes};

fn integers(name: &str, values: &[i64]) -> TensorProto {
    TensorProto {
        name: Some(name.to_owned()),
        ..int64_tensor(&[values.len() as i64], values)
    }
}

#[test]
fn a_negative_size_is_none() {
    let graph = GraphProto {
        node: vec![
            node("ConstantOfShape", &["negative"], &["zeros"], vec![]),
            node("Slice", &["zeros", "from", "to"], &["part"], vec![]),
        ],
        initializer: vec![
            integers("negative", &[-5]),
            integers("from", &[0]),
            integers("to", &[2]),
        ],
        ..GraphProto::default()
    };
    let scope = Scope::graph(&graph, None, 17);
    assert!(sizes::axis(&scope, "part", 0) == Some(sizes::Size::Known(0)));
}

#[test]
fn a_split_may_have_fewer_lengths_than_outputs() {
    let outputs = ["a", "b", "c"];
    let floats = TensorProto {
        name: Some("x".to_owned()),
        dims: vec![2],
        data_type: Some(FLOAT),
        float_data: vec![1.0, 2.0],
        ..TensorProto::default()
    };
    let graph = GraphProto {
        node: vec![node(
            "Split",
            &["x", "lengths"],
            &outputs,
            vec![int("axis", 0)],
        )],
        input: vec![value("unused", FLOAT, &[])],
        initializer: vec![floats, integers("lengths", &[2])],
        ..GraphProto::default()
    };
    let scope = Scope::graph(&graph, None, 17);
    let found = outputs.map(|name| constant::floats(&scope, name).map(|it| it.elements));
    assert_eq!(found, [Some(vec![1.0, 2.0]), None, None]);
    for name in &outputs[1..] {
        assert!(
            sizes::axis(&scope, name, 0)
                == Some(sizes::Size::Axis {
                    scope: &scope,
                    value: name,
                    axis: 0
                })
        );
    }
}
