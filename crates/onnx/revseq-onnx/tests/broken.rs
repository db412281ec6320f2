//! Models that no runtime takes are asked all the same.

use buffa::MessageField;
use revseq_onnx::model::{
    FLOAT, GraphProto, ModelProto, OperatorSetIdProto, TensorProto, int, int64_tensor, node, value,
};
use revseq_onnx::scope::Scope;
use revseq_onnx::{check, constant, sizes};

fn integers(name: &str, values: &[i64]) -> TensorProto {
    TensorProto {
        name: Some(name.to_owned()),
        ..int64_tensor(&[values.len() as i64], values)
    }
}

#[test]
fn an_operator_set_is_imported_in_one_version() {
    let model = |versions: [i64; 2]| ModelProto {
        graph: MessageField::some(GraphProto {
            node: vec![node("Identity", &["x"], &["y"], vec![])],
            input: vec![value("x", FLOAT, &[])],
            output: vec![value("y", FLOAT, &[])],
            ..GraphProto::default()
        }),
        opset_import: versions
            .map(|version| OperatorSetIdProto {
                version: Some(version),
                ..OperatorSetIdProto::default()
            })
            .to_vec(),
        ..ModelProto::default()
    };
    check(&model([17, 17])).unwrap();
    let error = check(&model([17, 18])).unwrap_err().to_string();
    assert!(error.contains("\"\" in the versions 17 and 18"), "{error}");
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

/// Ranks that a model's inputs declare; a value between nodes may have any.
#[test]
fn axes_lie_within_declared_ranks() {
    let model = |read: &str, axis: i64| ModelProto {
        graph: MessageField::some(GraphProto {
            node: vec![
                node("Tanh", &["x"], &["between"], vec![]),
                node("Softmax", &[read], &["y"], vec![int("axis", axis)]),
            ],
            input: vec![value("x", FLOAT, &[None, Some(3)])],
            output: vec![value("y", FLOAT, &[])],
            ..GraphProto::default()
        }),
        ..ModelProto::default()
    };
    check(&model("x", -2)).unwrap();
    check(&model("between", 2)).unwrap();
    for (read, axis, why) in [
        (
            "x",
            2,
            "graph/Softmax#1: axis is 2, expected one from -2 to 1",
        ),
        ("between", 64, "axis is 64, expected one from -64 to 63"),
    ] {
        let error = check(&model(read, axis)).unwrap_err().to_string();
        assert!(error.contains(why), "{error}");
    }
}
