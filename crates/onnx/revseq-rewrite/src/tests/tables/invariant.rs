//! Loops that compute the same in every step, and near misses.

use super::{Row, base, changed, check};
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

fn looped(nodes: &[&str]) -> Row {
    Row {
        inner: BODIES,
        ..base(nodes)
    }
}

#[test]
fn what_is_the_same_in_every_step_moves() {
    let mut rows = changed(
        &looped(&[LOOP]),
        "m = Neg(kernel) -> m = Neg(kernel) => Neg Loop | before it
             # All that follows from it, but not what nothing that moves reads.
             m = Neg(kernel) -> k = Neg(kernel); m = Exp(k) => Neg Exp Loop | before it
             m = Neg(kernel) -> m, n = Split<axis=0>(kernel) => Split Loop | before it
             m = Neg(kernel) -> k = Neg(kernel); m = Add(k, h) => Neg Loop | before it
             m = Neg(kernel) -> m = Identity(kernel) => !
             m = Neg(kernel) -> m = Add(kernel, h) => !
             m = Neg(kernel) -> j = Cast<to=1>(i); m = Mul(j, kernel) => !
             m = Neg(kernel) -> d = Cast<to=1>(c); m = Mul(d, kernel) => !
             # Outputs of the body.
             c2 = Identity(c) -> c2 = Cast<to=9>(half); m = Neg(kernel) -> m = Identity(kernel)
             => Cast Loop | before it
             # Other numbers, lists, and operators of others.
             m = Neg(kernel) -> m = RandomNormalLike(kernel) => !
             m = Neg(kernel) -> l = SequenceConstruct(kernel); m = ConcatFromSequence<axis=0>(l) => !
             m = Neg(kernel) -> m = microsoft.Gelu(kernel) => !
             # Out of a loop in a loop, as far as it goes.
             m = Neg(kernel) -> m = Neg(kernel); g = Loop<body=@inner>(four, always, h) => Neg Neg Loop | before it
             m = Neg(kernel) -> k = Abs(kernel); m = Add(k, h); g = Loop<body=@inner>(four, always, h)
             => Abs Loop | before it
             # Before version 9 a Constant may have no integers.
             [opset 8] m = Neg(kernel) -> m = Neg(kernel) => !",
    );
    rows.extend(changed(
        &looped(&["same, y = Loop<body=@body>(four, always, kernel, x)"]),
        "# A state that no step changes.
             i c h -> i c k h; c2 h2 -> c2 k2 h2; m = Neg(kernel) -> k2 = Identity(k); m = Neg(k)
             => Neg Loop | before it",
    ));
    rows.extend(changed(
        &looped(&[SCAN]).set("outputs y z"),
        "# Scans, and steps of their sequences.
             => Neg Scan | before it
             m = Neg(bias) -> m = Neg(now) => !",
    ));
    check("invariant", &rows);
}

/// What a step of a loop without steps does not compute must not fail.
#[test]
fn what_may_fail_moves_only_if_it_runs_anyway() {
    let mut rows = changed(
        &looped(&[LOOP]).with("m = Neg(kernel)", "m = Gather(kernel, own)"),
        "=> Gather Loop | before it
             # It may not run, or end before a step.
             four, always -> four, flag => !
             four, always -> own, always => !
             four, always -> _, always => Gather Loop | before it",
    );
    rows.extend(changed(
        &looped(&[OPEN]),
        "[sizes ? 4 3] m = Neg(kernel) -> m = Gather(kernel, own) => !",
    ));
    rows.extend(changed(
        &looped(&[SCAN])
            .with("m = Neg(bias)", "m = Gather(bias, own)")
            .set("outputs y z"),
        "[sizes 1 ? ?] => Gather Scan | before it
             => !",
    ));
    rows.extend(changed(
        &looped(&[OPEN]).set("sizes ? 4 3"),
        "# What does not fail.
             m = Neg(kernel) -> m = Neg(kernel) => Shape Gather Neg Loop | before it
             m = Neg(kernel) -> m = Cast<to=11>(kernel) => Shape Gather Cast Loop | before it
             m = Neg(kernel) -> m = Cast<to=1>(words)
             shape = Shape(x) -> words = StringNormalizer(own); shape = Shape(x) => !
             m = Neg(kernel) -> m = Transpose<perm=[1,0]>(kernel) => Shape Gather Transpose Loop | before it
             m = Neg(kernel) -> m = Transpose<perm=[1,0,2]>(kernel) => !
             m = Neg(kernel) -> m = Softmax<axis=-1>(kernel) => Shape Gather Softmax Loop | before it
             m = Neg(kernel) -> m = Softmax<axis=2>(kernel) => !
             m = Neg(kernel) -> m = Unsqueeze(kernel, zero) => Shape Gather Unsqueeze Loop | before it
             m = Neg(kernel) -> m = Unsqueeze(kernel, own) => !
             m = Neg(kernel) -> m = Squeeze(begin_row, zero) => Shape Gather Squeeze Loop | before it
             m = Neg(kernel) -> m = Squeeze(kernel, zero) => !
             m = Neg(kernel) -> m = Slice(kernel, one, two, zero) => Shape Gather Slice Loop | before it
             m = Neg(kernel) -> m = Slice(kernel, one, two, four) => !
             m = Neg(kernel) -> m = Slice(kernel, one, two, own) => !
             m = Neg(kernel) -> m = Gather(kernel, two) => Shape Gather Gather Loop | before it
             m = Neg(kernel) -> m = Gather(kernel, three) => !
             m = Neg(kernel) -> m = Concat<axis=0>(kernel, recurrent) => Shape Gather Concat Loop | before it
             m = Neg(kernel) -> m = Concat<axis=1>(kernel, recurrent) => !
             m = Neg(kernel) -> s = Constant<value_ints=[2,3]>(); m = Reshape(kernel, s)
             => Shape Gather Reshape Loop | before it
             m = Neg(kernel) -> m = Reshape(kernel, mixed) => !
             m = Neg(kernel) -> m = Reshape(x, rows) => !
             m = Neg(kernel) -> s = Constant<value_ints=[4,3,2]>(); m = Expand(kernel, s)
             => Shape Gather Expand Loop | before it
             m = Neg(kernel) -> m = Expand(kernel, fours) => !
             m = Neg(kernel) -> m = Add(kernel, bias) => Shape Gather Add Loop | before it
             m = Neg(kernel) -> m = Add(x, half) => Shape Gather Add Loop | before it
             m = Neg(kernel) -> m = Add(kernel, recurrent) => !
             m = Neg(kernel) -> m = Add(x, x) => !
             m = Neg(kernel) -> m = Div(kernel, bias) => Shape Gather Div Loop | before it
             m = Neg(kernel) -> m = Div(four, own) => !
             m = Neg(kernel) -> m = Mod(four, own) => !
             m = Neg(kernel) -> m = MatMul(x, kernel) => Shape Gather MatMul Loop | before it
             m = Neg(kernel) -> m = MatMul(bias, recurrent) => Shape Gather MatMul Loop | before it
             m = Neg(kernel) -> m = MatMul(kernel, kernel) => !
             m = Neg(kernel) -> m = Gemm(kernel, recurrent, bias) => Shape Gather Gemm Loop | before it
             m = Neg(kernel) -> m = Gemm<transA=1>(kernel, kernel) => Shape Gather Gemm Loop | before it
             m = Neg(kernel) -> m = Gemm<transB=1>(kernel, kernel, bias) => !
             m = Neg(kernel) -> m = Gemm(kernel, kernel) => !
             m = Neg(kernel) -> m = ReduceMax<axes=[1]>(kernel) => Shape Gather ReduceMax Loop | before it
             m = Neg(kernel) -> m = ReduceMax<axes=[0]>(x) => !
             m = Neg(kernel) -> m = ReduceMax<axes=[3]>(kernel) => !
             m = Neg(kernel) -> m = TopK(kernel, own) => !",
    ));
    check("invariant", &rows);
}

/// A branch that is never taken computes nothing.
#[test]
fn branches_give_what_cannot_fail() {
    let branched = |looping| {
        looped(&[looping]).with(
            "m = Neg(kernel)\n            h2 = MatMul(h, m)",
            "h2 = If<then_branch=@then;else_branch=@else>(flag)",
        )
    };
    let as_a_whole = |looping| {
        branched(looping).with(
            "n = Neg(kernel)\n            branch = MatMul(h, n)",
            "branch = Gather(kernel, own)",
        )
    };
    let mut rows = changed(
        &branched(LOOP),
        "=> Neg Loop | 1 of its nodes before it
         n = Neg(kernel) -> n = Gather(kernel, own) => !
         # It takes more time.
         n = Neg(kernel) -> n = MatMul(kernel, recurrent) => !",
    );
    // An If moves as a whole.
    let text = "branch = Tanh(h) -> branch = Tanh(kernel) => If Loop | 1 of its nodes before it";
    rows.extend(changed(&as_a_whole(LOOP), text));
    let text = "branch = Tanh(h) -> branch = Gather(bias, own) => !";
    rows.extend(changed(&as_a_whole(OPEN), text));
    // Outside of a loop, too, a branch may not be taken.
    let outside = "h = Neg(x)\ny = If<then_branch=@then;else_branch=@else>(flag)";
    rows.extend(changed(&looped(&[outside]), "=> !"));
    check("invariant", &rows);
}

#[test]
fn slices_of_everything_go() {
    let most = "c2 = Identity(c)\nmost = Constant<value_ints=[9223372036854775807]>()";
    let gone = "Loop | without Slices that take everything";
    let rows = changed(
        &looped(&[LOOP]).with("c2 = Identity(c)", most),
        &format!(
            "m = Neg(kernel) -> m = Slice(h, zero, most, one) => {gone}
             m = Neg(kernel) -> m = Slice(h, zero, most) => {gone}
             m = Neg(kernel) -> m = Slice(kernel, zero, most, one) => {gone}
             m = Neg(kernel) -> k = Slice(kernel, zero, most, one); m = Slice(h, zero, one, one) => {gone}
             # Of known sizes.
             m = Neg(kernel) -> m = Slice(kernel, zero, three, zero) => {gone}
             m = Neg(kernel) -> m = Slice(h, one, two, zero) => !
             m = Neg(kernel) -> m = Slice(h, zero, minus, zero) => !
             m = Neg(kernel) -> m = Slice(h, zero, two, own) => !"
        ),
    );
    check("invariant", &rows);
}

/// A branch has a value named like one of the graph around the loop, and hides it.
#[test]
fn values_keep_their_meaning_in_branches() {
    let row = looped(&[LOOP]).with(
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
