//! A recurrent layer with sequence lengths, to one without, for runtimes such as tract whose LSTM,
//! GRU and RNN take none.
//!
//! Forwards, no step depends on later ones: the layer runs over all steps, and those after the
//! length become 0. Backwards, the layer runs forwards over the output of ReverseSequence, which is
//! reversed by the same lengths afterwards. The last state is the sum over all steps of the
//! outputs, in which all but the last valid one are 0. Lengths are within the axis, as ONNX demands
//! of the layer.

use super::reversal::Reversal;
use crate::constant;
use crate::emit::Emit;
use crate::model::{self, INT64, NodeProto};
use crate::pass::{Context, Pass, PassInfo, Verdict};
use crate::report::Exactness;
use crate::scope::{Names, Scope};

pub(super) const PASS: Pass = Pass {
    info: PassInfo {
        name: "sequence-lens",
        exactness: Exactness::Rounding,
        about: "LSTM, GRU and RNN with sequence_lens, to ones without",
        portable: false,
        fast: false,
    },
    find,
};

fn find(scope: &Scope<'_>, index: usize, _: &Context<'_>, names: &mut Names) -> Verdict {
    let node = &scope.nodes[index];
    if !["LSTM", "GRU", "RNN"].iter().any(|op| node.is(op)) {
        return Verdict::Other;
    }
    let (Some(input), Some(lengths)) = (node.input(0), node.input(4)) else {
        return Verdict::Other;
    };
    let backwards = match node.text("direction").or("forward") {
        Some("forward") => false,
        Some("reverse") => true,
        _ => return Verdict::Left("it runs in both directions".to_owned()),
    };
    if let Err(why) = check(scope, node) {
        return Verdict::Left(why);
    }
    let prefix = node.outputs().next().unwrap_or_default();
    let mut emit = Emit::new(prefix, scope.opset, names);
    let lengths = emit.op("Cast", &[lengths], vec![model::int("to", INT64.into())]);
    let reversal = Reversal::Sequence {
        time: 0,
        batch: 1,
        lengths: &lengths,
    };
    let mut layer = node.clone();
    layer.input[4].clear();
    layer
        .attribute
        .retain(|attribute| attribute.name.as_deref() != Some("direction"));
    if backwards {
        let reversed = emit.name("reversed");
        reversal.write(&mut emit, &reversed, input);
        layer.input[0] = reversed;
    }
    let all = emit.name("all_steps");
    layer.output = vec![all.clone()];
    let input = layer.input[0].clone();
    emit.copy(layer);
    // All of a layer's floating-point inputs have one type, and weights are mostly constant.
    let typed = node.input(1).unwrap_or(&input);
    let zero = emit.zero_like(scope, typed);
    let places = Places::new(&mut emit, &input, &lengths, zero);
    let valid = emit.plain("Less", &[&places.steps, &places.lengths]);
    if let Some(y) = node.output.first().filter(|y| scope.uses(y) > 0) {
        let mut steps = all.clone();
        if backwards {
            let squeezed = emit.squeeze(&steps, &[1]);
            let forwards = emit.name("forwards");
            reversal.write(&mut emit, &forwards, &squeezed);
            steps = emit.unsqueeze(&forwards, &[1]);
        }
        emit.write(&[y], "Where", &[&valid, &steps, &places.zero], Vec::new());
    }
    if let Some(state) = node.output.get(1).filter(|state| scope.uses(state) > 0) {
        // The last valid step.
        let one = emit.ints(&[1]);
        let next = emit.plain("Add", &[&places.steps, &one]);
        let goes_on = emit.plain("Less", &[&next, &places.lengths]);
        let counting = emit.plain("Where", &[&valid, &all, &places.zero]);
        let last = emit.plain("Where", &[&goes_on, &places.zero, &counting]);
        emit.sum_into(state, &last, &[0]);
    }
    emit.finish(format!("{}, forward, without sequence_lens", node.op()))
}

fn check(scope: &Scope<'_>, node: &NodeProto) -> Result<(), String> {
    if node.int("layout").or(0) != Some(0) {
        return Err("its batch comes first (layout)".to_owned());
    }
    if node
        .output
        .get(2)
        .is_some_and(|memory| scope.uses(memory) > 0)
    {
        // No output has the cell states of earlier steps.
        return Err("the cell state after its last step is read (Y_c)".to_owned());
    }
    if node
        .input(5)
        .is_some_and(|state| !constant::is_zero(scope, state))
    {
        return Err("its state does not provably begin with 0".to_owned());
    }
    Ok(())
}

/// The operands of comparisons between steps, broadcast to `[time, directions, batch, units]`.
struct Places {
    /// The index of each step.
    steps: String,
    /// The length of each sequence.
    lengths: String,
    /// A zero of the layer's type.
    zero: String,
}

impl Places {
    fn new(emit: &mut Emit<'_>, input: &str, lengths: &str, zero: String) -> Self {
        let shape = emit.plain("Shape", &[input]);
        let first = emit.scalar(0);
        let time = emit.plain("Gather", &[&shape, &first]);
        let step = emit.scalar(1);
        let range = emit.plain("Range", &[&first, &time, &step]);
        Self {
            steps: emit.unsqueeze(&range, &[1, 2, 3]),
            lengths: emit.unsqueeze(lengths, &[0, 1, 3]),
            zero,
        }
    }
}
