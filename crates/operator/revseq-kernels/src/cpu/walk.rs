//! A plan as items, and a range of items as bands of rows, which kernels take.
//!
//! An item is a row, in place a pair of rows, or a tile of columns. Items are numbered so that any
//! range of them is a piece of work of known size, which starts and ends anywhere. A band is all
//! time steps of some columns, or those that a piece has of them.

use std::ops::Range;

use smallvec::SmallVec;

use super::choice::KernelChoice;
use crate::plan::Loop;
use crate::{Plan, SequenceLengths};

/// The items of a plan.
pub(crate) struct Walk {
    /// The loops around columns and time, from the outermost on.
    outer: SmallVec<[Loop; 4]>,
    /// The columns, each with a length.
    pub(crate) columns: Loop,
    /// The time steps: the axis size, or half of a longest length for pairs.
    pub(crate) steps: usize,
    /// Whether the next item is the next time step, rather than the next column.
    pub(crate) along_time: bool,
}

impl Walk {
    /// The rows of a plan whose time loop has `steps` steps, column by column if a row's neighbour
    /// in the output is its next time step.
    pub(crate) fn rows(plan: &Plan, steps: usize) -> Self {
        let (columns, outer) = plan.loops.split_last().unwrap_or((&Loop::ONCE, &[]));
        Self {
            outer: outer.into(),
            columns: *columns,
            steps,
            along_time: plan.outside_time == plan.loops.len(),
        }
    }

    /// The tiles of a plan: all time steps of its innermost loop, cut into `tiles`.
    pub(crate) fn tiles(plan: &Plan, tiles: usize) -> Self {
        let columns = Loop {
            size: tiles,
            ..Loop::ONCE
        };
        Self {
            columns,
            along_time: false,
            ..Self::rows(plan, 1)
        }
    }

    /// The number of items.
    pub(crate) fn items(&self) -> usize {
        let outer = self.outer.iter().map(|outer| outer.size);
        outer.product::<usize>() * self.columns.size * self.steps
    }

    /// The most of some items, from the first on, that are neighbouring time steps of neighbouring
    /// columns: both, and where the first of all columns starts.
    fn block(&self, items: &Range<usize>) -> (Range<usize>, Range<usize>, Loop) {
        let (outer, inner) = match self.along_time {
            true => (self.columns.size, self.steps),
            false => (self.steps, self.columns.size),
        };
        let (round, first) = (items.start / inner, items.start % inner);
        let (mut around, round) = (round / outer, round % outer);
        let (rounds, places) = match first {
            0 if items.len() >= inner => ((items.len() / inner).min(outer - round), 0..inner),
            _ => (1, first..inner.min(first + items.len())),
        };
        let rounds = round..round + rounds;
        let mut start = Loop::ONCE;
        for outer in self.outer.iter().rev() {
            let index = around % outer.size;
            around /= outer.size;
            start.input += outer.input * index;
            start.output += outer.output * index;
            start.lengths += outer.lengths * index;
        }
        match self.along_time {
            true => (rounds, places, start),
            false => (places, rounds, start),
        }
    }
}

/// A run as its kernel sees it, on every thread.
///
/// Every offset is a sum of coordinates times strides, so inside the extents that the plan has
/// computed from the same sizes and strides; a time step is less than the axis size, as a length
/// is at most that.
pub(crate) struct Job<'a> {
    pub(crate) plan: &'a Plan,
    pub(crate) walk: &'a Walk,
    pub(crate) lengths: &'a SequenceLengths<'a>,
    /// The input, readable for the plan's `input_bytes`. In place, the output.
    pub(crate) input: *const u8,
    /// The output, writable for the plan's `output_bytes`.
    pub(crate) output: *mut u8,
    pub(crate) choice: KernelChoice,
}

// SAFETY: threads get disjoint items, and distinct items write distinct bytes and read none that
// another writes: out of place an item is its own row, and the plan's output has no two rows that
// share a byte; in place an item is the only pair of its column with that first step, or whole
// columns.
unsafe impl Sync for Job<'_> {}

/// Columns of rows, evenly spaced, each with its length, and some time steps of them.
#[derive(Clone)]
pub(crate) struct Band<'a> {
    /// The start of the first column: its row of time step 0.
    pub(crate) input: *const u8,
    /// The start of the first column in the output. In place, the same.
    pub(crate) output: *mut u8,
    /// The bytes of the input before the first column.
    pub(crate) before: usize,
    /// The number of the first column, and the index of the length of the one numbered 0.
    pub(crate) first: usize,
    pub(crate) first_length: usize,
    /// The bytes from a column to the next in the input.
    pub(crate) input_step: usize,
    /// The bytes from a column to the next in the output.
    pub(crate) output_step: usize,
    /// A length for each column.
    pub(crate) lengths: &'a [usize],
    pub(crate) times: Range<usize>,
    /// Whether a row's next neighbour is its next time step.
    pub(crate) along_time: bool,
}

/// The most columns of a band, whose lengths are read together.
pub(crate) const MAX_COLUMNS: usize = 128;

impl Job<'_> {
    /// Calls `work` with the bands that some items are, of `most` columns each.
    #[inline(always)]
    pub(crate) fn for_each_band(
        &self,
        mut items: Range<usize>,
        most: usize,
        mut work: impl FnMut(Band<'_>),
    ) {
        let most = most.min(MAX_COLUMNS);
        let mut lengths = [0; MAX_COLUMNS];
        let step = self.walk.columns;
        while !items.is_empty() {
            let (columns, times, start) = self.walk.block(&items);
            items.start += columns.len() * times.len();
            for first in columns.clone().step_by(most) {
                let lengths = &mut lengths[..most.min(columns.end - first)];
                let place = start.lengths + first * step.lengths;
                self.lengths.read(place, step.lengths, lengths);
                let before = start.input + first * step.input;
                let after = start.output + first * step.output;
                work(Band {
                    input: self.input.wrapping_add(before),
                    output: self.output.wrapping_add(after),
                    before,
                    first,
                    first_length: start.lengths,
                    input_step: step.input,
                    output_step: step.output,
                    lengths,
                    times: times.clone(),
                    along_time: self.walk.along_time,
                });
            }
        }
    }
}

/// The longest of some lengths, 0 of none.
#[inline(always)]
pub(crate) fn longest(lengths: &[usize]) -> usize {
    lengths.iter().copied().fold(0, usize::max)
}

/// The time step that step `t` of a column of this length is read from.
#[inline(always)]
pub(crate) fn source(length: usize, t: usize) -> usize {
    if t < length { length - 1 - t } else { t }
}
