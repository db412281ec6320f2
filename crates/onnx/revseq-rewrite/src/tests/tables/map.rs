//! Loops and Scans that map each step on its own, and near misses.

use super::{Expected, Row, base, changed, check};
use revseq_test_models::text;

const START: &str = "shape = Shape(x)
    time = Gather(shape, zero)";

const LOOP: &str = "counted, y = Loop<body=@mapped>(time, always, start)";

const SCAN: &str = "y = Scan<body=@scanned;num_scan_inputs=1>(x)";

const BODIES: &str = "
    @mapped: i c t -> c2 t2 step
        t2 = Add(t, next)
        c2 = Less(t2, time)
        now = Gather<axis=0>(x, t)
        fed = MatMul(now, kernel)
        step = Tanh(fed)
    @scanned: now -> step
        fed = MatMul(now, kernel)
        step = Tanh(fed)
    @passing: i c t u n xs -> c3 t2 u2 n2 xs2 step
        t2 = Add(t, next)
        u2 = Add(u, next)
        c2 = Less(t2, time)
        c4 = Less(u2, n)
        c3 = And(c2, c4)
        now = Gather<axis=0>(xs, u)
        fed = MatMul(now, kernel)
        step = Tanh(fed)
        n2 = Identity(n)
        xs2 = Identity(xs)
    @reading: -> read
        more = Neg(z)
        read = Neg(more)
    @carrying: i c t h -> c2 t2 h2 step
        t2 = Add(t, next)
        c2 = Less(t2, time)
        now = Gather<axis=0>(x, t)
        h2 = Add(now, h)
        step = Tanh(h2)
";

const PASSING: &str =
    "a, b, size, same, y = Loop<body=@passing>(time, always, start, start, time, x)";

const IN_BRANCH: &str = "counted, z = Loop<body=@mapped>(time, always, start)
    y = If<then_branch=@reading;else_branch=@reading>(flag)";

/// The numbers of the steps, as TensorFlow's `pfor` lists them for TimeDistributed.
const LISTED: &str = "shape = Shape(x)
    time = Gather(shape, origin)
    range = Range(start, time, next)
    sized = Cast<to=1>(time)
    longer = Greater(sized, whole)
    factor = Cast<to=7>(longer)
    product = Mul(factor, range)
    list = Gather(range, product)
    starts = Unsqueeze(list, one)";

/// A step at a number out of that list.
const SLICES: &str = "place = Unsqueeze(t, zero)
            corner = Concat<axis=0>(place, zero)
            number = Slice(starts, corner, fours, leading)
            at = Squeeze(number, zero)
            row = Slice(x, at, four, zero)
            now = Squeeze(row, zero)";

/// Nodes with the loops' bodies.
fn looped(nodes: &[&str]) -> Row {
    Row {
        inner: BODIES,
        ..base(nodes)
    }
}

/// Rows of what stands for `fed = MatMul(now, kernel)`, and the operators or `! reason`.
fn replaced(text: &str) -> Vec<Row> {
    let base = looped(&[START, LOOP]);
    let row = |(to, expected): &(String, &str)| Row {
        expected: match expected.strip_prefix("! ") {
            Some(why) => Expected::Left(why.to_owned()),
            None => Expected::Taken(
                "its body over all steps at once".to_owned(),
                (*expected).to_owned(),
            ),
        },
        ..base.clone().with("fed = MatMul(now, kernel)", to)
    };
    text::rows(text).iter().map(row).collect()
}

/// Each operator, and a form of it that depends on the step in another way.
#[test]
fn operators_of_maps() {
    let mut rows = replaced(
        "fed = MatMul(now, kernel) => MatMul Tanh
         row = ReduceSum<keepdims=0>(now)
         fed = MatMul(row, kernel) => ! MatMul (fed), which multiplies a scalar
         fed = Gemm(now, kernel, bias) => MatMul Add Tanh
         fed = Gemm<transB=1>(now, w2d) => Transpose MatMul Tanh
         fed = Gemm<alpha=2>(now, kernel) => ! Gemm (fed), which has factors other than 1
         fed = Mean(half, now) => Unsqueeze Mean Tanh
         row = ReduceSum<keepdims=0>(now, zero)
         fed = Sum(recurrent, row) => ReduceSum Unsqueeze Unsqueeze Sum Tanh
         fed = Clip(now, nought, whole) => Clip Tanh
         most = ReduceMax<keepdims=0>(now)
         fed = Clip(now, nought, most)
         => ! Clip (fed), which has parameters that depend on the step
         row = ReduceSum<keepdims=0>(now, zero)
         fed = Add(now, row) => ReduceSum Unsqueeze Add Tanh
         fed = ReduceSum<noop_with_empty_axes=1>(now) => ! lists no axes
         fed = ReduceMax<keepdims=0>(now) => ReduceMax Tanh
         fed = Softmax<axis=-1>(now) => Softmax Tanh
         fed = Softmax<axis=2>(now) => ! Softmax (fed), which has an axis that its input lacks
         fed = LayerNormalization<axis=1>(now, whole) => LayerNormalization Tanh
         fed, mean = LayerNormalization<axis=1>(now, whole) => ! outputs means or deviations
         fed = Transpose(now) => Transpose Tanh
         row = Unsqueeze(now, one)
         fed = Squeeze(row, one) => Unsqueeze Squeeze Tanh
         fed = Squeeze(now) => ! removes axes that are not known
         fed = Concat<axis=-1>(now, now) => Concat Tanh
         fed = Concat<axis=2>(now, now) => ! Concat (fed), which has an axis that its input lacks
         fed = Slice(now, zero, one, one) => Slice Tanh
         from = Cast<to=6>(zero)
         to = Cast<to=6>(one)
         fed = Slice(now, from, to, to) => Cast Cast Cast Slice Tanh
         at = Unsqueeze(t, zero)
         fed = Slice(now, zero, at, zero)
         => ! Slice (fed), which has a shape that depends on the step
         a, b = Split<axis=2>(now)
         fed = Add(a, b) => ! Split (a), which has an axis that its input lacks
         fed = Reshape(now, upright) => Shape Slice ReduceProd Div Slice Concat Reshape Tanh
         own = Shape(now)
         fed = Reshape(now, own) => Shape Slice Concat Reshape Tanh
         at = Unsqueeze(t, zero)
         fed = Reshape(now, at) => ! Reshape (fed), which has a shape that depends on the step
         fed = Expand(now, sizes) => Unsqueeze Expand Tanh
         ids = Cast<to=7>(now)
         fed = Gather(kernel, ids) => Cast Gather Tanh
         ids = Cast<to=7>(now)
         fed = Gather<axis=1>(kernel, ids) => ! along another axis than the first
         ids = Cast<to=7>(now)
         fed = Gather<axis=1>(now, ids) => ! at places that depend on the step
         fed = Gather<axis=1>(now, zero) => Gather Tanh
         row = Unsqueeze(now, zero)
         fed = MaxPool<ceil_mode=1;kernel_shape=[2];pads=[1,1];strides=[2]>(row)
         => ! MaxPool (fed), which rounds its size up, of which ONNX's own inference may be wrong
         row = Unsqueeze(now, zero)
         fed = MaxPool<ceil_mode=1;kernel_shape=[1];strides=[2]>(row)
         => ! MaxPool (fed), which rounds its size up
         less = Equal(now, nought)
         fed = Where(less, now, half) => Equal Where Tanh
         at = Cast<to=1>(t)
         fed = Add(now, at) => Shape Slice Squeeze Range Cast Unsqueeze Add Tanh
         fed = CumSum(now, zero) => ! CumSum (fed), which has no form over all steps
         fed = NonZero(now) => ! NonZero (fed), which has no form over all steps
         fed = RandomNormalLike(now) => ! RandomNormalLike (fed), which has no form over all steps",
    );
    rows.extend(changed(
        &looped(&[START, LOOP]),
        "fed = MatMul(now, kernel) -> a, b = Split<axis=1>(now, leading); fed = Add(a, b); leading -> fours
         => Split Add Tanh | its body over all steps at once
         [sizes 5 2 3] fed = MatMul(now, kernel) -> fed = Reshape(now, rows)
         => Reshape Tanh | its body over all steps at once
         [sizes ? ? 3] fed = MatMul(now, kernel) -> fed = Reshape(now, rows)
         => Reshape Tanh | its body over all steps at once
         [opset 13] fed = MatMul(now, kernel) -> fed = Reshape(now, upright) => ! leaves a size open
         fed = MatMul(now, kernel) -> row = Unsqueeze(now, zero); fed = MaxPool<ceil_mode=1;kernel_shape=[2];strides=[2]>(row)
         => any | its body over all steps at once",
    ));
    check("map", &rows);
}

/// Steps, sequences and outputs.
#[test]
fn steps_of_maps() {
    let what = "its body over all steps at once";
    let early = "its condition c2 may end it before the last step";
    let mut rows = changed(
        &looped(&[START, LOOP]),
        &format!("=> MatMul Tanh | {what}
             [opset 9] => MatMul Tanh | {what}
             (time, always -> (_, always => MatMul Tanh | {what}
             Gather(shape, zero) -> Gather(shape, one); Gather<axis=0>(x, t) -> Gather<axis=1>(x, t)
             => Transpose MatMul Tanh | {what}
             Gather<axis=0>(x, t) -> Gather(x, at); now = Gather -> at = Unsqueeze(t, zero); now = Gather
             => Unsqueeze MatMul Tanh | {what}
             # Fewer steps than the sequence has, which the graph does not rule out.
             Gather(shape, zero) -> Gather(shape, one) => Shape Slice Squeeze Range Gather MatMul Tanh | {what}
             Gather<axis=0>(x, t) -> Gather<axis=1>(x, t) => any | {what}
             step = Tanh(fed) -> step = Identity(now) =>  | {what}
             [opset 8] => ! below 9
             Gather<axis=0>(x, t) -> Gather(x, t2) => ! Gather (now), which reads another step than its own
             Less(t2, time) -> Less(t2, four) => ! {early}
             c2 = Less(t2, time) -> c2 = Cast<to=9>(t2) => ! is not one that compares
             [untyped] => ! the number of axes of x is not known"),
    );
    rows.extend(changed(
        &looped(&[
            START,
            "counted, last, y = Loop<body=@carrying>(time, always, start, half)",
        ]),
        &format!(
            "# A carried state, also one that nothing reads.
             => !
             step = Tanh(h2) -> step = Tanh(now) => Tanh | {what}"
        ),
    ));
    rows.extend(changed(
        &looped(&[START, PASSING]),
        &format!("# As `tf.map_fn` is exported: counters of steps and of elements, and what it reads as states.
             => MatMul Tanh | {what}
             Less(u2, n) -> Less(u2, five) => ! its condition c3 may end it before the last step
             xs2 = Identity(xs) -> xs2 = Neg(xs) => !"),
    ));
    rows.extend(changed(
        &looped(&[START, "counted, last, ended, same, y = Loop<body=@passing>(time, always, start, start, time, x)"]),
        &format!("[outputs y same] => any | {what}"),
    ));
    rows.extend(changed(
        &looped(&[SCAN]),
        &format!("=> MatMul Tanh | {what}
             num_scan_inputs=1 -> num_scan_inputs=1;scan_input_axes=[1] => Transpose MatMul Tanh | {what}
             num_scan_inputs=1 -> num_scan_inputs=1;scan_input_directions=[1] => Slice MatMul Tanh | {what}
             num_scan_inputs=1 -> num_scan_inputs=1;scan_output_axes=[-1];scan_output_directions=[1]
             => MatMul Tanh Slice Transpose | {what}"),
    ));
    rows.extend(changed(
        &looped(&[START, IN_BRANCH]),
        &format!("# ONNX Runtime refuses an If of that version whose branches differ in a shape that it knows.
             [opset 10] => ! version 10 of ONNX's operators has no branches of other shapes
             [opset 11] => MatMul Tanh If | {what}"),
    ));
    check("map", &rows);
}

/// Steps that a Slice reads, at numbers out of a list.
#[test]
fn sliced_steps_of_maps() {
    let unread = "Slice (row), which has a shape that depends on the step";
    let rows = changed(
        &looped(&[LISTED, LOOP]).with("now = Gather<axis=0>(x, t)", SLICES),
        &format!("=> any | its body over all steps at once
             product = Mul(factor, range) -> product = Where(longer, range, start)
             => any | its body over all steps at once
             product = Mul(factor, range) -> product = Mul(range, next) => any | its body over all steps at once
             time = Gather(shape, origin) -> size = Gather(shape, zero); time = ReduceMax<keepdims=0>(size)
             => any | its body over all steps at once
             Gather(shape, origin) -> Gather(shape, next) => any | its body over all steps at once
             Slice(x, at, four, zero) -> Slice(x, at, four, zero, four) => any | its body over all steps at once
             # Another list, or one that is a range for some sizes alone.
             Greater(sized, whole) -> Greater(sized, two_times) => ! {unread}
             Range(start, time, next) -> Range(next, time, next) => ! {unread}
             Mul(factor, range) -> Mul(range, range) => ! {unread}
             product = Mul(factor, range) -> product = Where(longer, range, next) => ! {unread}
             product = Mul -> product = Add => ! {unread}
             Gather(range, product) -> Gather(product, range); (sized, whole) -> (sized, two_times) => ! {unread}
             # More than a step, or from its end.
             (starts, corner, fours, leading) -> (starts, corner, mixed, leading, fours) => ! Slice (number), which
             Slice(x, at, four, zero) -> Slice(x, at, first, zero, minus) => ! {unread}
             now = Squeeze(row, zero) -> now = Identity(row) => ! Slice (row), which"),
    );
    check("map", &rows);
}
