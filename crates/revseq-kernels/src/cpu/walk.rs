//! Walking the lines of a plan, out of place and in place.

use std::ops::Range;

use super::nest::{Nest, Position};
use super::row::Row;
use super::sink::{BLOCK, Sink, prefetch};
use crate::{Plan, SequenceLengths};

/// How far ahead of the row that is read its successors are asked for, in bytes.
const AHEAD: usize = 4 << 10;

/// Rows shorter than this are copied one by one: to compare neighbours costs more.
const MERGED: usize = 64;

/// Moves the rows of some items from their place in `input` to their place in the output.
///
/// # Safety
/// `input` is readable for the plan's `input_bytes`, the sink writes to an
/// output of the plan's `output_bytes`, and they do not overlap. `items` are
/// items of the nest, which is the plan's with all its time steps.
#[inline(always)]
pub(super) unsafe fn copy_items<R: Row, S: Sink>(
    plan: &Plan,
    nest: &Nest,
    lengths: &SequenceLengths<'_>,
    row: R,
    input: *const u8,
    sink: &mut S,
    items: Range<usize>,
) {
    let line = Line {
        plan,
        nest,
        lengths,
        row,
    };
    for (at, steps) in nest.lines(items) {
        // SAFETY: the caller's.
        unsafe {
            match nest.along_time {
                true => line.copy_along_time(input, sink, at, steps),
                false => line.copy_across(input, sink, at, steps),
            }
        }
    }
}

/// A line of a plan.
///
/// Every offset on it is a sum of coordinates times strides, so inside the
/// extents that the plan computed from the same sizes and strides; the time
/// step that is read is less than the axis size, as a length is at most that.
struct Line<'a, R> {
    plan: &'a Plan,
    nest: &'a Nest,
    lengths: &'a SequenceLengths<'a>,
    row: R,
}

impl<R: Row> Line<'_, R> {
    /// Copies along a line of time steps: a subsequence, or a part of one.
    ///
    /// # Safety
    /// As [`copy_items`]; the line is along time.
    #[inline(always)]
    unsafe fn copy_along_time<S: Sink>(
        &self,
        input: *const u8,
        sink: &mut S,
        at: Position,
        steps: Range<usize>,
    ) {
        let (time, bytes) = (self.plan.time, self.row.bytes());
        let length = self.lengths.get(at.lengths).min(time.size);
        let reversed = steps.start.min(length)..steps.end.min(length);
        let kept = steps.start.max(length)..steps.end.max(length);
        // SAFETY: see `Line`.
        unsafe {
            let input = input.add(at.input);
            if (time.input, time.output) != (bytes, bytes) {
                for t in steps {
                    sink.seek(at.output + t * time.output);
                    self.row
                        .give(input.add(source(length, t) * time.input), sink);
                }
                return;
            }
            if steps.len() * bytes <= AHEAD {
                // Short runs, backwards and forwards in turn, no hardware foresees;
                // the lines that follow mostly lie behind this one.
                let next = input.wrapping_add(steps.start * bytes + AHEAD);
                prefetch(next, steps.len() * bytes);
            }
            // Packed rows from one time step to the next are one run of bytes.
            sink.seek(at.output + steps.start * bytes);
            let mut left = reversed.len();
            let mut from = (length - reversed.end + left) * bytes;
            let rows = (BLOCK / bytes).max(1);
            while left > 0 {
                let count = left.min(rows);
                from -= count * bytes;
                prefetch(input.wrapping_add(from).wrapping_sub(AHEAD), count * bytes);
                self.row.give_reversed(input.add(from), sink, count);
                left -= count;
            }
            sink.copy(input.add(kept.start * bytes), kept.len() * bytes);
        }
    }

    /// Copies along a line at one time step: neighbours with lengths of their own.
    ///
    /// # Safety
    /// As [`copy_items`]; the line is not along time.
    #[inline(always)]
    unsafe fn copy_across<S: Sink>(
        &self,
        input: *const u8,
        sink: &mut S,
        at: Position,
        steps: Range<usize>,
    ) {
        let (time, line, bytes) = (self.plan.time, self.nest.line(), self.row.bytes());
        let output = at.output + at.time * time.output;
        // SAFETY: see `Line`.
        unsafe {
            if (line.input, line.output) != (bytes, bytes) {
                for step in steps {
                    sink.seek(output + step * line.output);
                    self.row.give(input.add(self.from(at, step)), sink);
                }
                return;
            }
            sink.seek(output + steps.start * bytes);
            if line.lengths == 0 {
                let from = self.from(at, steps.start);
                sink.copy(input.add(from), steps.len() * bytes);
                return;
            }
            if bytes < MERGED {
                for step in steps {
                    self.row.give(input.add(self.from(at, step)), sink);
                }
                return;
            }
            let ahead = (AHEAD / bytes).max(1);
            let mut step = steps.start;
            let mut next = self.from(at, step);
            // Neighbours that read the same time step are one run of bytes.
            while step < steps.end {
                let (first, start) = (step, next);
                loop {
                    // The rows that follow lie anywhere: no hardware foresees them.
                    let soon = self.from(at, (step + ahead).min(steps.end - 1));
                    prefetch(input.add(soon), bytes);
                    step += 1;
                    if step == steps.end {
                        break;
                    }
                    next = self.from(at, step);
                    if next != start + (step - first) * bytes {
                        break;
                    }
                }
                if step == first + 1 {
                    self.row.give(input.add(start), sink);
                } else {
                    sink.copy(input.add(start), (step - first) * bytes);
                }
            }
        }
    }

    /// The offset in the input of what a step of a line at one time step reads.
    #[inline(always)]
    fn from(&self, at: Position, step: usize) -> usize {
        let line = self.nest.line();
        let length = self.lengths.get(at.lengths + step * line.lengths);
        at.input + step * line.input + source(length, at.time) * self.plan.time.input
    }
}

/// The time step that step `t` of a subsequence of this length reads.
#[inline(always)]
fn source(length: usize, t: usize) -> usize {
    if t < length { length - 1 - t } else { t }
}

/// The nest whose time steps are the first steps of pairs that may have to swap.
pub(super) fn pairs(plan: &Plan, longest: usize) -> Nest {
    Nest::new(plan, longest / 2)
}

/// Exchanges the rows of some pairs.
///
/// # Safety
/// `data` is readable and writable for the plan's `output_bytes`, and the
/// plan's input has the output's layout. `items` are items of the nest, which
/// is one of [`pairs`].
#[inline(always)]
pub(super) unsafe fn swap_items<R: Row>(
    plan: &Plan,
    nest: &Nest,
    lengths: &SequenceLengths<'_>,
    row: R,
    data: *mut u8,
    items: Range<usize>,
) {
    let (time, line) = (plan.time, nest.line());
    for (at, steps) in nest.lines(items) {
        // SAFETY: both time steps of a pair are less than the axis size and
        // differ, so the offsets are those of two rows inside the plan's output.
        // Packed, the rows of the first steps and their mirror images are two
        // runs that do not overlap.
        unsafe {
            let start = data.add(at.output);
            if !nest.along_time {
                for step in steps {
                    let length = lengths.get(at.lengths + step * line.lengths);
                    if at.time < length / 2 {
                        let column = start.add(step * line.output);
                        let mirror = length - 1 - at.time;
                        row.swap(
                            column.add(at.time * time.output),
                            column.add(mirror * time.output),
                        );
                    }
                }
                continue;
            }
            let length = lengths.get(at.lengths);
            let pairs = steps.start..steps.end.min(length / 2);
            if pairs.is_empty() {
                continue;
            }
            if time.output == row.bytes() {
                let one = start.add(pairs.start * row.bytes());
                let other = start.add((length - pairs.end) * row.bytes());
                row.swap_reversed(one, other, pairs.len());
            } else {
                for t in pairs {
                    let mirror = length - 1 - t;
                    row.swap(start.add(t * time.output), start.add(mirror * time.output));
                }
            }
        }
    }
}
