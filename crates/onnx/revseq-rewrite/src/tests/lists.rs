//! Lists: what is read from them, and those that loops build.

use super::named;
use super::tract::{brought, check, copies_of_sizes, graph, model};
use crate::model::{ModelProto, NodeProto, all_nodes, int64_tensor};

/// The bodies of loops with lists: name, inputs, outputs and nodes.
pub(super) const BODIES: &str = "
    @appends: i c p l -> c2 b l2
        c2 = Identity(c)
        b = Neg(p)
        l2 = SequenceInsert(l, b)
    @prepends: i c p l -> c2 b l2
        c2 = Identity(c)
        b = Neg(p)
        l2 = SequenceInsert(l, b, 0)
    @inserts second: i c p l -> c2 b l2
        c2 = Identity(c)
        b = Neg(p)
        l2 = SequenceInsert(l, b, 1)
    @measures: i c p l -> c2 b l2
        c2 = Identity(c)
        k = SequenceLength(l)
        b = Mul(p, k)
        l2 = SequenceInsert(l, b)
    @measures in a branch: i c p l -> c2 b l2
        b = Neg(p)
        l2 = SequenceInsert(l, b)
        k = Equal(i, 1)
        c2 = If<then_branch=@is short;else_branch=@goes on>(k)
    @is short: -> o
        m = SequenceLength(l2)
        o = Less(m, 3)
    @goes on: -> o
        o = Identity(c)
    @continues: i c l -> c2 l2
        c2 = Identity(c)
        a = SequenceAt(l, -1)
        b = Neg(a)
        l2 = SequenceInsert(l, b)
    @looks up: i c l -> c2 l2
        c2 = Identity(c)
        a = SequenceAt(l, i)
        b = Neg(a)
        l2 = SequenceInsert(l, b)
    @exchanges: i c l -> c2 l2
        c2 = Identity(c)
        a = SequenceAt(l, 0)
        b = Neg(a)
        r = SequenceErase(l, 0)
        l2 = SequenceInsert(r, b)
    @drops: i c l -> c2 l2
        c2 = Identity(c)
        l2 = SequenceErase(l, 0)
    @adds once: i c l -> c2 l2
        c2 = Identity(c)
        k = Equal(i, 1)
        l2 = If<then_branch=@puts;else_branch=@puts none>(k)
    @adds first but once: i c l -> c2 l2
        c2 = Identity(c)
        k = Equal(i, 1)
        l2 = If<then_branch=@puts none;else_branch=@puts at 0>(k)
    @adds to either: i c l m -> c2 l2 m2
        c2 = Identity(c)
        k = Equal(i, 1)
        l2, m2 = If<then_branch=@puts left;else_branch=@puts right>(k)
    @adds once and counts: i c l -> c2 l2 b
        c2 = Identity(c)
        k = Equal(i, 1)
        l2 = If<then_branch=@puts;else_branch=@puts none>(k)
        b = SequenceLength(l2)
    @adds slices once: i c l -> c2 l2
        c2 = Identity(c)
        k = Equal(i, 1)
        l2 = If<then_branch=@puts a slice;else_branch=@puts none>(k)
    @adds a number once: i c l -> c2 l2
        c2 = Identity(c)
        k = Equal(i, 1)
        l2 = If<then_branch=@puts a number;else_branch=@puts none>(k)
    @adds in a loop: i c l -> c2 l2
        c2 = Identity(c)
        l2 = Loop<body=@adds some>(i, _, l)
    @adds some: j d m -> d2 m2
        d2 = Identity(d)
        k = Equal(j, 1)
        m2 = If<then_branch=@puts some;else_branch=@puts no more>(k)
    @adds numbers in a loop: i c l -> c2 l2
        c2 = Identity(c)
        l2 = Loop<body=@adds numbers>(i, _, l)
    @adds numbers: j d m -> d2 m2
        d2 = Identity(d)
        k = Equal(j, 1)
        m2 = If<then_branch=@puts no more;else_branch=@puts its number>(k)
    @puts some: -> o
        b = Neg(x)
        o = SequenceInsert(m, b)
    @puts no more: -> o
        o = Identity(m)
    @puts its number: -> o
        b = Size(x)
        o = SequenceInsert(m, b)
    @puts a number: -> o
        b = Size(x)
        o = SequenceInsert(l, b)
    @puts: -> o
        b = Neg(x)
        o = SequenceInsert(l, b)
    @puts none: -> o
        o = Identity(l)
    @puts at 0: -> o
        o = SequenceInsert(l, x, 0)
    @puts left: -> o p
        o = SequenceInsert(l, x)
        p = Identity(m)
    @puts right: -> o p
        o = Identity(l)
        p = SequenceInsert(m, x)
    @puts a slice: -> o
        u = Unsqueeze(i, [0])
        b = Slice(x, [0], u, one)
        o = SequenceInsert(l, b)
    @adds: -> o
        b = Neg(x)
        o = SequenceInsert(q, b)
    @puts first: -> o
        o = SequenceInsert(q, x, 0)
    @hands on: -> o
        o = Identity(q)
    @reads: i c p -> c2 b
        c2 = Identity(c)
        a = SequenceAt(q, i)
        b = Add(p, a)
    @repeats: i c l -> c2 l2
        c2 = Identity(c)
        k = SequenceAt(s, i)
        v = Unsqueeze(i, [0])
        shape = Concat<axis=0>(v, three)
        b = Expand(half, shape)
        l2 = SequenceInsert(l, b)
    @cuts: i c l -> c2 l2
        c2 = Identity(c)
        end = Unsqueeze(i, [0])
        b = Slice(x, [0], end, axis)
        l2 = SequenceInsert(l, b)
    @slices: i c l -> c2 l2
        c2 = Identity(c)
        axis = Unsqueeze(1, [0])
        b = Slice(x, [0], [0], axis)
        l2 = SequenceInsert(l, b)
    @grows: i c p l -> c2 b l2
        c2 = Identity(c)
        b = Concat<axis=0>(p, p)
        l2 = SequenceInsert(l, p)
    @widens: i c p l -> c2 b l2
        c2 = Identity(c)
        b = Unsqueeze(p, [0])
        l2 = SequenceInsert(l, p)
    @replaces: i c p l -> c2 b l2
        c2 = Identity(c)
        b = Neg(x)
        l2 = SequenceInsert(l, p)
";

#[test]
fn reads_of_known_elements_are_operators_on_these() {
    check(
        "q = SequenceConstruct(x, x)
         y = ConcatFromSequence<axis=1>(q) => Concat
         q = SequenceConstruct(x)
         p = SequenceInsert(q, x)
         y = ConcatFromSequence<axis=0;new_axis=1>(p) => Unsqueeze Concat
         q = SplitToSequence<axis=1;keepdims=0>(x)
         y = SequenceAt(q, -1) => Slice Squeeze
         q = SplitToSequence<axis=1>(x, lengths)
         y = SequenceAt(q, 0) => Slice
         # The axis that PyTorch's `unbind` removes.
         q = SplitToSequence<axis=1;keepdims=0>(x, 1)
         y = SequenceAt(q, -1) => Slice Squeeze
         q = SplitToSequence<axis=1>(x, 1)
         p = SequenceErase(q, 0)
         r = SequenceInsert(p, x, -1)
         y = SequenceAt(r, 1) => Identity",
    );
}

#[test]
fn parts_of_any_number_are_gathered() {
    check(
        "q = SplitToSequence<axis=2>(x)
         y = SequenceAt(q, 0) => Gather Unsqueeze
         q = SplitToSequence<axis=2;keepdims=0>(x)
         y = SequenceAt(q, n) => Gather
         # The parts of a known number, at any position.
         q = SplitToSequence<axis=1;keepdims=0>(x)
         y = SequenceAt(q, n) => Gather
         # A vector of one element.
         v = Unsqueeze(n, [0])
         q = SplitToSequence<axis=2;keepdims=0>(x)
         y = SequenceAt(q, v) => Unsqueeze Reshape Gather
         # As many ones as the axis is long, and as many as another one is.
         s = Shape(x)
         k = Slice(s, two, three)
         ones = Expand(one, k)
         q = SplitToSequence<axis=2>(x, ones)
         y = SequenceAt(q, n) => Gather Unsqueeze
         k = Unsqueeze(n, [0])
         ones = Expand(one, k)
         q = SplitToSequence<axis=2>(x, ones)
         y = SequenceAt(q, n)
         => Unsqueeze Expand Shape Shape Slice Slice Concat Reshape Gather Unsqueeze
         q = SplitToSequence<axis=2>(x, 2)
         y = SequenceAt(q, n)
         => Cast Shape Gather Add Div Add Less Where Mul Add Add Less Where Less Where Less Sub Where Sub Where Range Gather
         q = SplitToSequence<axis=2>(x)
         p = SequenceInsert(q, x)
         y = SequenceLength(p) => Shape Gather Add
         q = SplitToSequence<axis=2>(x, 2)
         y = SequenceLength(q) => Shape Gather Add Div
         # Lengths from data.
         k = Unsqueeze(n, [0])
         q = SplitToSequence<axis=2>(x, k)
         y = SequenceAt(q, n)
         => Unsqueeze Cast Abs ReduceSum Unsqueeze Shape Slice Slice Concat Reshape ReduceSum Unsqueeze Shape Slice Slice Concat Reshape CumSum Sub Gather Gather Unsqueeze Unsqueeze Slice
         # The ends of a list whose length is open.
         q = SplitToSequence<axis=2>(x)
         p = SequenceInsert(q, x)
         y = SequenceAt(p, -1) => Identity
         q = SplitToSequence<axis=2>(x)
         p = SequenceInsert(q, x, 0)
         r = SequenceInsert(p, n, 0)
         t = SequenceErase(r, 0)
         y = SequenceAt(t, 0) => Identity
         # Joins: of all as they were, along another axis, and along a new one.
         q = SplitToSequence<axis=2>(x)
         y = ConcatFromSequence<axis=2>(q) => Identity
         q = SplitToSequence<axis=2;keepdims=0>(x)
         y = ConcatFromSequence<axis=0;new_axis=1>(q) => Transpose
         q = SplitToSequence<axis=2>(x)
         p = SequenceInsert(q, x)
         y = ConcatFromSequence<axis=2>(p) => Concat
         q = SplitToSequence<axis=2>(x, 2)
         y = ConcatFromSequence<axis=1>(q) => SplitToSequence ConcatFromSequence",
    );
    // Two axes become one, of which the sizes may be 0.
    let joined = "q = SplitToSequence<axis=2>(x)\ny = ConcatFromSequence<axis=1>(q)";
    let (after, _) = brought(&model(joined, 17));
    assert_eq!(copies_of_sizes(&after), [false]);
}

#[test]
fn tensors_of_one_shape_are_stacked_to_be_read_anywhere() {
    check(
        "q = SequenceConstruct(x, x)
         y = SequenceAt(q, n) => Unsqueeze Concat Gather
         q = SplitToSequence<axis=2;keepdims=0>(x)
         a = Squeeze(x, two)
         p = SequenceInsert(q, a)
         y = SequenceAt(p, n) => Squeeze Transpose Unsqueeze Concat Gather
         z = Concat<axis=1>(x, x)
         q = SequenceConstruct(x, z)
         y = SequenceAt(q, n) => Concat SequenceConstruct SequenceAt
         # A position that the list does not have is an error of the Gather.
         q = SequenceConstruct(x)
         y = SequenceAt(q, 1) => Unsqueeze Gather
         q = SequenceConstruct(x, x)
         y = Loop<body=@reads>(n, _, x) => Unsqueeze Concat Loop",
    );
}

#[test]
fn a_list_that_a_loop_adds_to_is_a_scan_output() {
    check(
        "e = SequenceEmpty()
         a, q = Loop<body=@appends>(n, _, x, e)
         y = ConcatFromSequence<axis=0;new_axis=1>(q) => Loop Identity
         e = SequenceEmpty()
         a, q = Loop<body=@appends>(n, _, x, e)
         y = ConcatFromSequence<axis=0>(q) => Loop Shape Slice Slice Mul Slice Concat Reshape
         e = SequenceEmpty()
         a, q = Loop<body=@appends>(n, _, x, e)
         y = SequenceAt(q, n) => Loop Gather
         e = SequenceEmpty()
         a, q = Loop<body=@appends>(n, _, x, e)
         y = SequenceLength(q) => Loop Shape Gather
         e = SequenceEmpty()
         a, q = Loop<body=@appends>(n, _, x, e)
         y = Loop<body=@reads>(n, _, x) => Loop Loop
         e = SequenceEmpty()
         a, q = Loop<body=@prepends>(n, _, x, e)
         y = SequenceAt(q, n) => Loop Slice Gather
         e = SequenceConstruct(x)
         a, q = Loop<body=@appends>(n, _, x, e)
         y = SequenceAt(q, n) => Loop Unsqueeze Concat Gather
         e = SequenceEmpty()
         a, q = Loop<body=@measures>(n, _, x, e)
         y = ConcatFromSequence<axis=0;new_axis=1>(q) => Loop Identity
         e = SequenceEmpty()
         a, q = Loop<body=@measures in a branch>(n, _, x, e)
         y = ConcatFromSequence<axis=0;new_axis=1>(q) => Loop Identity
         # The last tensor is a state.
         e = SequenceConstruct(x)
         q = Loop<body=@continues>(n, _, e)
         y = SequenceAt(q, n) => Loop Unsqueeze Concat Gather
         # The whole list is one.
         e = SequenceConstruct(x)
         q = Loop<body=@looks up>(n, _, e)
         y = SequenceAt(q, n) => Unsqueeze Loop Gather
         e = SequenceEmpty()
         a, q = Loop<body=@inserts second>(n, _, x, e)
         y = SequenceAt(q, n) => SequenceEmpty Loop SequenceAt
         e = SequenceEmpty()
         a, q = Loop<body=@appends>(n, _, x, e)
         y = my.Op(q) => SequenceEmpty Loop my.Op",
    );
}

#[test]
fn lists_of_tensors_that_may_differ_in_shape_stay_or_are_joined() {
    check(
        "# A Slice as PyTorch writes it.
         e = SequenceEmpty()
         q = Loop<body=@slices>(n, _, e)
         y = ConcatFromSequence<axis=0>(q) => Loop Shape Slice Slice Mul Slice Concat Reshape
         # Sizes that differ along the axis of the join, and along another one, which fails.
         e = SequenceEmpty()
         q = Loop<body=@cuts>(n, _, e)
         y = ConcatFromSequence<axis=2>(q) => Concat ConstantOfShape Loop Identity
         e = SequenceEmpty()
         q = Loop<body=@cuts>(n, _, e)
         y = ConcatFromSequence<axis=0>(q) => Loop Shape Slice Slice Mul Slice Concat Reshape
         # Their number is the number of iterations all the same.
         e = SequenceEmpty()
         q = Loop<body=@cuts>(n, _, e)
         y = SequenceLength(q) => Loop Shape Gather
         e = SequenceEmpty()
         a, q = Loop<body=@grows>(n, _, x, e)
         y = ConcatFromSequence<axis=0>(q) => Shape Slice Concat ConstantOfShape Loop Identity
         e = SequenceEmpty()
         a, q = Loop<body=@widens>(n, _, x, e)
         y = ConcatFromSequence<axis=0>(q) => SequenceEmpty Loop ConcatFromSequence
         e = SequenceEmpty()
         twice = Concat<axis=2>(x, x)
         a, q = Loop<body=@replaces>(n, _, twice, e)
         y = SequenceAt(q, n) => SequenceEmpty Concat Loop SequenceAt
         # Stacking fails unless they have one shape, as the scan output does.
         e = SequenceEmpty()
         twice = Concat<axis=2>(x, x)
         a, q = Loop<body=@replaces>(n, _, twice, e)
         y = ConcatFromSequence<axis=0;new_axis=1>(q) => Concat Loop Identity
         e = SequenceEmpty()
         a, q = Loop<body=@replaces>(n, _, x, e)
         y = ConcatFromSequence<axis=0;new_axis=1>(q) => Loop Identity",
    );
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
    check(
        "e = SequenceEmpty()
         a, q = Loop<body=@inserts second>(n, _, x, e)
         y = SequenceAt(q, n) => ! changes otherwise than by tensors added at an end
         e = SequenceEmpty()
         a, q = Loop<body=@appends>(n, _, x, e)
         y = my.Op(q) => ! the sequence q has other readers than
         e = SequenceEmpty()
         a, q = Loop<body=@grows>(n, _, x, e)
         y = SequenceAt(q, n) => ! the tensors p that it adds to a sequence are not provably of one shape
         z = Concat<axis=1>(x, x)
         q = SequenceConstruct(x, z)
         y = SequenceAt(q, n) => ! not provably of one shape
         q = SplitToSequence<axis=2>(x, 2)
         y = ConcatFromSequence<axis=1>(q) => ! may differ in length",
    );
}

#[test]
fn a_list_of_fixed_length_is_as_many_states() {
    check(
        "e = SequenceConstruct(x, x)
         q = Loop<body=@exchanges>(n, _, e)
         y = SequenceAt(q, 1) => Loop Identity
         e = SequenceConstruct(x, x)
         q = Loop<body=@exchanges>(n, _, e)
         y = ConcatFromSequence<axis=0>(q) => Loop Concat
         e = SequenceConstruct(x, x)
         q = Loop<body=@drops>(n, _, e)
         y = SequenceAt(q, 1) => SequenceConstruct Loop SequenceAt",
    );
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
        body.initializer
            .push(named("place", int64_tensor(&[], &[0])));
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
    check(
        "q = SequenceConstruct(x)
         p = If<then_branch=@adds;else_branch=@adds>(c)
         y = SequenceAt(p, 1) => If Identity
         q = SequenceConstruct(x)
         p = If<then_branch=@adds;else_branch=@puts first>(c)
         y = SequenceAt(p, 1) => SequenceConstruct If SequenceAt
         q = SequenceConstruct(x)
         p = If<then_branch=@adds;else_branch=@hands on>(c)
         y = SequenceAt(p, 1) => SequenceConstruct If SequenceAt",
    );
}

#[test]
fn a_list_that_grows_under_a_condition_is_what_is_kept_of_a_scan_output() {
    check(
        "e = SequenceEmpty()
         q = Loop<body=@adds once>(n, _, e)
         y = ConcatFromSequence<axis=0;new_axis=1>(q)
         => Shape Slice Concat ConstantOfShape Loop Compress Identity
         e = SequenceConstruct(x)
         q = Loop<body=@adds once>(n, _, e)
         y = ConcatFromSequence<axis=0;new_axis=1>(q)
         => Shape Slice Concat ConstantOfShape Loop Compress Unsqueeze Concat Identity
         e = SequenceEmpty<dtype=7>()
         q = Loop<body=@adds a number once>(n, _, e)
         y = SequenceLength(q) => ConstantOfShape Loop Compress Shape Gather
         e = SequenceEmpty()
         q = Loop<body=@adds first but once>(n, _, e)
         y = SequenceAt(q, n) => Shape Slice Concat ConstantOfShape Loop Compress Slice Gather
         e = SequenceEmpty()
         f = SequenceEmpty()
         q, p = Loop<body=@adds to either>(n, _, e, f)
         a = SequenceLength(p)
         y = SequenceAt(q, a)
         => Shape Slice Concat ConstantOfShape Loop Compress Compress Shape Gather Gather
         e = SequenceEmpty()
         q = Loop<body=@adds once and counts>(n, _, e)
         y = SequenceAt(q, n) => ! it reads the sequence l
         e = SequenceEmpty()
         q = Loop<body=@adds slices once>(n, _, e)
         y = SequenceAt(q, n) => ! is not provably of one shape",
    );
}

#[test]
fn a_list_that_grows_in_graphs_of_the_body_is_a_tensor_where_it_is_joined() {
    check(
        "e = SequenceEmpty<dtype=7>()
         q = Loop<body=@adds numbers in a loop>(n, _, e)
         y = ConcatFromSequence<axis=0;new_axis=1>(q) => ConstantOfShape Loop
         e = SequenceConstruct(x)
         q = Loop<body=@adds in a loop>(n, _, e)
         y = ConcatFromSequence<axis=0>(q) => Loop
         e = SequenceConstruct(x)
         q = Loop<body=@adds in a loop>(n, _, e)
         y = SequenceAt(q, n) => SequenceConstruct Loop SequenceAt",
    );
    let inner = body(
        "e = SequenceConstruct(x)\nq = Loop<body=@adds in a loop>(n, _, e)\ny = ConcatFromSequence<axis=0>(q)",
    );
    let operators = all_nodes(&inner).map(NodeProto::op);
    assert_eq!(
        operators.collect::<Vec<_>>().join(" "),
        "Identity Loop Identity Equal If Neg Concat Identity"
    );
}
