//! A run as its kernel sees it.

use crate::cpu::loop_nest::{LoopNest, Position};
use crate::{Plan, SequenceLengths};

/// What a kernel works on, with any other thread.
///
/// Every offset that the methods give is a sum of coordinates times strides, so
/// inside the extents that the plan computed from the same sizes and strides; a
/// time step is less than the axis size, as a length is at most that.
pub(crate) struct Job<'a> {
    pub(crate) plan: &'a Plan,
    pub(crate) nest: &'a LoopNest,
    pub(crate) lengths: &'a SequenceLengths<'a>,
    /// Readable for the plan's `input_bytes`. In place, the output.
    pub(crate) input: *const u8,
    /// Writable for the plan's `output_bytes`.
    pub(crate) output: *mut u8,
}

// SAFETY: threads get disjoint items, and distinct items write distinct bytes
// and read none that another writes: out of place an item is its own row, and
// the plan's output has no two rows that share a byte; in place an item is the
// only pair of its subsequence with that first step, or whole columns.
unsafe impl Sync for Job<'_> {}

/// The row of an item.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Row {
    /// Where its column starts in the input, in bytes: the row of its first time step.
    pub(crate) input: usize,
    /// Where its column starts in the output, in bytes.
    pub(crate) output: usize,
    /// The length of the column.
    pub(crate) length: usize,
    /// Its time step.
    pub(crate) time: usize,
}

impl Row {
    /// The time step that it is read from.
    #[inline(always)]
    pub(crate) fn source(&self) -> usize {
        source(self.length, self.time)
    }
}

impl Job<'_> {
    /// The row of step `step` of a line.
    #[inline(always)]
    pub(crate) fn row(&self, at: Position, step: usize) -> Row {
        let line = self.nest.line;
        let (column, time) = match self.nest.along_time {
            true => (0, step),
            false => (step, at.time),
        };
        Row {
            input: at.input + column * line.input,
            output: at.output + column * line.output,
            length: self.lengths.get(at.lengths + column * line.lengths),
            time,
        }
    }
}

/// The longest of some lengths, 0 of none.
#[inline(always)]
pub(crate) fn longest(lengths: &[usize]) -> usize {
    let longest = lengths.iter().copied();
    longest.fold(0, usize::max)
}

/// The time step that step `t` of a subsequence of this length is read from.
#[inline(always)]
pub(crate) fn source(length: usize, t: usize) -> usize {
    if t < length { length - 1 - t } else { t }
}
