//! Lists: what is read from them, and those that loops build.

use super::left;
use super::tract::{brought, check, copies_of_sizes, graph, model};
use crate::model::{ModelProto, NodeProto, TensorProto, all_nodes, int64_tensor};

/// The bodies of loops with lists: name, inputs, outputs and nodes.
pub(super) const BODIES: &[(&str, &str, &str, &str)] = &[
    (
        "appends",
        "i c p l",
        "c2 b l2",
        "c2 = Identity(c)\nb = Neg(p)\nl2 = SequenceInsert(l, b)",
    ),
    (
        "prepends",
        "i c p l",
        "c2 b l2",
        "c2 = Identity(c)\nb = Neg(p)\nl2 = SequenceInsert(l, b, 0)",
    ),
    (
        "inserts second",
        "i c p l",
        "c2 b l2",
        "c2 = Identity(c)\nb = Neg(p)\nl2 = SequenceInsert(l, b, 1)",
    ),
    (
        "measures",
        "i c p l",
        "c2 b l2",
        "c2 = Identity(c)\nk = SequenceLength(l)\nb = Mul(p, k)\nl2 = SequenceInsert(l, b)",
    ),
    (
        "measures in a branch",
        "i c p l",
        "c2 b l2",
        "b = Neg(p)\nl2 = SequenceInsert(l, b)\nk = Equal(i, 1)\nc2 = If<then_branch=@is short;else_branch=@goes on>(k)",
    ),
    (
        "is short",
        "",
        "o",
        "m = SequenceLength(l2)\no = Less(m, 3)",
    ),
    ("goes on", "", "o", "o = Identity(c)"),
    (
        "continues",
        "i c l",
        "c2 l2",
        "c2 = Identity(c)\na = SequenceAt(l, -1)\nb = Neg(a)\nl2 = SequenceInsert(l, b)",
    ),
    (
        "looks up",
        "i c l",
        "c2 l2",
        "c2 = Identity(c)\na = SequenceAt(l, i)\nb = Neg(a)\nl2 = SequenceInsert(l, b)",
    ),
    (
        "exchanges",
        "i c l",
        "c2 l2",
        "c2 = Identity(c)\na = SequenceAt(l, 0)\nb = Neg(a)\nr = SequenceErase(l, 0)\nl2 = SequenceInsert(r, b)",
    ),
    (
        "drops",
        "i c l",
        "c2 l2",
        "c2 = Identity(c)\nl2 = SequenceErase(l, 0)",
    ),
    (
        "adds once",
        "i c l",
        "c2 l2",
        "c2 = Identity(c)\nk = Equal(i, 1)\nl2 = If<then_branch=@puts;else_branch=@puts none>(k)",
    ),
    (
        "adds first but once",
        "i c l",
        "c2 l2",
        "c2 = Identity(c)\nk = Equal(i, 1)\nl2 = If<then_branch=@puts none;else_branch=@puts at 0>(k)",
    ),
    (
        "adds to either",
        "i c l m",
        "c2 l2 m2",
        "c2 = Identity(c)\nk = Equal(i, 1)\nl2, m2 = If<then_branch=@puts left;else_branch=@puts right>(k)",
    ),
    (
        "adds once and counts",
        "i c l",
        "c2 l2 b",
        "c2 = Identity(c)\nk = Equal(i, 1)\nl2 = If<then_branch=@puts;else_branch=@puts none>(k)\nb = SequenceLength(l2)",
    ),
    (
        "adds slices once",
        "i c l",
        "c2 l2",
        "c2 = Identity(c)\nk = Equal(i, 1)\nl2 = If<then_branch=@puts a slice;else_branch=@puts none>(k)",
    ),
    (
        "adds a number once",
        "i c l",
        "c2 l2",
        "c2 = Identity(c)\nk = Equal(i, 1)\nl2 = If<then_branch=@puts a number;else_branch=@puts none>(k)",
    ),
    (
        "adds in a loop",
        "i c l",
        "c2 l2",
        "c2 = Identity(c)\nl2 = Loop<body=@adds some>(i, _, l)",
    ),
    (
        "adds some",
        "j d m",
        "d2 m2",
        "d2 = Identity(d)\nk = Equal(j, 1)\nm2 = If<then_branch=@puts some;else_branch=@puts no more>(k)",
    ),
    (
        "adds numbers in a loop",
        "i c l",
        "c2 l2",
        "c2 = Identity(c)\nl2 = Loop<body=@adds numbers>(i, _, l)",
    ),
    (
        "adds numbers",
        "j d m",
        "d2 m2",
        "d2 = Identity(d)\nk = Equal(j, 1)\nm2 = If<then_branch=@puts no more;else_branch=@puts its number>(k)",
    ),
    ("puts some", "", "o", "b = Neg(x)\no = SequenceInsert(m, b)"),
    ("puts no more", "", "o", "o = Identity(m)"),
    (
        "puts its number",
        "",
        "o",
        "b = Size(x)\no = SequenceInsert(m, b)",
    ),
    (
        "puts a number",
        "",
        "o",
        "b = Size(x)\no = SequenceInsert(l, b)",
    ),
    ("puts", "", "o", "b = Neg(x)\no = SequenceInsert(l, b)"),
    ("puts none", "", "o", "o = Identity(l)"),
    ("puts at 0", "", "o", "o = SequenceInsert(l, x, 0)"),
    (
        "puts left",
        "",
        "o p",
        "o = SequenceInsert(l, x)\np = Identity(m)",
    ),
    (
        "puts right",
        "",
        "o p",
        "o = Identity(l)\np = SequenceInsert(m, x)",
    ),
    (
        "puts a slice",
        "",
        "o",
        "u = Unsqueeze(i, [0])\nb = Slice(x, [0], u, one)\no = SequenceInsert(l, b)",
    ),
    ("adds", "", "o", "b = Neg(x)\no = SequenceInsert(q, b)"),
    ("puts first", "", "o", "o = SequenceInsert(q, x, 0)"),
    ("hands on", "", "o", "o = Identity(q)"),
    (
        "reads",
        "i c p",
        "c2 b",
        "c2 = Identity(c)\na = SequenceAt(q, i)\nb = Add(p, a)",
    ),
    (
        "repeats",
        "i c l",
        "c2 l2",
        "c2 = Identity(c)\nk = SequenceAt(s, i)\nv = Unsqueeze(i, [0])\nshape = Concat<axis=0>(v, three)\nb = Expand(half, shape)\nl2 = SequenceInsert(l, b)",
    ),
    (
        "cuts",
        "i c l",
        "c2 l2",
        "c2 = Identity(c)\nend = Unsqueeze(i, [0])\nb = Slice(x, [0], end, axis)\nl2 = SequenceInsert(l, b)",
    ),
    (
        "slices",
        "i c l",
        "c2 l2",
        "c2 = Identity(c)\naxis = Unsqueeze(1, [0])\nb = Slice(x, [0], [0], axis)\nl2 = SequenceInsert(l, b)",
    ),
    (
        "grows",
        "i c p l",
        "c2 b l2",
        "c2 = Identity(c)\nb = Concat<axis=0>(p, p)\nl2 = SequenceInsert(l, p)",
    ),
    (
        "widens",
        "i c p l",
        "c2 b l2",
        "c2 = Identity(c)\nb = Unsqueeze(p, [0])\nl2 = SequenceInsert(l, p)",
    ),
    (
        "replaces",
        "i c p l",
        "c2 b l2",
        "c2 = Identity(c)\nb = Neg(x)\nl2 = SequenceInsert(l, p)",
    ),
];

#[test]
fn reads_of_known_elements_are_operators_on_these() {
    check(&[
        (
            17,
            "q = SequenceConstruct(x, x)\ny = ConcatFromSequence<axis=1>(q)",
            "Concat",
        ),
        (
            17,
            "q = SequenceConstruct(x)\np = SequenceInsert(q, x)\ny = ConcatFromSequence<axis=0;new_axis=1>(p)",
            "Unsqueeze Concat",
        ),
        (
            17,
            "q = SplitToSequence<axis=1;keepdims=0>(x)\ny = SequenceAt(q, -1)",
            "Slice Squeeze",
        ),
        (
            17,
            "q = SplitToSequence<axis=1>(x, lengths)\ny = SequenceAt(q, 0)",
            "Slice",
        ),
        // The axis that PyTorch's `unbind` removes.
        (
            17,
            "q = SplitToSequence<axis=1;keepdims=0>(x, 1)\ny = SequenceAt(q, -1)",
            "Slice Squeeze",
        ),
        (
            17,
            "q = SplitToSequence<axis=1>(x, 1)\np = SequenceErase(q, 0)\nr = SequenceInsert(p, x, -1)\ny = SequenceAt(r, 1)",
            "Identity",
        ),
    ]);
}

#[test]
fn parts_of_any_number_are_gathered() {
    check(&[
        (
            17,
            "q = SplitToSequence<axis=2>(x)\ny = SequenceAt(q, 0)",
            "Gather Unsqueeze",
        ),
        (
            17,
            "q = SplitToSequence<axis=2;keepdims=0>(x)\ny = SequenceAt(q, n)",
            "Gather",
        ),
        // The parts of a known number, at any position.
        (
            17,
            "q = SplitToSequence<axis=1;keepdims=0>(x)\ny = SequenceAt(q, n)",
            "Gather",
        ),
        // A vector of one element.
        (
            17,
            "v = Unsqueeze(n, [0])\nq = SplitToSequence<axis=2;keepdims=0>(x)\ny = SequenceAt(q, v)",
            "Unsqueeze Reshape Gather",
        ),
        // As many ones as the axis is long, and as many as another one is.
        (
            17,
            "s = Shape(x)\nk = Slice(s, two, three)\nones = Expand(one, k)\nq = SplitToSequence<axis=2>(x, ones)\ny = SequenceAt(q, n)",
            "Gather Unsqueeze",
        ),
        (
            17,
            "k = Unsqueeze(n, [0])\nones = Expand(one, k)\nq = SplitToSequence<axis=2>(x, ones)\ny = SequenceAt(q, n)",
            "Unsqueeze Expand Shape Shape Slice Slice Concat Reshape Gather Unsqueeze",
        ),
        (
            17,
            "q = SplitToSequence<axis=2>(x, 2)\ny = SequenceAt(q, n)",
            "Cast Shape Gather Add Div Add Less Where Mul Add Add Less Where Less Where Less Sub Where Sub Where Range Gather",
        ),
        (
            17,
            "q = SplitToSequence<axis=2>(x)\np = SequenceInsert(q, x)\ny = SequenceLength(p)",
            "Shape Gather Add",
        ),
        (
            17,
            "q = SplitToSequence<axis=2>(x, 2)\ny = SequenceLength(q)",
            "Shape Gather Add Div",
        ),
        // Lengths from data.
        (
            17,
            "k = Unsqueeze(n, [0])\nq = SplitToSequence<axis=2>(x, k)\ny = SequenceAt(q, n)",
            "Unsqueeze Cast Abs ReduceSum Unsqueeze Shape Slice Slice Concat Reshape ReduceSum Unsqueeze Shape Slice Slice Concat Reshape CumSum Sub Gather Gather Unsqueeze Unsqueeze Slice",
        ),
        // The ends of a list whose length is open.
        (
            17,
            "q = SplitToSequence<axis=2>(x)\np = SequenceInsert(q, x)\ny = SequenceAt(p, -1)",
            "Identity",
        ),
        (
            17,
            "q = SplitToSequence<axis=2>(x)\np = SequenceInsert(q, x, 0)\nr = SequenceInsert(p, n, 0)\nt = SequenceErase(r, 0)\ny = SequenceAt(t, 0)",
            "Identity",
        ),
        // Joins: of all as they were, along another axis, and along a new one.
        (
            17,
            "q = SplitToSequence<axis=2>(x)\ny = ConcatFromSequence<axis=2>(q)",
            "Identity",
        ),
        (
            17,
            "q = SplitToSequence<axis=2;keepdims=0>(x)\ny = ConcatFromSequence<axis=0;new_axis=1>(q)",
            "Transpose",
        ),
        (
            17,
            "q = SplitToSequence<axis=2>(x)\np = SequenceInsert(q, x)\ny = ConcatFromSequence<axis=2>(p)",
            "Concat",
        ),
        (
            17,
            "q = SplitToSequence<axis=2>(x, 2)\ny = ConcatFromSequence<axis=1>(q)",
            "SplitToSequence ConcatFromSequence",
        ),
    ]);
    // Two axes become one, of which the sizes may be 0.
    let joined = "q = SplitToSequence<axis=2>(x)\ny = ConcatFromSequence<axis=1>(q)";
    let (after, _) = brought(&model(joined, 17));
    assert_eq!(copies_of_sizes(&after), [false]);
}

#[test]
fn tensors_of_one_shape_are_stacked_to_be_read_anywhere() {
    check(&[
        (
            17,
            "q = SequenceConstruct(x, x)\ny = SequenceAt(q, n)",
            "Unsqueeze Concat Gather",
        ),
        (
            17,
            "q = SplitToSequence<axis=2;keepdims=0>(x)\na = Squeeze(x, two)\np = SequenceInsert(q, a)\ny = SequenceAt(p, n)",
            "Squeeze Transpose Unsqueeze Concat Gather",
        ),
        (
            17,
            "z = Concat<axis=1>(x, x)\nq = SequenceConstruct(x, z)\ny = SequenceAt(q, n)",
            "Concat SequenceConstruct SequenceAt",
        ),
        // A position that the list does not have is an error of the Gather.
        (
            17,
            "q = SequenceConstruct(x)\ny = SequenceAt(q, 1)",
            "Unsqueeze Gather",
        ),
        (
            17,
            "q = SequenceConstruct(x, x)\ny = Loop<body=@reads>(n, _, x)",
            "Unsqueeze Concat Loop",
        ),
    ]);
}

#[test]
fn a_list_that_a_loop_adds_to_is_a_scan_output() {
    check(&[
        (
            17,
            "e = SequenceEmpty()\na, q = Loop<body=@appends>(n, _, x, e)\ny = ConcatFromSequence<axis=0;new_axis=1>(q)",
            "Loop Identity",
        ),
        (
            17,
            "e = SequenceEmpty()\na, q = Loop<body=@appends>(n, _, x, e)\ny = ConcatFromSequence<axis=0>(q)",
            "Loop Shape Slice Slice Mul Slice Concat Reshape",
        ),
        (
            17,
            "e = SequenceEmpty()\na, q = Loop<body=@appends>(n, _, x, e)\ny = SequenceAt(q, n)",
            "Loop Gather",
        ),
        (
            17,
            "e = SequenceEmpty()\na, q = Loop<body=@appends>(n, _, x, e)\ny = SequenceLength(q)",
            "Loop Shape Gather",
        ),
        (
            17,
            "e = SequenceEmpty()\na, q = Loop<body=@appends>(n, _, x, e)\ny = Loop<body=@reads>(n, _, x)",
            "Loop Loop",
        ),
        (
            17,
            "e = SequenceEmpty()\na, q = Loop<body=@prepends>(n, _, x, e)\ny = SequenceAt(q, n)",
            "Loop Slice Gather",
        ),
        (
            17,
            "e = SequenceConstruct(x)\na, q = Loop<body=@appends>(n, _, x, e)\ny = SequenceAt(q, n)",
            "Loop Unsqueeze Concat Gather",
        ),
        (
            17,
            "e = SequenceEmpty()\na, q = Loop<body=@measures>(n, _, x, e)\ny = ConcatFromSequence<axis=0;new_axis=1>(q)",
            "Loop Identity",
        ),
        (
            17,
            "e = SequenceEmpty()\na, q = Loop<body=@measures in a branch>(n, _, x, e)\ny = ConcatFromSequence<axis=0;new_axis=1>(q)",
            "Loop Identity",
        ),
        // The last tensor is a state.
        (
            17,
            "e = SequenceConstruct(x)\nq = Loop<body=@continues>(n, _, e)\ny = SequenceAt(q, n)",
            "Loop Unsqueeze Concat Gather",
        ),
        // The whole list is one.
        (
            17,
            "e = SequenceConstruct(x)\nq = Loop<body=@looks up>(n, _, e)\ny = SequenceAt(q, n)",
            "Unsqueeze Loop Gather",
        ),
        (
            17,
            "e = SequenceEmpty()\na, q = Loop<body=@inserts second>(n, _, x, e)\ny = SequenceAt(q, n)",
            "SequenceEmpty Loop SequenceAt",
        ),
        (
            17,
            "e = SequenceEmpty()\na, q = Loop<body=@appends>(n, _, x, e)\ny = my.Op(q)",
            "SequenceEmpty Loop Op",
        ),
    ]);
}

#[test]
fn lists_of_tensors_that_may_differ_in_shape_stay_or_are_joined() {
    check(&[
        // A Slice as PyTorch writes it.
        (
            17,
            "e = SequenceEmpty()\nq = Loop<body=@slices>(n, _, e)\ny = ConcatFromSequence<axis=0>(q)",
            "Loop Shape Slice Slice Mul Slice Concat Reshape",
        ),
        // Sizes that differ along the axis of the join, and along another one, which fails.
        (
            17,
            "e = SequenceEmpty()\nq = Loop<body=@cuts>(n, _, e)\ny = ConcatFromSequence<axis=2>(q)",
            "Concat ConstantOfShape Loop Identity",
        ),
        (
            17,
            "e = SequenceEmpty()\nq = Loop<body=@cuts>(n, _, e)\ny = ConcatFromSequence<axis=0>(q)",
            "Loop Shape Slice Slice Mul Slice Concat Reshape",
        ),
        // Their number is the number of iterations all the same.
        (
            17,
            "e = SequenceEmpty()\nq = Loop<body=@cuts>(n, _, e)\ny = SequenceLength(q)",
            "Loop Shape Gather",
        ),
        (
            17,
            "e = SequenceEmpty()\na, q = Loop<body=@grows>(n, _, x, e)\ny = ConcatFromSequence<axis=0>(q)",
            "Shape Slice Concat ConstantOfShape Loop Identity",
        ),
        (
            17,
            "e = SequenceEmpty()\na, q = Loop<body=@widens>(n, _, x, e)\ny = ConcatFromSequence<axis=0>(q)",
            "SequenceEmpty Loop ConcatFromSequence",
        ),
        (
            17,
            "e = SequenceEmpty()\ntwice = Concat<axis=2>(x, x)\na, q = Loop<body=@replaces>(n, _, twice, e)\ny = SequenceAt(q, n)",
            "SequenceEmpty Concat Loop SequenceAt",
        ),
        // Stacking fails unless they have one shape, as the scan output does.
        (
            17,
            "e = SequenceEmpty()\ntwice = Concat<axis=2>(x, x)\na, q = Loop<body=@replaces>(n, _, twice, e)\ny = ConcatFromSequence<axis=0;new_axis=1>(q)",
            "Concat Loop Identity",
        ),
        (
            17,
            "e = SequenceEmpty()\na, q = Loop<body=@replaces>(n, _, x, e)\ny = ConcatFromSequence<axis=0;new_axis=1>(q)",
            "Loop Identity",
        ),
    ]);
}

/// The body of the only Loop of a model in its form for tract.
fn body(text: &str) -> Vec<NodeProto> {
    let (after, _): (ModelProto, _) = brought(&model(text, 17));
    let mut loops = graph(&after)
        .node
        .iter()
        .filter_map(|node| node.graph("body"));
    loops.next().expect("a Loop").node.clone()
}

#[test]
fn a_body_reads_numbers_and_states_in_place_of_its_list() {
    let has = |nodes: &[NodeProto], op: &str| nodes.iter().any(|node| node.op() == op);
    let measures =
        body("e = SequenceEmpty()\na, q = Loop<body=@measures>(n, _, x, e)\ny = SequenceAt(q, n)");
    assert!(
        !has(&measures, "SequenceLength") && has(&measures, "Add"),
        "{measures:?}"
    );
    let measures = body(
        "e = SequenceEmpty()\na, q = Loop<body=@measures in a branch>(n, _, x, e)\ny = SequenceAt(q, n)",
    );
    assert!(
        all_nodes(&measures).all(|node| !node.is("SequenceLength")),
        "{measures:?}"
    );
    let continues =
        body("e = SequenceConstruct(x)\nq = Loop<body=@continues>(n, _, e)\ny = SequenceAt(q, n)");
    assert!(!has(&continues, "SequenceAt") && !has(&continues, "Gather"));
    let looks_up =
        body("e = SequenceConstruct(x)\nq = Loop<body=@looks up>(n, _, e)\ny = SequenceAt(q, n)");
    assert!(!has(&looks_up, "SequenceAt") && has(&looks_up, "Gather"));
    let joins = body(
        "e = SequenceEmpty()\nq = Loop<body=@cuts>(n, _, e)\ny = ConcatFromSequence<axis=2>(q)",
    );
    assert!(!has(&joins, "SequenceInsert") && has(&joins, "Concat"));
}

#[test]
fn lists_that_stay_are_left_for_a_reason() {
    let rows = [
        (
            "e = SequenceEmpty()\na, q = Loop<body=@inserts second>(n, _, x, e)\ny = SequenceAt(q, n)",
            "Loop",
            "changes otherwise than by tensors added at an end",
        ),
        (
            "e = SequenceEmpty()\na, q = Loop<body=@appends>(n, _, x, e)\ny = my.Op(q)",
            "Loop",
            "the sequence q has other readers than",
        ),
        (
            "e = SequenceEmpty()\na, q = Loop<body=@grows>(n, _, x, e)\ny = SequenceAt(q, n)",
            "Loop",
            "the tensors p that it adds to a sequence are not provably of one shape",
        ),
        (
            "z = Concat<axis=1>(x, x)\nq = SequenceConstruct(x, z)\ny = SequenceAt(q, n)",
            "SequenceConstruct",
            "not provably of one shape",
        ),
        (
            "q = SplitToSequence<axis=2>(x, 2)\ny = ConcatFromSequence<axis=1>(q)",
            "ConcatFromSequence",
            "may differ in length",
        ),
    ];
    for (text, op, why) in rows {
        let (_, report) = brought(&model(text, 17));
        let left = left(&report, op);
        assert!(
            left.iter().any(|left| left.contains(why)),
            "{text}: {left:?}"
        );
    }
}

#[test]
fn a_list_of_fixed_length_is_as_many_states() {
    check(&[
        (
            17,
            "e = SequenceConstruct(x, x)\nq = Loop<body=@exchanges>(n, _, e)\ny = SequenceAt(q, 1)",
            "Loop Identity",
        ),
        (
            17,
            "e = SequenceConstruct(x, x)\nq = Loop<body=@exchanges>(n, _, e)\ny = ConcatFromSequence<axis=0>(q)",
            "Loop Concat",
        ),
        (
            17,
            "e = SequenceConstruct(x, x)\nq = Loop<body=@drops>(n, _, e)\ny = SequenceAt(q, 1)",
            "SequenceConstruct Loop SequenceAt",
        ),
    ]);
    let mut stores = model(
        "e = SequenceConstruct(x, x)\nq = Loop<body=@exchanges>(n, _, e)\ny = SequenceAt(q, 1)",
        17,
    );
    let plain = stores.clone();
    let nodes = &mut stores.graph.get_or_insert_default().node;
    for body in nodes.iter_mut().flat_map(NodeProto::graphs_mut) {
        for node in body.node.iter_mut().filter(|it| it.input.len() > 1) {
            if node.op() != "SequenceInsert" {
                node.input[1] = "place".to_owned();
            }
        }
        body.initializer.push(TensorProto {
            name: Some("place".to_owned()),
            ..int64_tensor(&[], &[0])
        });
    }
    // A body may store what it reads places by.
    for model in [plain, stores] {
        let (after, _) = brought(&model);
        let lists = all_nodes(&graph(&after).node);
        let lists: Vec<&NodeProto> = lists
            .filter(|node| node.op().starts_with("Sequence"))
            .collect();
        assert!(lists.is_empty(), "{lists:?}");
    }
}

#[test]
fn branches_that_add_to_one_list_output_what_they_add() {
    check(&[
        (
            17,
            "q = SequenceConstruct(x)\np = If<then_branch=@adds;else_branch=@adds>(c)\ny = SequenceAt(p, 1)",
            "If Identity",
        ),
        (
            17,
            "q = SequenceConstruct(x)\np = If<then_branch=@adds;else_branch=@puts first>(c)\ny = SequenceAt(p, 1)",
            "SequenceConstruct If SequenceAt",
        ),
        (
            17,
            "q = SequenceConstruct(x)\np = If<then_branch=@adds;else_branch=@hands on>(c)\ny = SequenceAt(p, 1)",
            "SequenceConstruct If SequenceAt",
        ),
    ]);
}

#[test]
fn a_list_that_grows_under_a_condition_is_what_is_kept_of_a_scan_output() {
    check(&[
        (
            17,
            "e = SequenceEmpty()\nq = Loop<body=@adds once>(n, _, e)\ny = ConcatFromSequence<axis=0;new_axis=1>(q)",
            "Shape Slice Concat ConstantOfShape Loop Compress Identity",
        ),
        (
            17,
            "e = SequenceConstruct(x)\nq = Loop<body=@adds once>(n, _, e)\ny = ConcatFromSequence<axis=0;new_axis=1>(q)",
            "Shape Slice Concat ConstantOfShape Loop Compress Unsqueeze Concat Identity",
        ),
        (
            17,
            "e = SequenceEmpty<dtype=7>()\nq = Loop<body=@adds a number once>(n, _, e)\ny = SequenceLength(q)",
            "ConstantOfShape Loop Compress Shape Gather",
        ),
        (
            17,
            "e = SequenceEmpty()\nq = Loop<body=@adds first but once>(n, _, e)\ny = SequenceAt(q, n)",
            "Shape Slice Concat ConstantOfShape Loop Compress Slice Gather",
        ),
        (
            17,
            "e = SequenceEmpty()\nf = SequenceEmpty()\nq, p = Loop<body=@adds to either>(n, _, e, f)\na = SequenceLength(p)\ny = SequenceAt(q, a)",
            "Shape Slice Concat ConstantOfShape Loop Compress Compress Shape Gather Gather",
        ),
    ]);
    for (body, why) in [
        ("adds once and counts", "it reads the sequence l"),
        ("adds slices once", "is not provably of one shape"),
    ] {
        let text =
            format!("e = SequenceEmpty()\nq = Loop<body=@{body}>(n, _, e)\ny = SequenceAt(q, n)");
        let (_, report) = brought(&model(&text, 17));
        let reasons = left(&report, "Loop");
        assert!(
            reasons.iter().any(|reason| reason.contains(why)),
            "{body}: {reasons:?}"
        );
    }
}

#[test]
fn a_list_that_grows_in_graphs_of_the_body_is_a_tensor_where_it_is_joined() {
    check(&[
        (
            17,
            "e = SequenceEmpty<dtype=7>()\nq = Loop<body=@adds numbers in a loop>(n, _, e)\ny = ConcatFromSequence<axis=0;new_axis=1>(q)",
            "ConstantOfShape Loop",
        ),
        (
            17,
            "e = SequenceConstruct(x)\nq = Loop<body=@adds in a loop>(n, _, e)\ny = ConcatFromSequence<axis=0>(q)",
            "Loop",
        ),
        (
            17,
            "e = SequenceConstruct(x)\nq = Loop<body=@adds in a loop>(n, _, e)\ny = SequenceAt(q, n)",
            "SequenceConstruct Loop SequenceAt",
        ),
    ]);
    let inner = body(
        "e = SequenceConstruct(x)\nq = Loop<body=@adds in a loop>(n, _, e)\ny = ConcatFromSequence<axis=0>(q)",
    );
    let operators = all_nodes(&inner).map(NodeProto::op);
    assert_eq!(
        operators.collect::<Vec<_>>().join(" "),
        "Identity Loop Identity Equal If Neg Concat Identity"
    );
}
