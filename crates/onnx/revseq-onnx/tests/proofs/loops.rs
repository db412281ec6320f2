//! Sizes of products, of arithmetic on sizes, and in and behind loops.

use revseq_onnx::model::{self, FLOAT, ModelProto, value};
use revseq_onnx::scope::Scope;
use revseq_onnx::sizes::{self, LoopBody, Size};
use revseq_test_models::text;

/// A model with inputs `a` of sizes N, 3 and 4, `b` of sizes N and 4, and `n`, in version 17.
fn model(nodes: &str) -> ModelProto {
    let graph = text::graph(&format!("a:f32[N,3,4] b:f32[N,4] n:i64[] ->\n{nodes}"));
    ModelProto {
        graph: graph.into(),
        opset_import: vec![model::OperatorSetIdProto {
            version: Some(17),
            ..Default::default()
        }],
        ..ModelProto::default()
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
    let model = model(
        "t = Transpose<perm=[0,2,1]>(a)
         both = MatMul(a, t)
         vector = Gather(b, 1)
         no columns = MatMul(a, vector)
         no rows = MatMul(vector, t)
         neither = MatMul(vector, vector)
         gemm = Gemm<transA=1>(b, b)
         best = ArgMax<axis=1;keepdims=0>(a)
         most, places = TopK(a, [2])",
    );
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
    let model = model(
        "shape = Shape(a)
         four = Gather(shape, [2])
         two = Div(four, [2])
         end = Mul(two, [2])
         half = Slice(a, two, end, [2])
         asked = Concat<axis=0>([-1], two)
         length = Shape(asked)
         ones = Expand([1], length)
         open = Mul(ones, [-1])
         is open = Equal(asked, open)
         written = Where(is open, ones, asked)
         table = Expand([1], written)
         some = Slice(a, n1, end, [2])
         n1 = Unsqueeze(n, [1])",
    );
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
const LOOPING: &str = "last, grown, all = Loop<body=@body>(n, _, b, b)
    @body: step on s g -> on2 s2 g2 shown
    on2 = Identity(on)
    row = Gather<axis=1>(a, step)
    s2 = Add(s, row)
    g2 = Concat<axis=0>(g, s)
    shown = Neg(s2)";

#[test]
fn states_keep_their_sizes_unless_an_iteration_changes_them() {
    let model = model(LOOPING);
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
        let model = model(&format!(
            "sizes = Shape(a)
             N = Gather(sizes, 0)
             four = Gather(sizes, 2)
             all = Loop<body=@body>({trips}, _)
             @body: step on -> on cut
             next = Add(step, {by})
             start = Unsqueeze({reads}, [0])
             end = Unsqueeze(next, [0])
             cut = Slice(a, start, end, {axis}, [1])"
        ));
        let scope = Scope::main(&model, false).expect("a graph");
        let nodes = &model.graph.as_option().expect("a graph").node;
        let body = LoopBody::of(&scope, &nodes[3]).expect("a Loop");
        sizes_of(&body.scope, "cut")
    };
    let known = |sizes: [&str; 3]| Some(sizes.map(str::to_owned).to_vec());
    assert_eq!(sizes("N", "[0]", "1", "step"), known(["1", "3", "4"]));
    assert_eq!(sizes("four", "[2]", "1", "step"), known(["a0", "3", "1"]));
    // Fewer elements than iterations, or perhaps; more than one; and not from the step on.
    let open = known(["cut0", "3", "4"]);
    assert_eq!(
        sizes("four", "[1]", "1", "step"),
        known(["a0", "cut1", "4"])
    );
    assert_eq!(sizes("four", "[0]", "1", "step"), open);
    assert_eq!(sizes("n", "[0]", "1", "step"), open);
    assert_eq!(sizes("N", "[0]", "2", "step"), open);
    assert_eq!(sizes("N", "[0]", "1", "1"), open);
}

#[test]
fn an_output_of_a_scan_has_an_axis_more_than_its_steps() {
    let mut model = model(
        "last, all = Scan<num_scan_inputs=1;body=@body>(b, a)
         @body: s e -> s2 shown
         s2 = Add(s, e)
         shown = Neg(e)",
    );
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
    let model = model(
        "same, longer = If<then_branch=@then;else_branch=@else>(n)
         @then: -> o p
         o = Neg(b)
         p = Neg(b)
         @else: -> o p
         o = Abs(b)
         p = Concat<axis=0>(b, b)",
    );
    let scope = Scope::main(&model, false).expect("a graph");
    scope.prove_more();
    let found = ["same", "longer"].map(|name| sizes_of(&scope, name).expect("a rank"));
    assert_eq!(found[0], ["a0", "4"]);
    assert_eq!(found[1], ["longer0", "4"]);
}

/// What is declared between nodes may be stale.
#[test]
fn ranks_follow_from_nodes_and_inputs_alone() {
    let looping = LOOPING.replace("Concat<axis=0>(g, s)", "Unsqueeze(g, [0])");
    let mut model = model(&format!("u = unknown.Unknown(a)\n v = Neg(u)\n {looping}"));
    let graph = model.graph.as_option_mut().expect("a graph");
    graph.value_info = ["u", "v", "last", "grown"]
        .map(|it| value(it, FLOAT, &[Some(7)]))
        .to_vec();
    let body = graph.node[2].graphs_mut().next().expect("a body");
    for (input, axes) in std::iter::zip(&mut body.input, [0, 0, 3, 3]) {
        *input = value(input.name(), FLOAT, &vec![None; axes]);
    }
    let scope = Scope::main(&model, false).expect("a graph");
    for name in ["u", "v", "last"] {
        assert_eq!(sizes::rank(&scope, name), None, "{name}");
    }
    scope.prove_more();
    let nodes = &model.graph.as_option().expect("a graph").node;
    let inner = Scope::graph(nodes[2].graph("body").expect("a body"), Some(&scope), 17);
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
    let ranks = |condition: &str| {
        let model = model(&format!(
            "yes = Equal(1, 1)
             no = Equal(1, 2)
             maybe = Equal(n, 1)
             o = If<then_branch=@then;else_branch=@else>({condition})
             @then: -> one
             one = Neg(b)
             @else: -> other
             other = Neg(a)"
        ));
        sizes::rank(&Scope::main(&model, false).expect("a graph"), "o")
    };
    assert_eq!(["yes", "no", "maybe"].map(ranks), [Some(2), Some(3), None]);
}
