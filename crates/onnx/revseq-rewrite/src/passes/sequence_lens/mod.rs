//! A recurrent layer with sequence lengths, to ones without, for runtimes such as tract whose LSTM,
//! GRU and RNN take none.
//!
//! Forwards, no step depends on later ones: the layer runs over all steps, and those after the
//! length become 0. Backwards, the layer runs forwards over the output of ReverseSequence, which is
//! reversed by the same lengths afterwards; a bidirectional layer becomes one of each. The last
//! state is the sum over all steps of the outputs, in which all but the last valid one are 0. Where
//! the last cell state is read, which no output has for all steps, the padding comes first
//! (`in_front.rs`). Lengths are within the axis, as ONNX demands of the layer; for a length of 0 all
//! outputs are 0, as ONNX Runtime's.
//!
//! ```text
//! y, h = LSTM(x, …, lengths)  →  all = LSTM(x, …)
//!                                y   = Where(step < length, all, 0)
//!                                h   = ReduceSum(Where(step + 1 == length, all, 0))
//! ```

mod in_front;
mod part;

use super::reversal::Reversal;
use crate::emit::Emit;
use crate::model::{INT64, NodeProto};
use crate::pass::{At, LAYERS, Pass, Verdict};
use crate::scope::Scope;
use part::DirectionLayer;

pub(super) const PASS: Pass = Pass::rounding(
    "sequence-lens",
    "LSTM, GRU and RNN with sequence_lens, to ones without",
    find,
)
.of(LAYERS);

fn find(at: &At<'_>) -> Verdict {
    let &At { scope, node, .. } = at;
    let (input, lengths) = (at.input(0)?, at.input(4)?);
    let layer = Layer::of(scope, node)?;
    let emit = at.emit(node.outputs().next().unwrap_or_default());
    layer.write(&emit, input, lengths);
    let forward = match layer.backwards.len() {
        1 => "forward",
        _ => "one forward for each direction",
    };
    emit.finish(format!("{}, {forward}, without sequence_lens", node.op()))
}

/// The order of axes that swaps the first two, of an input or a state.
const SWAPPED: [i64; 3] = [1, 0, 2];
/// The order of axes that makes `[batch, time, directions, units]` of an output.
const BATCH_FIRST: [i64; 4] = [2, 0, 1, 3];

/// A layer with lengths.
struct Layer<'a> {
    scope: &'a Scope<'a>,
    node: &'a NodeProto,
    /// Flags of the directions: whether each runs backwards.
    backwards: &'static [bool],
    /// Whether its batch comes first (`layout`).
    is_batch_first: bool,
    /// Its outputs that are read: all steps, the last state, the last cell state.
    outputs: [Option<&'a str>; 3],
}

impl<'a> Layer<'a> {
    /// Reads a layer, or says why it has to stay.
    fn of(scope: &'a Scope<'a>, node: &'a NodeProto) -> Result<Self, String> {
        let backwards: &[bool] = match node.text("direction").or("forward") {
            Some("forward") => &[false],
            Some("reverse") => &[true],
            Some("bidirectional") => &[false, true],
            _ => return Err("its direction is not known".to_owned()),
        };
        let layout = node.int("layout").or(0);
        let is_batch_first = layout == Some(1);
        if !is_batch_first && layout != Some(0) {
            return Err("the order of its axes is not known (layout)".to_owned());
        }
        let outputs = [0, 1, 2].map(|output| {
            let output = node.output.get(output).map(String::as_str);
            output.filter(|output| scope.uses(output) > 0)
        });
        let layer = Self {
            scope,
            node,
            backwards,
            is_batch_first,
            outputs,
        };
        part::check(node, backwards.len())?;
        if outputs[2].is_some() {
            in_front::check(scope, node)?;
        }
        Ok(layer)
    }

    fn write(&self, emit: &Emit<'_>, input: &str, lengths: &str) {
        let lengths = emit.cast(lengths, INT64);
        let input = self.time_first(emit, input);
        // All of a layer's floating-point inputs have one type, and weights are mostly constant.
        let typed = self.node.input(1).unwrap_or(&input);
        let zero = emit.zero_like(self.scope, typed);
        let steps = Steps::new(emit, &input, &lengths, zero);
        if self.outputs[2].is_some() {
            in_front::write(self, emit, &input, typed, &steps);
            return;
        }
        let valid = emit.op("Less", (&steps.indices, &steps.ends));
        let directions = 0..self.backwards.len();
        let all = directions.map(|direction| self.run(emit, direction, &input, &steps));
        let all: Vec<String> = all.collect();
        if let Some(y) = self.outputs[0] {
            let forwards = std::iter::zip(self.backwards, &all);
            let forwards = forwards.map(|(&backwards, all)| match backwards {
                true => steps.in_order(emit, all),
                false => all.clone(),
            });
            let joined = emit.concat(forwards.collect::<Vec<_>>(), 1);
            let counting = emit.op("Where", (&valid, joined, &steps.zero));
            self.give(emit, y, counting, &BATCH_FIRST);
        }
        if let Some(output) = self.outputs[1] {
            let last = steps.last(emit, &valid, &emit.concat(all, 1));
            self.give(emit, output, emit.sum(&last, &[0]), &SWAPPED);
        }
    }

    /// An input or initial state with the batch as its second axis.
    fn time_first(&self, emit: &Emit<'_>, value: &str) -> String {
        match self.is_batch_first {
            true => emit.transpose(value, &SWAPPED),
            false => value.to_owned(),
        }
    }

    /// Gives an output a value that has the batch behind time and directions; `perm` brings it to the
    /// front.
    fn give(&self, emit: &Emit<'_>, output: &str, value: String, perm: &[i64]) {
        match self.is_batch_first {
            true => emit.give(output, emit.transpose(&value, perm)),
            false => emit.give(output, value),
        }
    }

    /// Runs one direction forwards; its outputs `[time, 1, batch, units]`, in the order in which it ran.
    fn run(&self, emit: &Emit<'_>, direction: usize, input: &str, steps: &Steps) -> String {
        let input = match self.backwards[direction] {
            true => steps.reversal().write(emit, input),
            false => input.to_owned(),
        };
        let mut part = DirectionLayer::new(self.scope, self.node, direction, self.backwards.len());
        for state in [5, 6] {
            if let Some(name) = self.node.input(state) {
                let name = self.time_first(emit, name);
                part.set_state(emit, state, &name);
            }
        }
        let all = emit.name("all_steps");
        let node = part.into_node(emit, input, vec![all.clone()]);
        emit.copy(node);
        all
    }
}

/// The operands of comparisons between steps, broadcast to `[time, directions, batch, units]`.
struct Steps {
    /// The number of steps, a scalar.
    time: String,
    /// The length of each sequence, int64 of `[batch]`.
    lengths: String,
    /// The index of each step.
    indices: String,
    /// The lengths, with the axes of `indices`.
    ends: String,
    /// A zero of the layer's type.
    zero: String,
}

impl Steps {
    fn new(emit: &Emit<'_>, input: &str, lengths: &str, zero: String) -> Self {
        let time = emit.size(input, 0);
        let range = emit.op("Range", (0, &time, 1));
        Self {
            time,
            lengths: lengths.to_owned(),
            indices: emit.unsqueeze(&range, &[1, 2, 3]),
            ends: emit.unsqueeze(lengths, &[0, 1, 3]),
            zero,
        }
    }

    /// Whether each step is one of the padding, if that comes first, of `[time, batch, 1]`.
    fn in_front(&self, emit: &Emit<'_>) -> String {
        let count = emit.op("Sub", (&self.time, &self.ends));
        emit.squeeze(&emit.op("Less", (&self.indices, count)), &[1])
    }

    fn reversal(&self) -> Reversal<'_> {
        Reversal::Sequence {
            time: 0,
            batch: 1,
            lengths: &self.lengths,
        }
    }

    /// The outputs of a direction that ran by its lengths in reverse, in the order of the input.
    fn in_order(&self, emit: &Emit<'_>, all: &str) -> String {
        let squeezed = emit.squeeze(all, &[1]);
        emit.unsqueeze(&self.reversal().write(emit, &squeezed), &[1])
    }

    /// The outputs with 0 in place of all but the last valid step.
    fn last(&self, emit: &Emit<'_>, valid: &str, all: &str) -> String {
        let next = emit.op("Add", (&self.indices, [1]));
        let goes_on = emit.op("Less", (next, &self.ends));
        let counting = emit.op("Where", (valid, all, &self.zero));
        emit.op("Where", (goes_on, &self.zero, counting))
    }
}
