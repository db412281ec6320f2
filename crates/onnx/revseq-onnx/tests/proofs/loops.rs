//! Sizes of products, of arithmetic on sizes, and in and behind loops.

use revseq_onnx::model::{
    self, AttributeProto, AttributeType, FLOAT, GraphProto, INT64, ModelProto, NodeProto, int,
    int64_tensor, node, untyped, value,
};
use revseq_onnx::scope::Scope;
use revseq_onnx::sizes::{self, LoopBody, Size};

/// A model with inputs `a` of sizes N, 3 and 4, and `b` of sizes N and 4, and constants.
fn model(nodes: Vec<NodeProto>) -> ModelProto {
    let mut inputs = vec![
        value("a", FLOAT, &[None, Some(3), Some(4)]),
        value("b", FLOAT, &[None, Some(4)]),
        value("n", INT64, &[]),
    ];
    for input in &mut inputs[..2] {
        name_first_size(input);
    }
    let constant = |name: &str, sizes: &[i64], values: &[i64]| {
        let mut tensor = int64_tensor(sizes, values);
        tensor.name = Some(name.to_owned());
        tensor
    };
    let graph = GraphProto {
        node: nodes,
        input: inputs,
        initializer: vec![
            constant("zero", &[], &[0]),
            constant("one", &[], &[1]),
            constant("two", &[], &[2]),
            constant("[0]", &[1], &[0]),
            constant("[1]", &[1], &[1]),
            constant("[-1]", &[1], &[-1]),
            constant("[2]", &[1], &[2]),
        ],
        ..GraphProto::default()
    };
    ModelProto {
        graph: graph.into(),
        opset_import: vec![model::OperatorSetIdProto {
            version: Some(17),
            ..Default::default()
        }],
        ..ModelProto::default()
    }
}

fn name_first_size(input: &mut model::ValueInfoProto) {
    use model::{tensor_shape_proto::dimension, type_proto};
    let Some(type_proto::Value::TensorType(tensor)) = input
        .r#type
        .as_option_mut()
        .and_then(|it| it.value.as_mut())
    else {
        panic!("a tensor");
    };
    let shape = tensor.shape.as_option_mut().expect("a shape");
    shape.dim[0].value = Some(dimension::Value::DimParam("N".to_owned()));
}

/// An attribute that holds a graph.
fn in_graph(name: &str, graph: GraphProto) -> AttributeProto {
    AttributeProto {
        name: Some(name.to_owned()),
        r#type: Some(AttributeType::GRAPH),
        g: graph.into(),
        ..AttributeProto::default()
    }
}

/// The sizes of a value, as text: a number, or the value and axis that has the size.
fn sizes_of(scope: &Scope<'_>, name: &str) -> Option<Vec<String>> {
    let rank = sizes::rank(scope, name)?;
    let size = |axis| match sizes::axis(scope, name, axis)? {
        Size::Known(size) => Some(size.to_string()),
        Size::Axis { value, axis, .. } => Some(format!("{value}{axis}")),
    };
    (0..rank).map(size).collect()
}

#[test]
fn products_have_the_rows_of_one_operand_and_the_columns_of_the_other() {
    let model = model(vec![
        node(
            "Transpose",
            &["a"],
            &["t"],
            vec![model::ints("perm", &[0, 2, 1])],
        ),
        node("MatMul", &["a", "t"], &["both"], vec![]),
        node("Gather", &["b", "one"], &["vector"], vec![]),
        node("MatMul", &["a", "vector"], &["no columns"], vec![]),
        node("MatMul", &["vector", "t"], &["no rows"], vec![]),
        node("MatMul", &["vector", "vector"], &["neither"], vec![]),
        node("Gemm", &["b", "b"], &["gemm"], vec![int("transA", 1)]),
        node(
            "ArgMax",
            &["a"],
            &["best"],
            vec![int("axis", 1), int("keepdims", 0)],
        ),
        node("TopK", &["a", "[2]"], &["most", "places"], vec![]),
    ]);
    let scope = Scope::main(&model, false).expect("a graph");
    for (name, expected) in [
        ("both", vec!["a0", "3", "3"]),
        ("no columns", vec!["a0", "3"]),
        ("no rows", vec!["a0", "3"]),
        ("neither", vec![]),
        ("gemm", vec!["4", "4"]),
        ("best", vec!["a0", "4"]),
        ("places", vec!["a0", "3", "2"]),
    ] {
        let found = sizes_of(&scope, name);
        let expected: Vec<String> = expected.into_iter().map(str::to_owned).collect();
        assert_eq!(found, Some(expected), "{name}");
    }
}

/// PyTorch writes the parts of `chunk` and the shape of `expand` so.
#[test]
fn sizes_are_computed() {
    let model = model(vec![
        node("Shape", &["a"], &["shape"], vec![]),
        node("Gather", &["shape", "[2]"], &["four"], vec![]),
        node("Div", &["four", "[2]"], &["two"], vec![]),
        node("Mul", &["two", "[2]"], &["end"], vec![]),
        node("Slice", &["a", "two", "end", "[2]"], &["half"], vec![]),
        node("Concat", &["[-1]", "two"], &["asked"], vec![int("axis", 0)]),
        node("Shape", &["asked"], &["length"], vec![]),
        node("Expand", &["[1]", "length"], &["ones"], vec![]),
        node("Mul", &["ones", "[-1]"], &["open"], vec![]),
        node("Equal", &["asked", "open"], &["is open"], vec![]),
        node("Where", &["is open", "ones", "asked"], &["written"], vec![]),
        node("Expand", &["[1]", "written"], &["table"], vec![]),
        node("Slice", &["a", "n1", "end", "[2]"], &["some"], vec![]),
        node("Unsqueeze", &["n", "[1]"], &["n1"], vec![]),
    ]);
    let scope = Scope::main(&model, false).expect("a graph");
    assert_eq!(
        sizes_of(&scope, "half"),
        Some(["a0", "3", "2"].map(str::to_owned).to_vec())
    );
    assert_eq!(
        sizes_of(&scope, "table"),
        Some(["1", "2"].map(str::to_owned).to_vec())
    );
    // A bound that is not known leaves the other axes.
    assert_eq!(
        sizes_of(&scope, "some"),
        Some(["a0", "3", "some2"].map(str::to_owned).to_vec())
    );
}

/// A Loop with the states `b`, which stays as large, and another that grows.
fn looping() -> NodeProto {
    let body = GraphProto {
        node: vec![
            node("Identity", &["on"], &["on2"], vec![]),
            node("Gather", &["a", "step"], &["row"], vec![int("axis", 1)]),
            node("Add", &["s", "row"], &["s2"], vec![]),
            node("Concat", &["g", "s"], &["g2"], vec![int("axis", 0)]),
            node("Neg", &["s2"], &["shown"], vec![]),
        ],
        input: ["step", "on", "s", "g"].map(untyped).to_vec(),
        output: ["on2", "s2", "g2", "shown"].map(untyped).to_vec(),
        ..GraphProto::default()
    };
    let body = in_graph("body", body);
    node(
        "Loop",
        &["n", "", "b", "b"],
        &["last", "grown", "all"],
        vec![body],
    )
}

#[test]
fn states_keep_their_sizes_unless_an_iteration_changes_them() {
    let model = model(vec![looping()]);
    let scope = Scope::main(&model, false).expect("a graph");
    let fixed = |scope: &Scope<'_>, name: &str| {
        let body = LoopBody::of(scope, &model.graph.as_option().expect("a graph").node[0]);
        let body = body.expect("a Loop");
        let size = |axis| {
            body.fixed_axis(name, axis).map(|size| match size {
                Size::Known(size) => size.to_string(),
                Size::Axis { value, axis, .. } => format!("{value}{axis}"),
            })
        };
        let rank = sizes::rank(&body.scope, name).expect("a rank");
        (0..rank).map(size).collect::<Vec<_>>()
    };
    let four = || Some("4".to_owned());
    // The rows of `a` may be others than those of `b`.
    assert_eq!(fixed(&scope, "s2"), [None, four()]);
    assert_eq!(sizes_of(&scope, "all"), None);
    let scope = Scope::main(&model, false).expect("a graph");
    scope.prove_more();
    assert_eq!(fixed(&scope, "s2"), [Some("a0".to_owned()), four()]);
    assert_eq!(fixed(&scope, "g2"), [None, four()]);
    let found = ["last", "grown", "all"].map(|name| sizes_of(&scope, name).expect("a rank"));
    assert_eq!(found[0], ["a0", "4"]);
    assert_eq!(found[1], ["grown0", "4"]);
    assert_eq!(found[2], ["all0", "a0", "4"]);
}

#[test]
fn a_step_of_a_loop_is_one_element_of_an_axis_that_is_not_shorter() {
    // The sizes of an axis of `a` that is cut from the step on by so many, in a Loop of the rows of `a`, or of
    // four iterations.
    let sizes = |trips: &str, axis: &str, by: &str, reads: &str| {
        let body = GraphProto {
            node: vec![
                node("Add", &["step", by], &["next"], vec![]),
                node("Unsqueeze", &[reads, "[0]"], &["start"], vec![]),
                node("Unsqueeze", &["next", "[0]"], &["end"], vec![]),
                node(
                    "Slice",
                    &["a", "start", "end", axis, "[1]"],
                    &["cut"],
                    vec![],
                ),
            ],
            input: ["step", "on"].map(untyped).to_vec(),
            output: ["on", "cut"].map(untyped).to_vec(),
            ..GraphProto::default()
        };
        let body = in_graph("body", body);
        let model = model(vec![
            node("Shape", &["a"], &["sizes"], vec![]),
            node("Gather", &["sizes", "zero"], &["N"], vec![]),
            node("Gather", &["sizes", "two"], &["four"], vec![]),
            node("Loop", &[trips, ""], &["all"], vec![body]),
        ]);
        let scope = Scope::main(&model, false).expect("a graph");
        let nodes = &model.graph.as_option().expect("a graph").node;
        let body = LoopBody::of(&scope, &nodes[3]).expect("a Loop");
        sizes_of(&body.scope, "cut")
    };
    let known = |sizes: [&str; 3]| Some(sizes.map(str::to_owned).to_vec());
    assert_eq!(sizes("N", "[0]", "one", "step"), known(["1", "3", "4"]));
    assert_eq!(sizes("four", "[2]", "one", "step"), known(["a0", "3", "1"]));
    // Fewer elements than iterations, or perhaps; more than one; and not from the step on.
    let open = known(["cut0", "3", "4"]);
    assert_eq!(
        sizes("four", "[1]", "one", "step"),
        known(["a0", "cut1", "4"])
    );
    assert_eq!(sizes("four", "[0]", "one", "step"), open);
    assert_eq!(sizes("n", "[0]", "one", "step"), open);
    assert_eq!(sizes("N", "[0]", "two", "step"), open);
    assert_eq!(sizes("N", "[0]", "one", "one"), open);
}

#[test]
fn an_output_of_a_scan_has_an_axis_more_than_its_steps() {
    let body = GraphProto {
        node: vec![
            node("Add", &["s", "e"], &["s2"], vec![]),
            node("Neg", &["e"], &["shown"], vec![]),
        ],
        input: ["s", "e"].map(untyped).to_vec(),
        output: ["s2", "shown"].map(untyped).to_vec(),
        ..GraphProto::default()
    };
    let attributes = vec![in_graph("body", body), int("num_scan_inputs", 1)];
    let mut model = model(vec![node(
        "Scan",
        &["b", "a"],
        &["last", "all"],
        attributes,
    )]);
    let ranks = |model: &ModelProto| {
        let scope = Scope::main(model, false).expect("a graph");
        ["last", "all"].map(|name| sizes::rank(&scope, name))
    };
    assert_eq!(ranks(&model), [Some(2), Some(3)]);
    // It had another input then.
    model.opset_import[0].version = Some(8);
    assert_eq!(ranks(&model), [None, None]);
}

#[test]
fn branches_agree_on_sizes() {
    let branch = |name: &str, nodes: Vec<NodeProto>| {
        let graph = GraphProto {
            node: nodes,
            output: vec![untyped("o"), untyped("p")],
            ..GraphProto::default()
        };
        in_graph(name, graph)
    };
    let one = vec![
        node("Neg", &["b"], &["o"], vec![]),
        node("Neg", &["b"], &["p"], vec![]),
    ];
    let other = vec![
        node("Abs", &["b"], &["o"], vec![]),
        node("Concat", &["b", "b"], &["p"], vec![int("axis", 0)]),
    ];
    let branches = vec![branch("then_branch", one), branch("else_branch", other)];
    let model = model(vec![node("If", &["n"], &["same", "longer"], branches)]);
    let scope = Scope::main(&model, false).expect("a graph");
    scope.prove_more();
    let found = ["same", "longer"].map(|name| sizes_of(&scope, name).expect("a rank"));
    assert_eq!(found[0], ["a0", "4"]);
    assert_eq!(found[1], ["longer0", "4"]);
}

/// What is declared between nodes may be stale.
#[test]
fn ranks_follow_from_nodes_and_inputs_alone() {
    let mut looping = looping();
    let body = looping.attribute[0].g.as_option_mut().expect("a body");
    for (input, axes) in std::iter::zip(&mut body.input, [0, 0, 3, 3]) {
        *input = value(input.name(), FLOAT, &vec![None; axes]);
    }
    body.node[3] = node("Unsqueeze", &["g", "[0]"], &["g2"], vec![]);
    let mut model = model(vec![
        looping,
        NodeProto {
            domain: Some("unknown".to_owned()),
            ..node("Unknown", &["a"], &["u"], vec![])
        },
        node("Neg", &["u"], &["v"], vec![]),
    ]);
    let graph = model.graph.as_option_mut().expect("a graph");
    graph.value_info = ["u", "v", "last", "grown"]
        .map(|it| value(it, FLOAT, &[Some(7)]))
        .to_vec();
    let scope = Scope::main(&model, false).expect("a graph");
    for name in ["u", "v", "last"] {
        assert_eq!(sizes::rank(&scope, name), None, "{name}");
    }
    scope.prove_more();
    let nodes = &model.graph.as_option().expect("a graph").node;
    let inner = Scope::graph(nodes[0].graph("body").expect("a body"), Some(&scope), 17);
    for (name, rank) in [
        ("step", Some(0)),
        ("s", Some(2)),
        ("s2", Some(2)),
        ("g", None),
    ] {
        assert_eq!(sizes::rank(&inner, name), rank, "{name}");
    }
}

/// Only the branch that is taken says what an If outputs.
#[test]
fn branches_that_are_never_taken_do_not_count() {
    let branch = |name: &str, node: NodeProto| {
        let graph = GraphProto {
            node: vec![node],
            output: vec![untyped("o")],
            ..GraphProto::default()
        };
        in_graph(name, graph)
    };
    let branches = vec![
        branch("then_branch", node("Neg", &["b"], &["o"], vec![])),
        branch("else_branch", node("Neg", &["a"], &["o"], vec![])),
    ];
    let ranks = |condition: &str| {
        let model = model(vec![
            node("Equal", &["one", "one"], &["yes"], vec![]),
            node("Equal", &["one", "two"], &["no"], vec![]),
            node("Equal", &["n", "one"], &["maybe"], vec![]),
            node("If", &[condition], &["o"], branches.clone()),
        ]);
        sizes::rank(&Scope::main(&model, false).expect("a graph"), "o")
    };
    assert_eq!(["yes", "no", "maybe"].map(ranks), [Some(2), Some(3), None]);
}
