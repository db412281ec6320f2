//! Loops that compute the same in every step, and near misses.

use super::{Row, check, leaves, takes};
use crate::rewrite_messages;
use crate::tests::pass;
use revseq_test_models::text;

/// A loop that runs 4 times.
const LOOP: &str = "y = Loop<body=@body>(four, always, x)";

/// One that may run no step.
const OPEN: &str = "shape = Shape(x)
    time = Gather(shape, zero)
    y = Loop<body=@body>(time, always, x)";

const SCAN: &str = "y, z = Scan<body=@scanned;num_scan_inputs=1>(bias, x)";

const BODIES: &str = "
    @body: i c h -> c2 h2
        c2 = Identity(c)
        m = Neg(kernel)
        h2 = MatMul(h, m)
    @scanned: h now -> h2 z2
        m = Neg(bias)
        h2 = Mul(h, m)
        z2 = Neg(now)
    @inner: j d g -> d2 g2
        d2 = Identity(d)
        n = Neg(m)
        g2 = MatMul(g, n)
    @then: -> branch
        n = Neg(kernel)
        branch = MatMul(h, n)
    @else: -> branch
        branch = Tanh(h)
";

/// A node of the body that moves.
const NODE: &str = "m = Neg(kernel)";

fn looped(row: Row) -> Row {
    Row {
        inner: BODIES,
        ..row
    }
}

fn take(operators: &'static str, to: &'static str) -> Row {
    looped(takes("before it", operators, &[LOOP])).with(NODE, to)
}

fn stay(to: &'static str) -> Row {
    looped(leaves("", &[LOOP])).with(NODE, to)
}

/// A node that moves out of a loop which may run no step.
fn total(operators: &'static str, to: &'static str) -> Row {
    let row = looped(takes("before it", operators, &[OPEN]));
    row.with(NODE, to).sizes([None, Some(4), Some(3)])
}

/// One that may fail, and so does not.
fn partial(to: &'static str) -> Row {
    let row = looped(leaves("", &[OPEN]));
    row.with(NODE, to).sizes([None, Some(4), Some(3)])
}

#[test]
fn what_is_the_same_in_every_step_moves() {
    let rows = [
        take("Neg Loop", NODE),
        // All that follows from it, but not what nothing that moves reads.
        take("Neg Exp Loop", "k = Neg(kernel)\nm = Exp(k)"),
        take("Split Loop", "m, n = Split<axis=0>(kernel)"),
        take("Neg Loop", "k = Neg(kernel)\nm = Add(k, h)"),
        stay("m = Identity(kernel)"),
        stay("m = Add(kernel, h)"),
        stay("j = Cast<to=1>(i)\nm = Mul(j, kernel)"),
        stay("d = Cast<to=1>(c)\nm = Mul(d, kernel)"),
        // Outputs of the body.
        looped(takes("before it", "Cast Loop", &[LOOP]))
            .with("c2 = Identity(c)", "c2 = Cast<to=9>(half)")
            .with(NODE, "m = Identity(kernel)"),
        // Other numbers, lists, and operators of others.
        stay("m = RandomNormalLike(kernel)"),
        stay("l = SequenceConstruct(kernel)\nm = ConcatFromSequence<axis=0>(l)"),
        stay("m = microsoft.Gelu(kernel)"),
        // A state that no step changes.
        looped(takes(
            "before it",
            "Neg Loop",
            &["same, y = Loop<body=@body>(four, always, kernel, x)"],
        ))
        .with("i c h", "i c k h")
        .with("c2 h2", "c2 k2 h2")
        .with(NODE, "k2 = Identity(k)\nm = Neg(k)"),
        // Scans, and steps of their sequences.
        looped(takes("before it", "Neg Scan", &[SCAN])).outputs("y z"),
        looped(leaves("", &[SCAN]))
            .outputs("y z")
            .with("m = Neg(bias)", "m = Neg(now)"),
        // Out of a loop in a loop, as far as it goes.
        take(
            "Neg Neg Loop",
            "m = Neg(kernel)\ng = Loop<body=@inner>(four, always, h)",
        ),
        take(
            "Abs Loop",
            "k = Abs(kernel)\nm = Add(k, h)\ng = Loop<body=@inner>(four, always, h)",
        ),
        // Before version 9 a Constant may have no integers.
        stay(NODE).opset(8),
    ];
    check("invariant", &rows);
}

/// What a step of a loop without steps does not compute must not fail.
#[test]
fn what_may_fail_moves_only_if_it_runs_anyway() {
    let any = "m = Gather(kernel, own)";
    let rows = [
        take("Gather Loop", any),
        partial(any),
        // It may not run, or end before a step.
        stay(any).with("four, always", "four, flag"),
        stay(any).with("four, always", "own, always"),
        take("Gather Loop", any).with("four, always", "_, always"),
        looped(takes("before it", "Gather Scan", &[SCAN]))
            .outputs("y z")
            .with("m = Neg(bias)", "m = Gather(bias, own)")
            .sizes([Some(1), None, None]),
        looped(leaves("", &[SCAN]))
            .outputs("y z")
            .with("m = Neg(bias)", "m = Gather(bias, own)"),
        // What does not fail.
        total("Shape Gather Neg Loop", NODE),
        total("Shape Gather Cast Loop", "m = Cast<to=11>(kernel)"),
        partial("m = Cast<to=1>(words)").with(
            "shape = Shape(x)",
            "words = StringNormalizer(own)\nshape = Shape(x)",
        ),
        total(
            "Shape Gather Transpose Loop",
            "m = Transpose<perm=[1,0]>(kernel)",
        ),
        partial("m = Transpose<perm=[1,0,2]>(kernel)"),
        total("Shape Gather Softmax Loop", "m = Softmax<axis=-1>(kernel)"),
        partial("m = Softmax<axis=2>(kernel)"),
        total("Shape Gather Unsqueeze Loop", "m = Unsqueeze(kernel, zero)"),
        partial("m = Unsqueeze(kernel, own)"),
        total("Shape Gather Squeeze Loop", "m = Squeeze(begin_row, zero)"),
        partial("m = Squeeze(kernel, zero)"),
        total(
            "Shape Gather Slice Loop",
            "m = Slice(kernel, one, two, zero)",
        ),
        partial("m = Slice(kernel, one, two, four)"),
        partial("m = Slice(kernel, one, two, own)"),
        total("Shape Gather Gather Loop", "m = Gather(kernel, two)"),
        partial("m = Gather(kernel, three)"),
        total(
            "Shape Gather Concat Loop",
            "m = Concat<axis=0>(kernel, recurrent)",
        ),
        partial("m = Concat<axis=1>(kernel, recurrent)"),
        total(
            "Shape Gather Reshape Loop",
            "s = Constant<value_ints=[2,3]>()\nm = Reshape(kernel, s)",
        ),
        partial("m = Reshape(kernel, mixed)"),
        partial("m = Reshape(x, rows)"),
        total(
            "Shape Gather Expand Loop",
            "s = Constant<value_ints=[4,3,2]>()\nm = Expand(kernel, s)",
        ),
        partial("m = Expand(kernel, fours)"),
        total("Shape Gather Add Loop", "m = Add(kernel, bias)"),
        total("Shape Gather Add Loop", "m = Add(x, half)"),
        partial("m = Add(kernel, recurrent)"),
        partial("m = Add(x, x)"),
        total("Shape Gather Div Loop", "m = Div(kernel, bias)"),
        partial("m = Div(four, own)"),
        partial("m = Mod(four, own)"),
        total("Shape Gather MatMul Loop", "m = MatMul(x, kernel)"),
        total("Shape Gather MatMul Loop", "m = MatMul(bias, recurrent)"),
        partial("m = MatMul(kernel, kernel)"),
        total(
            "Shape Gather Gemm Loop",
            "m = Gemm(kernel, recurrent, bias)",
        ),
        total(
            "Shape Gather Gemm Loop",
            "m = Gemm<transA=1>(kernel, kernel)",
        ),
        partial("m = Gemm<transB=1>(kernel, kernel, bias)"),
        partial("m = Gemm(kernel, kernel)"),
        total(
            "Shape Gather ReduceMax Loop",
            "m = ReduceMax<axes=[1]>(kernel)",
        ),
        partial("m = ReduceMax<axes=[0]>(x)"),
        partial("m = ReduceMax<axes=[3]>(kernel)"),
        partial("m = TopK(kernel, own)"),
    ];
    check("invariant", &rows);
}

/// A branch that is never taken computes nothing.
#[test]
fn branches_give_what_cannot_fail() {
    let branched = |row: Row| {
        row.with(
            "m = Neg(kernel)\n            h2 = MatMul(h, m)",
            "h2 = If<then_branch=@then;else_branch=@else>(flag)",
        )
    };
    let rows = [
        branched(looped(takes(
            "1 of its nodes before it",
            "Neg Loop",
            &[LOOP],
        ))),
        branched(looped(leaves("", &[LOOP]))).with("n = Neg(kernel)", "n = Gather(kernel, own)"),
        // It takes more time.
        branched(looped(leaves("", &[LOOP])))
            .with("n = Neg(kernel)", "n = MatMul(kernel, recurrent)"),
        // An If moves as a whole.
        branched(looped(takes(
            "1 of its nodes before it",
            "If Loop",
            &[LOOP],
        )))
        .with(
            "n = Neg(kernel)\n            branch = MatMul(h, n)",
            "branch = Gather(kernel, own)",
        )
        .with("branch = Tanh(h)", "branch = Tanh(kernel)"),
        branched(looped(leaves("", &[OPEN])))
            .with(
                "n = Neg(kernel)\n            branch = MatMul(h, n)",
                "branch = Gather(kernel, own)",
            )
            .with("branch = Tanh(h)", "branch = Gather(bias, own)"),
        // Outside of a loop, too, a branch may not be taken.
        looped(leaves(
            "",
            &["h = Neg(x)\ny = If<then_branch=@then;else_branch=@else>(flag)"],
        )),
    ];
    check("invariant", &rows);
}

#[test]
fn slices_of_everything_go() {
    let most = "most = Constant<value_ints=[9223372036854775807]>()\n";
    let gone = |to| {
        let row = takes("without Slices that take everything", "Loop", &[LOOP]);
        looped(row).with(NODE, to).with("most = ", most)
    };
    let rows = [
        gone("most = m = Slice(h, zero, most, one)"),
        gone("most = m = Slice(h, zero, most)"),
        gone("most = m = Slice(kernel, zero, most, one)"),
        gone("most = k = Slice(kernel, zero, most, one)\nm = Slice(h, zero, one, one)"),
        // Of known sizes.
        gone("most = m = Slice(kernel, zero, three, zero)"),
        stay("m = Slice(h, one, two, zero)"),
        stay("m = Slice(h, zero, minus, zero)"),
        stay("m = Slice(h, zero, two, own)"),
    ];
    check("invariant", &rows);
}

/// A branch has a value named like one of the graph around the loop, and hides it.
#[test]
fn values_keep_their_meaning_in_branches() {
    let row = looped(takes("before it", "Neg Loop", &[LOOP])).with(
        "m = Neg(kernel)
            h2 = MatMul(h, m)",
        "most = Constant<value_ints=[9223372036854775807]>()
        s = Slice(kernel, zero, most)
        m = Neg(bias)
        h2 = If<then_branch=@then;else_branch=@else>(flag)",
    );
    let row = row
        .with("n = Neg(kernel)", "kernel = Tanh(h)\nn = Add(kernel, m)")
        .with("branch = MatMul(h, n)", "branch = MatMul(n, s)")
        .with("branch = Tanh(h)", "branch = MatMul(h, s)");
    let mut model = row.model();
    rewrite_messages(&mut model, &pass("invariant")).expect("a known pass");
    let graph = model.graph.as_option().expect("a graph");
    let body = graph.node.last().and_then(|node| node.graph("body"));
    let expected = ": i c h
c2 = Identity(c)
s = Identity(kernel)
h2 = If(flag)
  then_branch
    : \n    kernel = Tanh(h)
    n = Add(kernel, y/Neg:0)
    branch = MatMul(n, s)
    return branch
  else_branch
    : \n    branch = MatMul(h, s)
    return branch
return c2 h2
";
    assert_eq!(text::write(body.expect("a loop")), expected);
}
