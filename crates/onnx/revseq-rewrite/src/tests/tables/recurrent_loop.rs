//! Loops and Scans that are recurrent layers, and near misses.

use super::super::{exported, fast, pass, rewritten, right_padded, value};
use super::masks::masked_layers;
use super::{ANY, Row, check, leaves, takes};
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

/// Adds the loops' bodies to a row.
pub(super) fn with_bodies(row: Row) -> Row {
    Row {
        inner: LOOPS,
        ..row
    }
}

#[test]
fn recurrent_loop() {
    let layer = "Shape Slice Concat Expand RNN Squeeze";
    // Values that were unread before stay.
    let unread_time = "Shape Gather Shape Slice Concat Expand RNN Squeeze";
    let take = |operators| with_bodies(takes("RNN, forward", operators, &[START, LOOP]));
    let miss = |why| with_bodies(leaves(why, &[START, LOOP]));
    let cell = "not the cell of an LSTM, GRU or SimpleRNN with constant weights";
    let size = "its condition c2 is not one that compares the step with a size";
    let early = "its condition c2 may end it before the last step";
    let once = "it does not provably run once for each step of its input";
    let read = "the input now of its cell is not read step by step";
    let output = "its output y is not that of its cell";
    let starts = "does not provably begin with a row of units for each sequence";
    let fixed = [None, Some(5), Some(3)];
    let slower =
        "RNN, forward; ONNX Runtime's RNN takes up to twice as long as a loop, in large batches";
    check("recurrent-loop", &[
        with_bodies(takes(slower, layer, &[START, LOOP])),
        take(layer).opset(9),
        // Forms of its end: only the count, or only the condition.
        take(layer).with("c2 = Less(t2, time)", "c2 = Identity(always)"),
        take(layer).with("c2 = Less(t2, time)", "c2 = Identity(c)"),
        take(layer).with("(time, always, start", "(_, always, start"),
        take(layer).with("(time, always", "(_, _").with("Less(t2, time)", "Greater(time, t2)"),
        take(layer).with("c2 = Less(t2, time)", "under = Less(i, time)\nahead = Less(t2, time)\nc2 = And(ahead, under)"),
        // A known number of steps, as integers, or as floats in the body.
        take("Transpose Shape Gather Shape Slice Concat Expand RNN Squeeze").sizes(fixed)
            .with("shape = Shape(x)", "turned = Transpose<perm=[1,0,2]>(x)\nshape = Shape(turned)")
            .with("Gather<axis=0>(x, t)", "Gather<axis=0>(turned, t)")
            .with("(time, always", "(five, always")
            .with("c2 = Less(t2, time)", "float = Cast<to=1>(t2)\nend = Identity(fives)\nc2 = Less(float, end)"),
        take(unread_time).sizes([Some(5), None, Some(3)]).with("(time, always", "(_, always").with("Less(t2, time)", "Less(t2, five)"),
        take(unread_time).sizes([Some(5), None, Some(3)]).with("(time, always", "(endless, always").with("Less(t2, time)", "Less(t2, five)"),
        miss(once).sizes([Some(4), None, Some(3)]).with("(time, always", "(five, always").with("Less(t2, time)", "Less(t2, five)"),
        miss(once).sizes([Some(5), None, Some(3)]).with("(time, always", "(five, always").with("Less(t2, time)", "Less(i, five)").with("five, always", "endless, always"),
        take(layer).with("Add(fed, kept)", "Add(kept, fed)").with("Tanh", "Relu"),
        with_bodies(takes("RNN, reverse", "Shape Slice Concat Expand RNN Squeeze Slice", &[
            START, "flipped = Slice(x, minus, first, zero, minus)", LOOP,
        ])).with("Gather<axis=0>(x, t)", "Gather<axis=0>(flipped, t)"),
        take("Shape Slice Concat Expand RNN Squeeze Squeeze").outputs("y last"),
        take("Shape Gather Concat Expand Shape Slice Concat Expand Unsqueeze RNN Squeeze")
            .with("Expand(nought", "Expand(half"),
        // Read at a vector index, with the axis squeezed out again.
        take(layer).with("Gather<axis=0>(x, t)", "Gather<axis=0>(x, at)\nnow = Squeeze(one_step, zero)").with("now = Gather", "at = Unsqueeze(t, zero)\none_step = Gather"),
        // The batch axis comes first.
        with_bodies(takes("RNN, forward", "Transpose Shape Slice Concat Expand RNN Squeeze", &[START, LOOP]))
            .with("Gather(shape, zero)", "Gather(shape, one)")
            .with("batch = Gather(shape, one)", "batch = Gather(shape, zero)")
            .with("Gather<axis=0>(x, t)", "Gather<axis=1>(x, t)"),
        // Weights behind a transpose, a product with a bias, or a concatenation.
        take(layer).with("kept = MatMul(h, recurrent)", "turned = Transpose<perm=[1,0]>(recurrent)\nkept = MatMul(h, turned)"),
        take(layer).with("fed = MatMul(now, kernel)", "fed = Gemm(now, kernel, bias)"),
        take(layer).with("both = Add(fed, kept)", "both = Gemm<transB=1>(now, w2d, kept)"),
        take(layer).with("both = Add(fed, kept)", "joined = Concat<axis=1>(now, h)\nboth = MatMul(joined, stack)"),
        take(layer).with("both = Add(fed, kept)", "joined = Concat<axis=-1>(h, now)\nboth = MatMul(joined, stack)"),
        // A row of one sequence without its batch axis, beside one that has it.
        take(layer).with("both = Add(fed, kept)", "row = Squeeze(kept)\nboth = Add(fed, row)"),
        take(layer).with("both = Add(fed, kept)", "row = Reshape(kept, two)\nboth = Add(row, fed)"),
        take(layer).with("both = Add(fed, kept)", "row = Squeeze(kept, zero)\nboth = Add(fed, row)"),
        miss(cell).with("both = Add(fed, kept)", "row = Squeeze(kept, one)\nboth = Add(fed, row)"),
        miss(cell).with("both = Add(fed, kept)", "row = Reshape(kept, four)\nboth = Add(fed, row)"),
        miss(cell).with("both = Add(fed, kept)", "row = Squeeze(kept)\nflat = Squeeze(fed)\nboth = Add(flat, row)"),
        miss(cell).with("both = Add(fed, kept)", "row = Reshape(kept, two)\nflat = Reshape(fed, two)\nboth = Add(flat, row)"),
        miss(cell).with("both = Add(fed, kept)", "joined = Concat<axis=0>(now, h)\nboth = MatMul(joined, stack)"),
        miss(cell).with("both = Add(fed, kept)", "joined = Concat<axis=1>(now, now)\nboth = MatMul(joined, stack)"),
        miss(cell).with("fed = MatMul(now, kernel)", "fed = Gemm<transA=1>(now, kernel)"),
        // A counter that does not start at 0, or does not count by 1.
        miss(early).with("always, start,", "always, next,"),
        miss(size).with("Add(t, next)", "Add(t, five)"),
        miss(size).with("Add(t, next)", "Sub(t, minus)"),
        // A counter that becomes a vector, so that the slice has one more axis.
        miss(size).with("Add(t, next)", "Add(t, one)"),
        miss(read).with("always, start,", "always, zero,"),
        miss(read).with("Gather<axis=0>(x, t)", "Gather<axis=0>(x, at)").with("now = Gather", "at = Add(i, zero)\nnow = Gather"),
        // An early exit, and an exit that depends on computed values.
        miss(early).with("Less(t2, time)", "Less(t2, four)"),
        miss(early).with("Loop<body=@body>(time", "Loop<body=@body>(four"),
        miss(size).with("c2 = Less(t2, time)", "goes = Less(t2, time)\nmost = ReduceMax<keepdims=0>(h)\nsmall = Less(most, half)\nc2 = And(goes, small)"),
        miss(size).with("Less(t2, time)", "Greater(t2, time)"),
        miss("may keep it from starting").with("(time, always", "(time, flag"),
        miss(once).with("Gather(shape, zero)", "Gather(shape, one)"),
        miss(once).with("Gather(shape, zero)", "Identity(lens)"),
        miss(once)
            .with("(time, always", "(_, always")
            .with("c2 = Less(t2, time)", "c2 = Identity(always)"),
        // It reads another axis, the next step, or always the same one.
        miss(once).with("Gather<axis=0>", "Gather<axis=1>"),
        miss(read).with("Gather<axis=0>(x, t)", "Gather<axis=0>(x, t2)"),
        miss(read).with("Gather<axis=0>(x, t)", "Gather<axis=0>(x, start)"),
        // Activations and sums of no cell, and weights that are not constant.
        miss(cell).with("Tanh", "Sinh"),
        miss(cell).with("Add(fed, kept)", "Sub(fed, kept)"),
        miss(cell).with("MatMul(h,", "MatMul(now,"),
        miss(cell).with("MatMul(h, recurrent)", "MatMul(h, kernel)"),
        miss(cell).replaceable("kernel"),
        miss(cell).replaceable("bias"),
        miss(cell).with("recurrent)", "squared)").with("shape = Shape(x)", "shape = Shape(x)\nsquared = Mul(recurrent, recurrent)"),
        // A bias of higher rank than the step, or of another size.
        miss(cell).with("Add(both, bias)", "Add(both, r)"),
        miss(cell).with("Add(both, bias)", "Add(both, kernel)"),
        // More is read than the layer's outputs.
        miss("its step counter is read").outputs("y counted"),
        miss(output).with("step = Identity(h2)", "step = Neg(h2)"),
        miss(output).with("step = Identity(h2)", "step = Identity(sum)"),
        // Too little is known about the input and the state.
        miss("not provably of 3 axes").without_sizes(),
        miss(starts).with("Expand(nought, states)", "Identity(x)"),
        // An initial state of unknown batch is used as it is; one of another width is not.
        take(ANY).with("begin = Expand(nought, states)", "all = ReduceSum<keepdims=1>(lens)\nothers = Concat<axis=0>(all, two)\nbegin = Expand(nought, others)"),
        miss(starts).with("begin = Expand(nought, states)", "all = ReduceSum<keepdims=1>(lens)\nothers = Concat<axis=0>(all, four)\nbegin = Expand(half, others)"),
        miss(starts).with("Expand(nought, states)", "Expand(nought, fours)"),
        // No loop, and a body that is no layer.
        leaves("", &["y = Neg(x)"]),
    ]);
}

/// A loop broadcasts an input of one sequence to the rows of its states and of its mask.
#[test]
fn recurrent_loop_of_more_rows_than_its_input() {
    let of_lens = "many = Shape(lens)\nstates = Concat<axis=0>(many, two)";
    let take = |operators| with_bodies(takes("RNN, forward", operators, &[START, LOOP]));
    let of_batch = "states = Concat<axis=0>(batch, two)";
    let masked = [
        START,
        "many = Shape(lens)\nwide = Concat<axis=0>(time, many, one)\nmask = Expand(flag, wide)",
        "done = Expand(nought, states)",
        "counted, last, ended, y = Loop<body=@masked>(time, always, start, begin, done)",
    ];
    let ordered = "RNN, forward, with the steps that its mask counts put first";
    let row = |what| with_bodies(takes(what, ANY, &masked));
    let miss = with_bodies(leaves(
        "its state done does not provably begin with a row of units for each sequence",
        &masked,
    ));
    let limited = "ended, last, y = Scan<body=@limited;num_scan_inputs=1>(start, begin, x)";
    check(
        "recurrent-loop",
        &[
            // Zeros of other rows, which are known or not.
            take("Shape Gather Concat Expand Shape Slice Concat Expand RNN Squeeze")
                .with("Expand(nought, states)", "Identity(three_rows)"),
            take("Shape Gather Shape Concat Expand Shape Slice Concat Expand Shape Slice Concat Expand RNN Squeeze")
                .with(of_batch, of_lens),
            // There are never more than one.
            take("Shape Gather Concat Shape Slice Concat Expand Unsqueeze RNN Squeeze")
                .with("Expand(nought, states)", "Identity(begin_row)"),
            row(ordered),
            row("RNN, forward, with its mask").options(masked_layers()),
            // A mask that is always true.
            row("RNN, forward").with("Expand(flag, wide)", "Expand(always, wide)"),
            // Outputs that begin with as many rows as their layer, or with others.
            row(ordered)
                .with("Expand(nought, states)", "Identity(three_rows)")
                .with("start, begin, done", "start, begin, begin"),
            miss.with("done = Expand(nought, states)", "done = Identity(three_rows)"),
            // The states of a Scan keep their rows.
            with_bodies(takes("RNN, forward, with its lengths", "Shape Gather Shape Slice Gather Cast Expand Less Where Greater Where Cast Concat Expand RNN Squeeze", &[START, limited])),
        ],
    );
}

/// It waits until no other pass proves more: here, that a map keeps the sequences.
#[test]
fn loops_with_rows_that_may_differ_wait_for_other_passes() {
    let mapped = "turned = Scan<body=@negated;num_scan_inputs=1>(x)\nlength = Shape(turned)";
    let row = with_bodies(takes("RNN", ANY, &[mapped, START, LOOP]))
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
    let row = with_bodies(takes("RNN", ANY, &[turned, START, LOOP]))
        .with("Gather<axis=0>(x, t)", "Gather<axis=0>(turned, t)")
        .with("Gather(shape, zero)", "Gather(shape, one)")
        .with("batch = Gather(shape, one)", "batch = Gather(shape, zero)")
        .outputs("y beside");
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
    let any = "any = ReduceMax<axes=[2];keepdims=1>(x)\nmask = Cast<to=9>(any)";
    let masked = "counted, last, ended, y = Loop<body=@masked_buffer>(time, always, start, begin, \
                  begin, room)";
    let nodes = [START, room, plain];
    let take = || with_bodies(takes("RNN, forward", ANY, &nodes));
    let miss = |why| with_bodies(leaves(why, &nodes));
    let with_mask = [START, any, room, masked];
    let order = || {
        let what = "RNN, forward, with the steps that its mask counts put first";
        with_bodies(takes(what, ANY, &with_mask))
    };
    let left = |why| with_bodies(leaves(why, &with_mask));
    let none = "is not a state of an LSTM, GRU or RNN cell";
    let zero = "does not provably begin with 0";
    check(
        "recurrent-loop",
        &[
            take(),
            take().with("Reshape(h2, framed)", "Unsqueeze(h2, zero)"),
            take().outputs("y last"),
            miss(none).with("Reshape(h2, framed)", "Unsqueeze(h2, one)"),
            miss(none).with("Reshape(h2, framed)", "Reshape(h2, sizes)"),
            miss("is not that of its cell").with("Reshape(h2, framed)", "Reshape(both, framed)"),
            // The initial value, if there is no step.
            miss(zero).with("Unsqueeze(begin, zero)", "Unsqueeze(half, leading)"),
            miss(zero).with("begin = Expand(nought", "begin = Expand(half"),
            take()
                .sizes([Some(5), None, Some(3)])
                .with("(time, always", "(five, always")
                .with("Less(t2, time)", "Less(t2, five)")
                .with("begin = Expand(nought", "begin = Expand(half"),
            order(),
            order().outputs("y last ended"),
            order().with("Unsqueeze(output, zero)", "Reshape(output, framed)"),
            order().with("Where(counts, new, repeated)", "Where(counts, new, h)"),
            left("is 0 where the last step is masked").with(
                "buffer2 = Unsqueeze(output, zero)",
                "nil = Where(counts, new, nought)\nbuffer2 = Unsqueeze(nil, zero)",
            ),
            left("does not have the mask of its states")
                .with("Unsqueeze(output, zero)", "Unsqueeze(new, zero)"),
        ],
    );
}

/// Activations written as one operator, or as several.
#[test]
fn recurrent_loop_with_other_activations() {
    let layer = "Shape Slice Concat Expand RNN Squeeze";
    let row =
        |to| with_bodies(takes("RNN, forward", layer, &[START, LOOP])).with("h2 = Tanh(sum)", to);
    let miss = |to| with_bodies(leaves("not the cell", &[START, LOOP])).with("h2 = Tanh(sum)", to);
    check(
        "recurrent-loop",
        &[
            row("h2 = Relu(sum)"),
            row("h2 = Sigmoid(sum)"),
            row("h2 = Softsign(sum)"),
            row("h2 = Softplus(sum)"),
            row("h2 = Elu(sum)"),
            row("h2 = LeakyRelu(sum)"),
            row("h2 = HardSigmoid(sum)"),
            row("h2 = Identity(sum)"),
            // Between 0 and 1, with product and bounds in both orders.
            row(
                "scaled = Mul(sum, half)\nmore = Add(scaled, half)\nh2 = Clip(more, nought, whole)",
            ),
            row(
                "scaled = Mul(half, sum)\nmore = Add(half, scaled)\nleast = Max(more, nought)\nh2 = Min(whole, least)",
            ),
            row(
                "more = Add(sum, whole)\nleast = Relu(more)\nmost = Min(least, two_times)\nh2 = Div(most, two_times)",
            ),
            row(
                "scaled = Mul(half, sum)\nmore = Add(half, scaled)\nmost = Min(whole, more)\nh2 = Relu(most)",
            ),
            // Other bounds, another slope, other functions.
            miss("scaled = Mul(sum, half)\nh2 = Clip(scaled, nought, half)"),
            miss("scaled = Mul(sum, half)\nh2 = Clip(scaled, half, whole)"),
            miss("h2 = Clip(sum, nought)"),
            miss("less = Sub(whole, sum)\nh2 = Clip(less, nought, whole)"),
            miss("h2 = Selu(sum)"),
            with_bodies(leaves(
                "Selu (h2) is not an activation of these layers in ONNX",
                &[START, LOOP],
            ))
            .with("h2 = Tanh(sum)", "h2 = Selu(sum)"),
            with_bodies(leaves("such as Swish or Relu6", &[START, LOOP]))
                .with("h2 = Tanh(sum)", "gate = Sigmoid(sum)\nh2 = Mul(sum, gate)"),
            // It is a map, of which another pass tells.
            with_bodies(leaves("", &[START, LOOP]))
                .with("MatMul(h, recurrent)", "MatMul(begin, recurrent)")
                .with("c2 t2 h2 step", "c2 t2 h step"),
            miss("h2 = Exp(sum)"),
        ],
    );
}

#[test]
fn recurrent_loop_with_a_mask() {
    // Values that were unread before stay.
    let operators = "Shape ReduceMax Cast Gather Cast ReduceSum Shape Slice Concat Expand RNN \
                     Squeeze";
    let any = "any = ReduceMax<axes=[2];keepdims=1>(x)\nmask = Cast<to=9>(any)";
    let prefix = "times = Range(start, steps, next)
        column = Unsqueeze(times, one)
        ahead = Less(column, lens)
        mask = Unsqueeze(ahead, two)";
    let begin = "steps = Gather(shape, start)\ndone = Expand(nought, states)";
    let masked = "counted, last, ended, y = Loop<body=@masked>(time, always, start, begin, done)";
    let nodes = [START, any, begin, masked];
    let ordered = "RNN, forward, with the steps that its mask counts put first";
    let lengths = "RNN, forward, with the mask as lengths";
    let order = || with_bodies(takes(ordered, ANY, &nodes));
    let take = |operators| {
        with_bodies(takes(lengths, operators, &nodes))
            .options(right_padded())
            .with("Where(counts, new, repeated)", "Where(counts, new, nought)")
    };
    let miss = |why| with_bodies(leaves(why, &nodes));
    let one_value = "does not provably have one value for each step of each sequence";
    let of_cell = "its body is not the cell";
    check(
        "recurrent-loop",
        &[
            // Nothing proves that valid steps come first.
            order(),
            order().opset(11),
            order().options(fast()),
            order().outputs("y last ended"),
            order().with("Where(counts, new, repeated)", "Where(counts, new, h)"),
            order().with("Where(counts, new, repeated)", "Where(counts, new, nought)"),
            order()
                .with("begin = Expand(nought", "begin = Expand(half")
                .outputs("y last ended"),
            order().with(
                "h2 = Where(counts, new, h)",
                "not = Not(counts)\nyes = Cast<to=1>(counts)\nno = Cast<to=1>(not)
                taken = Mul(new, yes)\nheld = Mul(no, h)\nh2 = Add(taken, held)",
            ),
            order().with(
                "h2 = Where(counts, new, h)",
                "yes = Cast<to=1>(counts)\nno = Sub(whole, yes)
                taken = Mul(new, yes)\nheld = Mul(no, h)\nh2 = Add(held, taken)",
            ),
            order().with(
                "h2 = Where(counts, new, h)",
                "not = Not(counts)\nh2 = Where(not, h, new)",
            ),
            // A mask of two axes, whose steps become columns, or as wide as the states.
            order()
                .with("axes=[2];keepdims=1", "axes=[2];keepdims=0")
                .with(
                    "counts = Gather<axis=0>(mask, t)",
                    "row = Gather<axis=0>(mask, t)\ncounts = Unsqueeze(row, one)",
                ),
            order()
                .with("axes=[2];keepdims=1", "axes=[2];keepdims=0")
                .with(
                    "counts = Gather<axis=0>(mask, t)",
                    "row = Gather<axis=0>(mask, t)\ncounts = Reshape(row, upright)",
                ),
            order().with(
                "counts = Gather<axis=0>(mask, t)",
                "column = Gather<axis=0>(mask, t)\ncounts = Expand(column, states)",
            ),
            miss(of_cell).with(
                "counts = Gather<axis=0>(mask, t)",
                "column = Gather<axis=0>(mask, t)
                wide = Concat<axis=0>(batch, four)
                counts = Expand(column, wide)",
            ),
            order().with("Where(counts, new, repeated)", "Where(counts, h2, nought)"),
            // By assumption, or proved from the graph.
            take(operators),
            take(operators).opset(9),
            with_bodies(takes(lengths, ANY, &[START, begin, prefix, masked])),
            with_bodies(takes(lengths, ANY, &[START, begin, prefix, masked]))
                .with("Less(column, lens)", "Greater(lens, column)"),
            with_bodies(takes(ordered, ANY, &[START, begin, prefix, masked]))
                .with("Less(column, lens)", "Less(lens, column)"),
            // A mask that is all true is no mask.
            with_bodies(takes(
                "RNN, forward",
                "Shape Gather Shape Slice Concat Expand RNN Squeeze",
                &nodes,
            ))
            .with(
                "mask = Cast<to=9>(any)",
                "wide = Shape(any)\nmask = Expand(always, wide)",
            ),
            miss("version 10 of ONNX's operators has no CumSum").opset(10),
            miss(one_value).with("axes=[2]", "axes=[1]"),
            miss(one_value).with("mask = Cast<to=9>(any)", "mask = Cast<to=9>(x)"),
            // A mask of its own length, read from the end together with its input.
            with_bodies(takes(
                "RNN, reverse, with the mask as lengths",
                ANY,
                &[START, begin, prefix, masked],
            ))
            .with("Gather<axis=0>(x, t)", "Gather<axis=0>(turned, t)")
            .with(
                "times = Range(start, steps",
                "longest = ReduceMax<keepdims=0>(lens)\ntimes = Range(start, longest",
            )
            .with(
                "mask = Unsqueeze(ahead, two)",
                "forward = Unsqueeze(ahead, two)
                mask = Slice(forward, minus, first, zero, minus)
                turned = Slice(x, minus, first, zero, minus)",
            ),
            miss("only one is flipped").with(
                "mask = Cast<to=9>(any)",
                "ahead = Cast<to=9>(any)\nmask = Slice(ahead, minus, first, zero, minus)",
            ),
            // At invalid steps the state does not keep its value.
            miss("its output y does not have the mask of its states")
                .with("Where(counts, new, repeated)", "Where(counts, new, h)")
                .with("h2 = Where(counts, new, h)", "h2 = Identity(new)"),
            miss(of_cell).with("Where(counts, new, h)", "Where(counts, new, begin)"),
            miss("something else").with("new, repeated)", "new, half)"),
            miss(of_cell).with("Where(counts, new, h)", "Where(counts, h, new)"),
            miss("does not provably begin with 0")
                .with("done = Expand(nought", "done = Expand(half")
                .outputs("y ended"),
            // Zeros of another rank, or with other rows, than the step's output.
            miss("something else").with("new, repeated)", "new, zeros3)"),
            miss("does not provably begin with a row")
                .with("done = Expand(nought, states)", "done = Identity(zeros3)"),
            // The mask is read at another step.
            miss(of_cell).with("Gather<axis=0>(mask, t)", "Gather<axis=0>(mask, t2)"),
            miss("its step counter is read").outputs("y counted"),
        ],
    );
}

#[test]
fn recurrent_scan() {
    let layer = "Shape Slice Concat Expand RNN Squeeze";
    let scan = "last, y = Scan<body=@scanned;num_scan_inputs=1>(begin, x)";
    let limited = "counted, last, y = Scan<body=@limited;num_scan_inputs=1>(start, begin, x)";
    let take = |what, operators| with_bodies(takes(what, operators, &[STATES, scan]));
    let lengths = || {
        with_bodies(takes(
            "RNN, forward, with its lengths",
            ANY,
            &[STATES, limited],
        ))
    };
    let short = |why| with_bodies(leaves(why, &[STATES, limited]));
    let numbered = |row: Row| {
        row.with(
            "begin = Expand",
            "time = Gather(shape, zero)\nnumbers = Range(start, time, next)\nbegin = Expand",
        )
        .with(
            "over = GreaterOrEqual(t, lens)",
            "number = Gather(numbers, t)\nover = GreaterOrEqual(number, lens)",
        )
    };
    let with = |attribute: &'static str| take("RNN", ANY).with("num_scan_inputs=1", attribute);
    check(
        "recurrent-loop",
        &[
            take("RNN, forward", layer),
            take(
                "RNN, forward",
                "Shape Slice Concat Expand RNN Squeeze Squeeze",
            )
            .outputs("y last"),
            with("num_scan_inputs=1;scan_input_directions=[1]"),
            with("num_scan_inputs=1;scan_output_directions=[1]"),
            with("num_scan_inputs=1;scan_output_axes=[1]"),
            take("RNN, reverse", layer).with(
                "num_scan_inputs=1",
                "num_scan_inputs=1;scan_input_directions=[1];scan_output_directions=[1]",
            ),
            take(
                "RNN, forward",
                "Transpose Shape Slice Concat Expand RNN Squeeze Transpose",
            )
            .with("batch = Gather(shape, one)", "batch = Gather(shape, zero)")
            .with(
                "num_scan_inputs=1",
                "num_scan_inputs=1;scan_input_axes=[1];scan_output_axes=[1]",
            ),
            // Lengths, as in TensorFlow's dynamic_rnn.
            lengths(),
            lengths().outputs("y last"),
            // Steps behind the lengths are the last state, of a layer that masks are given to as well.
            lengths().with(
                "step = Where(column, begin, new)",
                "step = Where(column, h, new)",
            ),
            lengths()
                .with(
                    "step = Where(column, begin, new)",
                    "step = Where(column, h, new)",
                )
                .options(masked_layers()),
            lengths().with(
                "over = GreaterOrEqual(t, lens)",
                "under = Less(t, lens)\nover = Not(under)",
            ),
            lengths().with("GreaterOrEqual(t, lens)", "LessOrEqual(lens, t)"),
            lengths().with("Reshape(over, upright)", "Unsqueeze(over, one)"),
            // The numbers of the steps in a list.
            numbered(lengths()),
            numbered(short("its body is not the cell")).with("Range(start", "Range(next"),
            short("its body is not the cell")
                .with("Reshape(over, upright)", "Unsqueeze(over, zero)"),
            short("its body is not the cell")
                .with("GreaterOrEqual(t, lens)", "GreaterOrEqual(t2, lens)"),
            short("its body is not the cell").with("GreaterOrEqual(t, lens)", "Greater(t, lens)"),
            short("its lengths count from the end of its input").with(
                "num_scan_inputs=1",
                "num_scan_inputs=1;scan_input_directions=[1]",
            ),
            with_bodies(leaves("its step counter is read", &[STATES, limited]))
                .outputs("y counted"),
        ],
    );
}

/// Requested alone, the pass runs the one that recognises flips first.
#[test]
fn recurrent_loop_knows_flips() {
    let flips = "full = Expand(time, batch)
        flipped = ReverseSequence<batch_axis=1;time_axis=0>(x, full)";
    let row = with_bodies(takes("RNN, reverse", ANY, &[START, flips, LOOP]))
        .with("Gather<axis=0>(x, t)", "Gather<axis=0>(flipped, t)");
    row.options(pass("recurrent-loop")).check("recurrent-loop");
}
