//! Half floats: computed in floats between what a program sees, and moved to the bit.

use revseq_onnx::model::{
    self, AttributeProto, AttributeType, BOOL, FLOAT, FLOAT16, GraphProto, INT64, ModelProto,
    NodeProto, OperatorSetIdProto, TensorProto, int, node,
};
use revseq_tract::{LoadOptions, Session, Sizes};
use tract_onnx::prelude::*;

fn halves(numbers: &[f32]) -> Tensor {
    let numbers: Vec<f16> = numbers.iter().map(|it| f16::from_f32(*it)).collect();
    tensor1(&numbers)
}

/// Runs a model on half floats `x` of size N, with any others by name, for the sizes of the data and
/// for symbolic ones, and returns `y`.
#[track_caller]
fn run(graph: GraphProto, inputs: &[(&str, Tensor)]) -> Tensor {
    let model = ModelProto {
        ir_version: Some(9),
        graph: graph.into(),
        opset_import: vec![OperatorSetIdProto {
            version: Some(20),
            ..OperatorSetIdProto::default()
        }],
        ..ModelProto::default()
    };
    let outputs = [Sizes::OfData, Sizes::Symbolic].map(|sizes| {
        let options = LoadOptions::new().with_sizes(sizes);
        let session = Session::from_model(model.clone(), &options).unwrap();
        let inputs = inputs.iter().map(|(name, value)| (*name, value.clone()));
        let outputs = session
            .run(inputs)
            .unwrap_or_else(|error| panic!("{error}"));
        outputs["y"].clone().into_tensor()
    });
    assert_eq!(outputs[0], outputs[1]);
    let [output, _] = outputs;
    output
}

fn graph(nodes: Vec<NodeProto>, output: i32) -> GraphProto {
    let constant = |name: &str, code: i32, raw: &[u8]| TensorProto {
        name: Some(name.to_owned()),
        data_type: Some(code),
        raw_data: Some(raw.to_vec()),
        ..TensorProto::default()
    };
    GraphProto {
        name: Some("halves".to_owned()),
        node: nodes,
        input: vec![model::value("x", FLOAT16, &[None])],
        output: vec![model::value("y", output, &[None])],
        initializer: vec![
            constant("large", FLOAT16, &f16::from_f32(1024.0).to_le_bytes()),
            constant("on", BOOL, &[1]),
            constant("three", INT64, &3_i64.to_le_bytes()),
        ],
        ..GraphProto::default()
    }
}

#[test]
fn values_between_nodes_neither_overflow_nor_lose_digits() {
    // 300 times 1024 is above all half floats.
    let nodes = vec![
        node("Mul", &["x", "large"], &["a"], vec![]),
        node("Div", &["a", "large"], &["y"], vec![]),
    ];
    let numbers = halves(&[300.0, 0.1, -1.0]);
    let found = run(graph(nodes, FLOAT16), &[("x", numbers.clone())]);
    assert_eq!(found, numbers);

    // At 2049, half floats are 2 apart: an addition of 1 is lost if it is rounded.
    let sum = |name: &str, to: &str| node("Sum", &[name, "x", "x"], &[to], vec![]);
    let nodes = vec![
        node("Mul", &["x", "large"], &["a"], vec![]),
        sum("a", "b"),
        node("Sub", &["b", "a"], &["y"], vec![]),
    ];
    let found = run(graph(nodes, FLOAT16), &[("x", halves(&[2.5, 3.25]))]);
    assert_eq!(found, halves(&[5.0, 6.5]));
}

#[test]
fn casts_of_the_model_and_its_outputs_round() {
    let cast = |from: &str, to: &str, code: i32| {
        node("Cast", &[from], &[to], vec![int("to", code.into())])
    };
    let nodes = vec![
        node("Mul", &["x", "large"], &["a"], vec![]),
        cast("a", "b", FLOAT),
        cast("b", "c", FLOAT16),
        cast("c", "y", FLOAT),
    ];
    let found = run(graph(nodes, FLOAT), &[("x", halves(&[300.0, 1.0]))]);
    assert_eq!(found, tensor1(&[f32::INFINITY, 1024.0]));

    let nodes = vec![node("Mul", &["x", "large"], &["y"], vec![])];
    let found = run(graph(nodes, FLOAT16), &[("x", halves(&[-300.0, 1.0]))]);
    assert_eq!(found, halves(&[f32::NEG_INFINITY, 1024.0]));

    // Whether a half float is infinite is asked of half floats.
    let nodes = vec![
        node("Mul", &["x", "large"], &["a"], vec![]),
        node("IsInf", &["a"], &["y"], vec![]),
    ];
    let found = run(graph(nodes, BOOL), &[("x", halves(&[300.0, 1.0]))]);
    assert_eq!(found, tensor1(&[true, false]));
}

#[test]
fn what_only_moves_is_moved_to_the_bit() {
    let nodes = vec![
        node("Concat", &["x", "x"], &["a"], vec![int("axis", 0)]),
        node("Identity", &["a"], &["y"], vec![]),
    ];
    // A NaN that signals, with a payload; a cast would quiet it.
    let x = tensor1(&[f16::from_bits(0x7d23), f16::from_bits(0x8001)]);
    let found = run(graph(nodes, FLOAT16), &[("x", x)]);
    let bits: Vec<u8> = [0x7d23_u16, 0x8001, 0x7d23, 0x8001]
        .into_iter()
        .flat_map(u16::to_le_bytes)
        .collect();
    assert_eq!(
        (found.datum_type(), found.as_bytes()),
        (f16::datum_type(), &*bits)
    );
}

/// A graph within a node, whose values have no types.
fn inner(name: &str, nodes: Vec<NodeProto>, inputs: &[&str], outputs: &[&str]) -> AttributeProto {
    let untyped = |names: &[&str]| names.iter().map(|name| model::untyped(name)).collect();
    AttributeProto {
        name: Some(name.to_owned()),
        r#type: Some(AttributeType::GRAPH),
        g: GraphProto {
            name: Some(name.to_owned()),
            node: nodes,
            input: untyped(inputs),
            output: untyped(outputs),
            ..GraphProto::default()
        }
        .into(),
        ..AttributeProto::default()
    }
}

#[test]
fn states_and_branches_keep_their_range() {
    // Three steps multiply by 1024, and what comes after divides.
    let body = inner(
        "body",
        vec![
            node("Identity", &["k"], &["k2"], vec![]),
            node("Mul", &["v", "large"], &["w"], vec![]),
            node("Identity", &["v"], &["s"], vec![]),
        ],
        &["i", "k", "v"],
        &["k2", "w", "s"],
    );
    let mut nodes = vec![node(
        "Loop",
        &["three", "on", "x"],
        &["a", "all"],
        vec![body],
    )];
    for (from, to) in [("a", "b"), ("b", "c"), ("c", "y")] {
        nodes.push(node("Div", &[from, "large"], &[to], vec![]));
    }
    let numbers = halves(&[3.0, 0.1]);
    let found = run(graph(nodes, FLOAT16), &[("x", numbers.clone())]);
    assert_eq!(found, numbers);

    for condition in [true, false] {
        let branches = vec![
            inner(
                "then_branch",
                vec![node("Mul", &["x", "large"], &["t"], vec![])],
                &[],
                &["t"],
            ),
            inner(
                "else_branch",
                vec![node("Identity", &["x"], &["e"], vec![])],
                &[],
                &["e"],
            ),
        ];
        let nodes = vec![
            node("If", &["c"], &["a"], branches),
            node("Div", &["a", "large"], &["y"], vec![]),
        ];
        let mut chosen = graph(nodes, FLOAT16);
        chosen.input.push(model::value("c", BOOL, &[]));
        let found = run(
            chosen,
            &[("x", halves(&[512.0])), ("c", tensor0(condition))],
        );
        let expected = if condition { 512.0 } else { 0.5 };
        assert_eq!(found, halves(&[expected]));
    }
}

#[test]
fn packed_sequences_of_half_floats_have_a_state_of_floats() {
    let three = [("q", FLOAT16), ("k", FLOAT16), ("v", FLOAT16)];
    let inputs = three.map(|(name, code)| model::value(name, code, &[None, Some(1), Some(1)]));
    let states = [Some(2), Some(1), Some(1), Some(1)];
    let others = [
        model::value("cu", model::INT32, &[Some(3)]),
        model::value("past", FLOAT, &states),
    ];
    let rule = AttributeProto {
        name: Some("update_rule".to_owned()),
        r#type: Some(AttributeType::STRING),
        s: Some(b"linear".to_vec()),
        ..AttributeProto::default()
    };
    let inputs_of_net = ["q", "k", "v", "cu", "", "", "past"];
    let mut net = node("GatedDeltaNet", &inputs_of_net, &["y", "state"], vec![rule]);
    net.domain = Some("com.microsoft".to_owned());
    let opset = |domain: &str, version| OperatorSetIdProto {
        domain: Some(domain.to_owned()),
        version: Some(version),
        ..OperatorSetIdProto::default()
    };
    let graph = GraphProto {
        name: Some("packed".to_owned()),
        node: vec![net],
        input: inputs.into_iter().chain(others).collect(),
        output: vec![
            model::value("y", FLOAT16, &[None, Some(1), Some(1)]),
            model::value("state", FLOAT, &states),
        ],
        ..GraphProto::default()
    };
    let model = ModelProto {
        ir_version: Some(9),
        graph: graph.into(),
        opset_import: vec![opset("", 20), opset("com.microsoft", 1)],
        ..ModelProto::default()
    };
    let tokens = |numbers: [f32; 3]| halves(&numbers).into_shape(&[3, 1, 1]).unwrap();
    let past = Tensor::from_shape(&[2, 1, 1, 1], &[10.0_f32, 2049.0]).unwrap();
    for sizes in [Sizes::OfData, Sizes::Symbolic] {
        let options = LoadOptions::new().with_sizes(sizes);
        let session = Session::from_model(model.clone(), &options).unwrap();
        let outputs = session.run([
            ("q", tokens([1.0, 2.0, 3.0])),
            ("k", tokens([1.0, 1.0, 2.0])),
            ("v", tokens([2.0, 3.0, 1.0])),
            ("cu", tensor1(&[0_i32, 2, 3])),
            ("past", past.clone()),
        ]);
        let outputs = outputs.unwrap_or_else(|error| panic!("{error}"));
        let y = outputs["y"].clone().into_tensor();
        assert_eq!(y, tokens([12.0, 30.0, 6152.0]));
        let state = outputs["state"].clone().into_tensor();
        let last = Tensor::from_shape(&[2, 1, 1, 1], &[15.0_f32, 2051.0]).unwrap();
        assert_eq!(state, last);
    }
}
