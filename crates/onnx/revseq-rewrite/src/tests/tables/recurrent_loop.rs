//! Loops and Scans that are recurrent layers, and near misses.

use super::super::{exported, fast, rewritten, value};
use super::{Row, base, changed, check};
use crate::Options;
use crate::model::{FLOAT, NodeProto, declared_sizes};
use revseq_onnx::set_size;

/// The start of every graph.
pub(super) const START: &str = "shape = Shape(x)
    time = Gather(shape, zero)
    batch = Gather(shape, one)
    states = Concat<axis=0>(batch, two)
    begin = Expand(nought, states)";

/// The same without the number of steps.
pub(super) const STATES: &str = "shape = Shape(x)
    batch = Gather(shape, one)
    states = Concat<axis=0>(batch, two)
    begin = Expand(nought, states)";

/// A mask of the steps whose largest feature is not 0.
pub(super) const MASK: &str = "any = ReduceMax<axes=[2];keepdims=1>(x)
    mask = Cast<to=9>(any)";

/// The loop with a mask: `y` repeats the last valid output.
pub(super) const MASKED: &str = "done = Expand(nought, states)
    counted, last, ended, y = Loop<body=@masked>(time, always, start, begin, done)";

/// SimpleRNN as tf2onnx writes it: `y` holds all steps.
const LOOP: &str = "counted, last, y = Loop<body=@body>(time, always, start, begin)";

/// The next step of a Loop: its number, the condition and the input.
macro_rules! next_step {
    () => {
        "t2 = Add(t, next)
            c2 = Less(t2, time)
            now = Gather<axis=0>(x, t)\n"
    };
}

/// The argument of a SimpleRNN's activation, without a bias.
macro_rules! sum {
    () => {
        "fed = MatMul(now, kernel)
            kept = MatMul(h, recurrent)
            both = Add(fed, kept)\n"
    };
}

const LOOPS: &str = concat!(
    "@body: i c t h -> c2 t2 h2 step\n",
    next_step!(),
    sum!(),
    "sum = Add(both, bias)
    h2 = Tanh(sum)
    step = Identity(h2)
    @negated: now -> step
    step = Neg(now)
    @scanned: h now -> h2 step\n",
    sum!(),
    "sum = Add(both, bias)
    h2 = Tanh(sum)
    step = Identity(h2)
    @masked: i c t h repeated -> c2 t2 h2 output step\n",
    next_step!(),
    "counts = Gather<axis=0>(mask, t)\n",
    sum!(),
    "sum = Add(both, bias)
    new = Tanh(sum)
    h2 = Where(counts, new, h)
    output = Where(counts, new, repeated)
    step = Identity(output)
    @buffered: i c t h buffer -> c2 t2 h2 buffer2\n",
    next_step!(),
    sum!(),
    "h2 = Tanh(both)
    buffer2 = Reshape(h2, framed)
    @masked_buffer: i c t h repeated buffer -> c2 t2 h2 output buffer2\n",
    next_step!(),
    "counts = Gather<axis=0>(mask, t)\n",
    sum!(),
    "new = Tanh(both)
    h2 = Where(counts, new, h)
    output = Where(counts, new, repeated)
    buffer2 = Unsqueeze(output, zero)
    @limited: t h now -> t2 h2 step
    t2 = Add(t, next)
    over = GreaterOrEqual(t, lens)
    column = Reshape(over, upright)\n",
    sum!(),
    "new = Tanh(both)
    h2 = Where(column, h, new)
    step = Where(column, begin, new)"
);

/// Nodes with the loops' bodies.
pub(super) fn with_bodies(nodes: &[&str]) -> Row {
    Row {
        inner: LOOPS,
        ..base(nodes)
    }
}

#[test]
fn recurrent_loop() {
    let layer = "Shape Slice Concat Expand RNN Squeeze";
    // Values that were unread before stay.
    let unread_time = "Shape Gather Shape Slice Concat Expand RNN Squeeze";
    let cell = "not the cell of an LSTM, GRU or SimpleRNN with constant weights";
    let size = "its condition c2 is not one that compares the step with a size";
    let early = "its condition c2 may end it before the last step";
    let once = "it does not provably run once for each step of its input";
    let read = "the input now of its cell is not read step by step";
    let output = "its output y is not that of its cell";
    let starts = "does not provably begin with a row of units for each sequence";
    let slower =
        "RNN, forward; ONNX Runtime's RNN takes up to twice as long as a loop, in large batches";
    let mut rows = changed(
        &with_bodies(&[START, LOOP]),
        &format!("=> {layer} | {slower}
             [opset 9] => {layer} | RNN, forward
             # Forms of its end: only the count, or only the condition.
             c2 = Less(t2, time) -> c2 = Identity(always) => {layer} | RNN, forward
             c2 = Less(t2, time) -> c2 = Identity(c) => {layer} | RNN, forward
             (time, always, start -> (_, always, start => {layer} | RNN, forward
             (time, always -> (_, _; Less(t2, time) -> Greater(time, t2) => {layer} | RNN, forward
             c2 = Less(t2, time) -> under = Less(i, time); ahead = Less(t2, time); c2 = And(ahead, under)
             => {layer} | RNN, forward
             # A known number of steps, as integers, or as floats in the body.
             [sizes ? 5 3] shape = Shape(x) -> turned = Transpose<perm=[1,0,2]>(x); shape = Shape(turned)
             Gather<axis=0>(x, t) -> Gather<axis=0>(turned, t); (time, always -> (five, always
             c2 = Less(t2, time) -> float = Cast<to=1>(t2); end = Identity(fives); c2 = Less(float, end)
             => Transpose Shape Gather Shape Slice Concat Expand RNN Squeeze | RNN, forward
             [sizes 5 ? 3] (time, always -> (_, always; Less(t2, time) -> Less(t2, five)
             => {unread_time} | RNN, forward
             [sizes 5 ? 3] (time, always -> (endless, always; Less(t2, time) -> Less(t2, five)
             => {unread_time} | RNN, forward
             [sizes 4 ? 3] (time, always -> (five, always; Less(t2, time) -> Less(t2, five) => ! {once}
             [sizes 5 ? 3] (time, always -> (five, always; Less(t2, time) -> Less(i, five)
             five, always -> endless, always => ! {once}
             Add(fed, kept) -> Add(kept, fed); Tanh -> Relu => {layer} | RNN, forward
             [outputs y last] => Shape Slice Concat Expand RNN Squeeze Squeeze | RNN, forward
             Expand(nought -> Expand(half
             => Shape Gather Concat Expand Shape Slice Concat Expand Unsqueeze RNN Squeeze | RNN, forward
             # Read at a vector index, with the axis squeezed out again.
             Gather<axis=0>(x, t) -> Gather<axis=0>(x, at); now = Squeeze(one_step, zero)
             now = Gather -> at = Unsqueeze(t, zero); one_step = Gather => {layer} | RNN, forward
             # The batch axis comes first.
             Gather(shape, zero) -> Gather(shape, one); batch = Gather(shape, one) -> batch = Gather(shape, zero)
             Gather<axis=0>(x, t) -> Gather<axis=1>(x, t)
             => Transpose Shape Slice Concat Expand RNN Squeeze | RNN, forward
             # Weights behind a transpose, a product with a bias, or a concatenation.
             kept = MatMul(h, recurrent) -> turned = Transpose<perm=[1,0]>(recurrent); kept = MatMul(h, turned)
             => {layer} | RNN, forward
             fed = MatMul(now, kernel) -> fed = Gemm(now, kernel, bias) => {layer} | RNN, forward
             both = Add(fed, kept) -> both = Gemm<transB=1>(now, w2d, kept) => {layer} | RNN, forward
             both = Add(fed, kept) -> joined = Concat<axis=1>(now, h); both = MatMul(joined, stack)
             => {layer} | RNN, forward
             both = Add(fed, kept) -> joined = Concat<axis=-1>(h, now); both = MatMul(joined, stack)
             => {layer} | RNN, forward
             # A row of one sequence without its batch axis, beside one that has it.
             both = Add(fed, kept) -> row = Squeeze(kept); both = Add(fed, row) => {layer} | RNN, forward
             both = Add(fed, kept) -> row = Reshape(kept, two); both = Add(row, fed) => {layer} | RNN, forward
             both = Add(fed, kept) -> row = Squeeze(kept, zero); both = Add(fed, row) => {layer} | RNN, forward
             both = Add(fed, kept) -> row = Squeeze(kept, one); both = Add(fed, row) => ! {cell}
             both = Add(fed, kept) -> row = Reshape(kept, four); both = Add(fed, row) => ! {cell}
             both = Add(fed, kept) -> row = Squeeze(kept); flat = Squeeze(fed); both = Add(flat, row) => ! {cell}
             both = Add(fed, kept) -> row = Reshape(kept, two); flat = Reshape(fed, two); both = Add(flat, row)
             => ! {cell}
             both = Add(fed, kept) -> joined = Concat<axis=0>(now, h); both = MatMul(joined, stack) => ! {cell}
             both = Add(fed, kept) -> joined = Concat<axis=1>(now, now); both = MatMul(joined, stack) => ! {cell}
             fed = MatMul(now, kernel) -> fed = Gemm<transA=1>(now, kernel) => ! {cell}
             # A counter that does not start at 0, or does not count by 1.
             always, start, -> always, next, => ! {early}
             Add(t, next) -> Add(t, five) => ! {size}
             Add(t, next) -> Sub(t, minus) => ! {size}
             # A counter that becomes a vector, so that the slice has one more axis.
             Add(t, next) -> Add(t, one) => ! {size}
             always, start, -> always, zero, => ! {read}
             Gather<axis=0>(x, t) -> Gather<axis=0>(x, at); now = Gather -> at = Add(i, zero); now = Gather
             => ! {read}
             # An early exit, and an exit that depends on computed values.
             Less(t2, time) -> Less(t2, four) => ! {early}
             Loop<body=@body>(time -> Loop<body=@body>(four => ! {early}
             c2 = Less(t2, time) -> goes = Less(t2, time); most = ReduceMax<keepdims=0>(h); small = Less(most, half); c2 = And(goes, small)
             => ! {size}
             Less(t2, time) -> Greater(t2, time) => ! {size}
             (time, always -> (time, flag => ! may keep it from starting
             Gather(shape, zero) -> Gather(shape, one) => ! {once}
             Gather(shape, zero) -> Identity(lens) => ! {once}
             (time, always -> (_, always; c2 = Less(t2, time) -> c2 = Identity(always) => ! {once}
             # It reads another axis, the next step, or always the same one.
             Gather<axis=0> -> Gather<axis=1> => ! {once}
             Gather<axis=0>(x, t) -> Gather<axis=0>(x, t2) => ! {read}
             Gather<axis=0>(x, t) -> Gather<axis=0>(x, start) => ! {read}
             # Activations and sums of no cell, and weights that are not constant.
             Tanh -> Sinh => ! {cell}
             Add(fed, kept) -> Sub(fed, kept) => ! {cell}
             MatMul(h, -> MatMul(now, => ! {cell}
             MatMul(h, recurrent) -> MatMul(h, kernel) => ! {cell}
             [replaceable kernel] => ! {cell}
             [replaceable bias] => ! {cell}
             recurrent) -> squared); shape = Shape(x) -> shape = Shape(x); squared = Mul(recurrent, recurrent)
             => ! {cell}
             # A bias of higher rank than the step, or of another size.
             Add(both, bias) -> Add(both, r) => ! {cell}
             Add(both, bias) -> Add(both, kernel) => ! {cell}
             # More is read than the layer's outputs.
             [outputs y counted] => ! its step counter is read
             step = Identity(h2) -> step = Neg(h2) => ! {output}
             step = Identity(h2) -> step = Identity(sum) => ! {output}
             # Too little is known about the input and the state.
             [untyped] => ! not provably of 3 axes
             Expand(nought, states) -> Identity(x) => ! {starts}
             # An initial state of unknown batch is used as it is; one of another width is not.
             begin = Expand(nought, states) -> all = ReduceSum<keepdims=1>(lens); others = Concat<axis=0>(all, two); begin = Expand(nought, others)
             => any | RNN, forward
             begin = Expand(nought, states) -> all = ReduceSum<keepdims=1>(lens); others = Concat<axis=0>(all, four); begin = Expand(half, others)
             => ! {starts}
             Expand(nought, states) -> Expand(nought, fours) => ! {starts}"),
    );
    rows.extend(changed(
        &with_bodies(&[START, "flipped = Slice(x, minus, first, zero, minus)", LOOP]),
        "Gather<axis=0>(x, t) -> Gather<axis=0>(flipped, t)
             => Shape Slice Concat Expand RNN Squeeze Slice | RNN, reverse",
    ));
    rows.extend(changed(
        &base(&["y = Neg(x)"]),
        "# No loop, and a body that is no layer.
             => !",
    ));
    check("recurrent-loop", &rows);
}

/// A loop broadcasts an input of one sequence to the rows of its states and of its mask.
#[test]
fn recurrent_loop_of_more_rows_than_its_input() {
    let ordered = "RNN, forward, with the steps that its mask counts put first";
    let of_lens = "many = Shape(lens)
        wide = Concat<axis=0>(time, many, one)
        mask = Expand(flag, wide)";
    let limited = "ended, last, y = Scan<body=@limited;num_scan_inputs=1>(start, begin, x)";
    let mut rows = changed(
        &with_bodies(&[START, LOOP]),
        "# Zeros of other rows, which are known or not.
             Expand(nought, states) -> Identity(three_rows)
             => Shape Gather Concat Expand Shape Slice Concat Expand RNN Squeeze | RNN, forward
             states = Concat<axis=0>(batch, two) -> many = Shape(lens); states = Concat<axis=0>(many, two)
             => Shape Gather Shape Concat Expand Shape Slice Concat Expand Shape Slice Concat Expand RNN Squeeze | RNN, forward
             # There are never more than one.
             Expand(nought, states) -> Identity(begin_row)
             => Shape Gather Concat Shape Slice Concat Expand Unsqueeze RNN Squeeze | RNN, forward",
    );
    rows.extend(changed(
        &with_bodies(&[START, of_lens, MASKED]),
        &format!("=> any | {ordered}
             [options pass:recurrent-loop masked] => any | RNN, forward, with its mask
             # A mask that is always true.
             Expand(flag, wide) -> Expand(always, wide) => any | RNN, forward
             # Outputs that begin with as many rows as their layer, or with others.
             Expand(nought, states) -> Identity(three_rows); start, begin, done -> start, begin, begin
             => any | {ordered}
             done = Expand(nought, states) -> done = Identity(three_rows)
             => ! its state done does not provably begin with a row of units for each sequence"),
    ));
    rows.extend(changed(
        &with_bodies(&[START, limited]),
        "# The states of a Scan keep their rows.
             => Shape Gather Shape Slice Gather Cast Expand Less Where Greater Where Cast Concat Expand RNN Squeeze | RNN, forward, with its lengths",
    ));
    check("recurrent-loop", &rows);
}

/// It waits until no other pass proves more: here, that a map keeps the sequences.
#[test]
fn loops_with_rows_that_may_differ_wait_for_other_passes() {
    let mapped = "turned = Scan<body=@negated;num_scan_inputs=1>(x)\nlength = Shape(turned)";
    let row = with_bodies(&[mapped, START, LOOP])
        .with("Gather<axis=0>(x, t)", "Gather<axis=0>(turned, t)")
        .with("Gather(shape, zero)", "Gather(length, zero)");
    let (model, _) = rewritten(&row.model(), &fast());
    let nodes = &model.graph.as_option().unwrap().node;
    let layer = nodes.iter().find(|node| node.is("RNN")).unwrap();
    assert_eq!(layer.input(0), Some("turned"));
}

/// ONNX Runtime computes a Shape from what is declared, which may be stale.
#[test]
fn sizes_are_not_declared_of_what_new_nodes_read() {
    let turned = "turned = Transpose<perm=[1,0,2]>(x)\nbeside = Neg(turned)";
    let row = with_bodies(&[turned, START, LOOP])
        .with("Gather<axis=0>(x, t)", "Gather<axis=0>(turned, t)")
        .with("Gather(shape, zero)", "Gather(shape, one)")
        .with("batch = Gather(shape, one)", "batch = Gather(shape, zero)")
        .set("outputs y beside");
    let mut model = row.model();
    let stale = ["turned", "beside"].map(|name| value(name, FLOAT, &[Some(5), Some(1), Some(3)]));
    model.graph.get_or_insert_default().value_info = stale.to_vec();
    let (model, _) = rewritten(&model, &fast());
    let declared = &model.graph.as_option().unwrap().value_info;
    let declared: Vec<_> = declared.iter().map(declared_sizes).collect();
    let kept = Some(vec![Some(5), Some(1), Some(3)]);
    assert_eq!(declared, [Some(vec![None; 3]), kept]);
}

/// LSTM of no sequences, and GRU of none or of no steps, end the process of ONNX Runtime.
#[test]
fn layers_for_onnx_runtime_refuse_empty_inputs() {
    let refusing = |name: &str, known: &[usize], options: &Options| {
        let mut model = exported(name);
        let input = &mut model.graph.get_or_insert_default().input[0];
        known
            .iter()
            .for_each(|&axis| assert!(set_size(input, axis, 4)));
        let (model, report) = rewritten(&model, options);
        let nodes = &model.graph.as_option().unwrap().node;
        let is_check = |node: &&NodeProto| node.name().contains("/not_empty");
        let checks: Vec<&str> = nodes.iter().filter(is_check).map(NodeProto::op).collect();
        let is_told = report.refuses_empty_batch();
        assert_eq!(is_told, !checks.is_empty(), "{report:#?}");
        checks.len()
    };
    let lstm = "keras_lstm_stacked_masked";
    let gru = "keras_gru_bidirectional";
    assert_eq!(refusing(gru, &[], &fast()), 1);
    assert_eq!(refusing(gru, &[0], &fast()), 1);
    assert_eq!(refusing(gru, &[0, 1], &fast()), 0);
    assert_eq!(refusing(lstm, &[], &fast()), 2);
    assert_eq!(refusing(lstm, &[0], &fast()), 0);
    assert_eq!(
        refusing("keras_simplernn_bidirectional_masked", &[], &fast()),
        0
    );
    for runtime in ["openvino", "onnxruntime-web"] {
        let options = Options {
            runtime: Some(runtime.to_owned()),
            ..fast()
        };
        let count = usize::from(runtime == "onnxruntime-web");
        assert_eq!(refusing(gru, &[], &options), count, "{runtime}");
    }
}

/// A state that is the last output with a leading axis, as TFLite keeps it.
#[test]
fn recurrent_loop_with_a_buffer() {
    let room = "room = Unsqueeze(begin, zero)";
    let plain = "counted, last, y = Loop<body=@buffered>(time, always, start, begin, room)";
    let masked = "counted, last, ended, y = Loop<body=@masked_buffer>(time, always, start, begin, \
                  begin, room)";
    let what = "RNN, forward, with the steps that its mask counts put first";
    let none = "is not a state of an LSTM, GRU or RNN cell";
    let zero = "does not provably begin with 0";
    let mut rows = changed(
        &with_bodies(&[START, room, plain]),
        &format!(
            "=> any | RNN, forward
             Reshape(h2, framed) -> Unsqueeze(h2, zero) => any | RNN, forward
             [outputs y last] => any | RNN, forward
             Reshape(h2, framed) -> Unsqueeze(h2, one) => ! {none}
             Reshape(h2, framed) -> Reshape(h2, sizes) => ! {none}
             Reshape(h2, framed) -> Reshape(both, framed) => ! is not that of its cell
             # The initial value, if there is no step.
             Unsqueeze(begin, zero) -> Unsqueeze(half, leading) => ! {zero}
             begin = Expand(nought -> begin = Expand(half => ! {zero}
             [sizes 5 ? 3] (time, always -> (five, always; Less(t2, time) -> Less(t2, five)
             begin = Expand(nought -> begin = Expand(half => any | RNN, forward"
        ),
    );
    rows.extend(changed(
        &with_bodies(&[START, MASK, room, masked]),
        &format!("=> any | {what}
             [outputs y last ended] => any | {what}
             Unsqueeze(output, zero) -> Reshape(output, framed) => any | {what}
             Where(counts, new, repeated) -> Where(counts, new, h) => any | {what}
             buffer2 = Unsqueeze(output, zero) -> nil = Where(counts, new, nought); buffer2 = Unsqueeze(nil, zero)
             => ! is 0 where the last step is masked
             Unsqueeze(output, zero) -> Unsqueeze(new, zero) => ! does not have the mask of its states"),
    ));
    check("recurrent-loop", &rows);
}

/// Activations written as one operator, or as several.
#[test]
fn recurrent_loop_with_other_activations() {
    let layer = "Shape Slice Concat Expand RNN Squeeze";
    let rows = changed(
        &with_bodies(&[START, LOOP]),
        &format!("h2 = Tanh(sum) -> h2 = Relu(sum) => {layer} | RNN, forward
             h2 = Tanh(sum) -> h2 = Sigmoid(sum) => {layer} | RNN, forward
             h2 = Tanh(sum) -> h2 = Softsign(sum) => {layer} | RNN, forward
             h2 = Tanh(sum) -> h2 = Softplus(sum) => {layer} | RNN, forward
             h2 = Tanh(sum) -> h2 = Elu(sum) => {layer} | RNN, forward
             h2 = Tanh(sum) -> h2 = LeakyRelu(sum) => {layer} | RNN, forward
             h2 = Tanh(sum) -> h2 = HardSigmoid(sum) => {layer} | RNN, forward
             h2 = Tanh(sum) -> h2 = Identity(sum) => {layer} | RNN, forward
             # Between 0 and 1, with product and bounds in both orders.
             h2 = Tanh(sum) -> scaled = Mul(sum, half); more = Add(scaled, half); h2 = Clip(more, nought, whole)
             => {layer} | RNN, forward
             h2 = Tanh(sum) -> scaled = Mul(half, sum); more = Add(half, scaled); least = Max(more, nought); h2 = Min(whole, least)
             => {layer} | RNN, forward
             h2 = Tanh(sum) -> more = Add(sum, whole); least = Relu(more); most = Min(least, two_times); h2 = Div(most, two_times)
             => {layer} | RNN, forward
             h2 = Tanh(sum) -> scaled = Mul(half, sum); more = Add(half, scaled); most = Min(whole, more); h2 = Relu(most)
             => {layer} | RNN, forward
             # Other bounds, another slope, other functions.
             h2 = Tanh(sum) -> scaled = Mul(sum, half); h2 = Clip(scaled, nought, half) => ! not the cell
             h2 = Tanh(sum) -> scaled = Mul(sum, half); h2 = Clip(scaled, half, whole) => ! not the cell
             h2 = Tanh(sum) -> h2 = Clip(sum, nought) => ! not the cell
             h2 = Tanh(sum) -> less = Sub(whole, sum); h2 = Clip(less, nought, whole) => ! not the cell
             h2 = Tanh(sum) -> h2 = Selu(sum) => ! not the cell
             h2 = Tanh(sum) -> h2 = Selu(sum) => ! Selu (h2) is not an activation of these layers in ONNX
             h2 = Tanh(sum) -> gate = Sigmoid(sum); h2 = Mul(sum, gate) => ! such as Swish or Relu6
             # It is a map, of which another pass tells.
             MatMul(h, recurrent) -> MatMul(begin, recurrent); c2 t2 h2 step -> c2 t2 h step => !
             h2 = Tanh(sum) -> h2 = Exp(sum) => ! not the cell"),
    );
    check("recurrent-loop", &rows);
}

#[test]
fn recurrent_loop_with_a_mask() {
    let operators = "Shape ReduceMax Cast Gather Cast ReduceSum Shape Slice Concat Expand RNN \
                     Squeeze";
    let prefix = "times = Range(start, steps, next)
        column = Unsqueeze(times, one)
        ahead = Less(column, lens)
        mask = Unsqueeze(ahead, two)";
    let steps = "steps = Gather(shape, start)";
    let ordered = "RNN, forward, with the steps that its mask counts put first";
    let lengths = "RNN, forward, with the mask as lengths";
    let one_value = "does not provably have one value for each step of each sequence";
    let of_cell = "its body is not the cell";
    let mut rows = changed(
        &with_bodies(&[START, MASK, steps, MASKED]),
        &format!("# Nothing proves that valid steps come first.
             => any | {ordered}
             [opset 11] => any | {ordered}
             [options fast] => any | {ordered}
             [outputs y last ended] => any | {ordered}
             Where(counts, new, repeated) -> Where(counts, new, h) => any | {ordered}
             Where(counts, new, repeated) -> Where(counts, new, nought) => any | {ordered}
             [outputs y last ended] begin = Expand(nought -> begin = Expand(half => any | {ordered}
             h2 = Where(counts, new, h) -> not = Not(counts); yes = Cast<to=1>(counts); no = Cast<to=1>(not); taken = Mul(new, yes); held = Mul(no, h); h2 = Add(taken, held)
             => any | {ordered}
             h2 = Where(counts, new, h) -> yes = Cast<to=1>(counts); no = Sub(whole, yes); taken = Mul(new, yes); held = Mul(no, h); h2 = Add(held, taken)
             => any | {ordered}
             h2 = Where(counts, new, h) -> not = Not(counts); h2 = Where(not, h, new) => any | {ordered}
             # A mask of two axes, whose steps become columns, or as wide as the states.
             axes=[2];keepdims=1 -> axes=[2];keepdims=0
             counts = Gather<axis=0>(mask, t) -> row = Gather<axis=0>(mask, t); counts = Unsqueeze(row, one)
             => any | {ordered}
             axes=[2];keepdims=1 -> axes=[2];keepdims=0
             counts = Gather<axis=0>(mask, t) -> row = Gather<axis=0>(mask, t); counts = Reshape(row, upright)
             => any | {ordered}
             counts = Gather<axis=0>(mask, t) -> column = Gather<axis=0>(mask, t); counts = Expand(column, states)
             => any | {ordered}
             counts = Gather<axis=0>(mask, t) -> column = Gather<axis=0>(mask, t); wide = Concat<axis=0>(batch, four); counts = Expand(column, wide)
             => ! {of_cell}
             Where(counts, new, repeated) -> Where(counts, h2, nought) => any | {ordered}
             # By assumption, or proved from the graph.
             [options fast right-padded] Where(counts, new, repeated) -> Where(counts, new, nought)
             => {operators} | {lengths}
             [opset 9] [options fast right-padded] Where(counts, new, repeated) -> Where(counts, new, nought)
             => {operators} | {lengths}
             # A mask that is all true is no mask.
             mask = Cast<to=9>(any) -> wide = Shape(any); mask = Expand(always, wide)
             => Shape Gather Shape Slice Concat Expand RNN Squeeze | RNN, forward
             [opset 10] => ! version 10 of ONNX's operators has no CumSum
             axes=[2] -> axes=[1] => ! {one_value}
             mask = Cast<to=9>(any) -> mask = Cast<to=9>(x) => ! {one_value}
             mask = Cast<to=9>(any) -> ahead = Cast<to=9>(any); mask = Slice(ahead, minus, first, zero, minus)
             => ! only one is flipped
             # At invalid steps the state does not keep its value.
             Where(counts, new, repeated) -> Where(counts, new, h)
             h2 = Where(counts, new, h) -> h2 = Identity(new) => ! its output y does not have the mask of its states
             Where(counts, new, h) -> Where(counts, new, begin) => ! {of_cell}
             new, repeated) -> new, half) => ! something else
             Where(counts, new, h) -> Where(counts, h, new) => ! {of_cell}
             [outputs y ended] done = Expand(nought -> done = Expand(half => ! does not provably begin with 0
             # Zeros of another rank, or with other rows, than the step's output.
             new, repeated) -> new, zeros3) => ! something else
             done = Expand(nought, states) -> done = Identity(zeros3) => ! does not provably begin with a row
             # The mask is read at another step.
             Gather<axis=0>(mask, t) -> Gather<axis=0>(mask, t2) => ! {of_cell}
             [outputs y counted] => ! its step counter is read"),
    );
    rows.extend(changed(
        &with_bodies(&[START, steps, prefix, MASKED]),
        &format!("=> any | {lengths}
             Less(column, lens) -> Greater(lens, column) => any | {lengths}
             Less(column, lens) -> Less(lens, column) => any | {ordered}
             # A mask of its own length, read from the end together with its input.
             Gather<axis=0>(x, t) -> Gather<axis=0>(turned, t)
             times = Range(start, steps -> longest = ReduceMax<keepdims=0>(lens); times = Range(start, longest
             mask = Unsqueeze(ahead, two) -> forward = Unsqueeze(ahead, two); mask = Slice(forward, minus, first, zero, minus); turned = Slice(x, minus, first, zero, minus)
             => any | RNN, reverse, with the mask as lengths"),
    ));
    check("recurrent-loop", &rows);
}

#[test]
fn recurrent_scan() {
    let layer = "Shape Slice Concat Expand RNN Squeeze";
    let scan = "last, y = Scan<body=@scanned;num_scan_inputs=1>(begin, x)";
    let limited = "counted, last, y = Scan<body=@limited;num_scan_inputs=1>(start, begin, x)";
    let mut rows = changed(
        &with_bodies(&[STATES, scan]),
        &format!("=> {layer} | RNN, forward
             [outputs y last] => Shape Slice Concat Expand RNN Squeeze Squeeze | RNN, forward
             num_scan_inputs=1 -> num_scan_inputs=1;scan_input_directions=[1] => any | RNN
             num_scan_inputs=1 -> num_scan_inputs=1;scan_output_directions=[1] => any | RNN
             num_scan_inputs=1 -> num_scan_inputs=1;scan_output_axes=[1] => any | RNN
             num_scan_inputs=1 -> num_scan_inputs=1;scan_input_directions=[1];scan_output_directions=[1]
             => {layer} | RNN, reverse
             batch = Gather(shape, one) -> batch = Gather(shape, zero)
             num_scan_inputs=1 -> num_scan_inputs=1;scan_input_axes=[1];scan_output_axes=[1]
             => Transpose Shape Slice Concat Expand RNN Squeeze Transpose | RNN, forward"),
    );
    rows.extend(changed(
        &with_bodies(&[STATES, limited]),
        "# Lengths, as in TensorFlow's dynamic_rnn.
             => any | RNN, forward, with its lengths
             [outputs y last] => any | RNN, forward, with its lengths
             # Steps behind the lengths are the last state, of a layer that masks are given to as well.
             step = Where(column, begin, new) -> step = Where(column, h, new) => any | RNN, forward, with its lengths
             [options pass:recurrent-loop masked] step = Where(column, begin, new) -> step = Where(column, h, new)
             => any | RNN, forward, with its lengths
             over = GreaterOrEqual(t, lens) -> under = Less(t, lens); over = Not(under)
             => any | RNN, forward, with its lengths
             GreaterOrEqual(t, lens) -> LessOrEqual(lens, t) => any | RNN, forward, with its lengths
             Reshape(over, upright) -> Unsqueeze(over, one) => any | RNN, forward, with its lengths
             # The numbers of the steps in a list.
             begin = Expand -> time = Gather(shape, zero); numbers = Range(start, time, next); begin = Expand
             over = GreaterOrEqual(t, lens) -> number = Gather(numbers, t); over = GreaterOrEqual(number, lens)
             => any | RNN, forward, with its lengths
             begin = Expand -> time = Gather(shape, zero); numbers = Range(start, time, next); begin = Expand
             over = GreaterOrEqual(t, lens) -> number = Gather(numbers, t); over = GreaterOrEqual(number, lens)
             Range(start -> Range(next => ! its body is not the cell
             Reshape(over, upright) -> Unsqueeze(over, zero) => ! its body is not the cell
             GreaterOrEqual(t, lens) -> GreaterOrEqual(t2, lens) => ! its body is not the cell
             GreaterOrEqual(t, lens) -> Greater(t, lens) => ! its body is not the cell
             num_scan_inputs=1 -> num_scan_inputs=1;scan_input_directions=[1]
             => ! its lengths count from the end of its input
             [outputs y counted] => ! its step counter is read",
    ));
    check("recurrent-loop", &rows);
}

/// Requested alone, the pass runs the one that recognises flips first.
#[test]
fn recurrent_loop_knows_flips() {
    let flips = "full = Expand(time, batch)
        flipped = ReverseSequence<batch_axis=1;time_axis=0>(x, full)";
    let rows = changed(
        &with_bodies(&[START, flips, LOOP]),
        "[options pass:recurrent-loop] Gather<axis=0>(x, t) -> Gather<axis=0>(flipped, t)
         => any | RNN, reverse",
    );
    rows[0].check("recurrent-loop");
}
