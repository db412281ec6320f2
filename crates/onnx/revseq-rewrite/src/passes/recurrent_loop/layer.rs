//! Recurrent layers, as a loop or traced steps have them, before they are written.

use crate::passes::cells::Cell;
use crate::sizes::Size;

use super::rows::BroadcastRows;

/// The recurrent layers of one loop: one, or a stack in which some read the output of others.
pub(crate) struct Layers<'a> {
    /// Sorted: each layer comes after those it reads.
    pub(crate) layers: Vec<Layer<'a>>,
    /// Whether they run from the end of the sequence to its start.
    pub(crate) backwards: bool,
    /// The valid steps; `None` if all are.
    pub(crate) steps: Option<ValidSteps<'a>>,
    /// Whether sums of products choose by the mask; `None` if the values differ in that.
    pub(crate) blends: Option<bool>,
    /// The number of sequences, and of steps, if they are looked for.
    pub(crate) batch: Option<Size<'a>>,
    pub(crate) length: Option<Size<'a>>,
    /// The loop's outputs that are read.
    pub(crate) outputs: Vec<(&'a str, LoopOutput<'a>)>,
}

pub(crate) struct Layer<'a> {
    pub(crate) cell: Cell<'a>,
    pub(crate) input: Input<'a>,
    /// The initial states; `None` if zero.
    pub(crate) hidden: Option<&'a str>,
    pub(crate) memory: Option<&'a str>,
    /// What the loop broadcasts the input to: rows of its states and of the mask that may be more.
    pub(crate) rows: Vec<BroadcastRows<'a>>,
}

/// A layer's input.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Input<'a> {
    /// A sequence, in its own step order.
    Sequence { value: &'a str, time: usize },
    /// Another layer's output.
    Layer(usize),
}

/// The valid steps, in the sequence's own order.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum ValidSteps<'a> {
    /// Steps at which a mask is true.
    Mask(Mask<'a>),
    /// Steps before the length of each sequence of the batch.
    Below(&'a str),
}

/// A value for each step of each sequence, or for all sequences.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Mask<'a> {
    pub(super) value: &'a str,
    /// The time axis.
    pub(super) time: usize,
    /// Whether it lacks the last axis, of size 1.
    pub(super) is_matrix: bool,
    /// Whether its element type is provably bool.
    pub(super) is_bool: bool,
    /// Whether valid steps come first in each sequence of the batch.
    pub(super) is_prefix: bool,
    /// Whether it provably has a value for each sequence of the batch, and for each step.
    pub(super) is_of_batch: bool,
    pub(super) is_of_steps: bool,
}

/// An output of the loop.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum LoopOutput<'a> {
    /// A layer's output at every step.
    Steps {
        layer: usize,
        masked: Masked,
        /// The time axis.
        time: i64,
        /// Whether the sequence's last step comes first.
        backwards: bool,
        /// Whether each step is `[1, batch, units]`.
        is_framed: bool,
    },
    /// A layer's output at one step, by its place in the sequence, `[batch, units]`.
    Step { layer: usize, at: i64 },
    /// The last output, `[batch, units]`.
    Hidden(usize),
    /// The same, but 0 if no step is valid.
    Repeated(usize),
    /// One of the above, as `[1, batch, units]`.
    Buffer { layer: usize, is_repeated: bool },
    /// The last cell state.
    Memory(usize),
    /// A value of the outer graph that the loop passes through.
    Same(&'a str),
}

/// The output at an invalid step.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Masked {
    /// The last valid output, or 0 before any.
    Repeated,
    /// The state: the last valid output, or the initial state before any.
    State,
    Zero,
}

impl Layers<'_> {
    /// The outputs of a layer that the loop's outputs or another layer need: those at all steps, h, and
    /// c.
    pub(super) fn wanted(&self, index: usize) -> [bool; 3] {
        let mut wanted = [false; 3];
        wanted[0] = self.layers.iter().any(|it| it.input == Input::Layer(index));
        for (_, what) in &self.outputs {
            let (layer, output) = match *what {
                LoopOutput::Steps { layer, .. } | LoopOutput::Step { layer, .. } => (layer, 0),
                LoopOutput::Hidden(layer) | LoopOutput::Repeated(layer) => (layer, 1),
                LoopOutput::Buffer { layer, .. } => (layer, 1),
                LoopOutput::Memory(layer) => (layer, 2),
                LoopOutput::Same(_) => continue,
            };
            wanted[output] |= layer == index;
        }
        wanted
    }

    /// Whether all layers and their mask have a row for each sequence of the batch, and no others.
    pub(super) fn are_of_batch(&self) -> bool {
        let is_of_batch = match self.steps {
            Some(ValidSteps::Mask(mask)) => mask.is_of_batch && mask.is_of_steps,
            _ => true,
        };
        is_of_batch && self.layers.iter().all(|layer| layer.rows.is_empty())
    }

    /// Whether a layer has a row for each sequence of the batch, and no others.
    pub(super) fn is_of_batch(&self, index: usize) -> bool {
        let layer = &self.layers[index];
        layer.rows.is_empty()
            && match layer.input {
                Input::Sequence { .. } => true,
                Input::Layer(before) => self.is_of_batch(before),
            }
    }
}
