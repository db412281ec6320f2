//! The plan's loops as lines: what every kernel walks along.
//!
//! All loops but the innermost one lead to a line; a kernel moves along it. One
//! item is one step on one line, so that a range of items is a piece of work of
//! known size that starts and ends anywhere.

use std::ops::Range;

use smallvec::SmallVec;

use crate::plan::Loop;
use crate::{Plan, SequenceLengths};

/// Where a line starts.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Position {
    /// The offset in the input in bytes, without that of the time step.
    pub(crate) input: usize,
    /// The offset in the output in bytes, without that of the time step.
    pub(crate) output: usize,
    /// The index of the length.
    pub(crate) lengths: usize,
    /// The time step; 0 on a line along time.
    pub(crate) time: usize,
}

#[derive(Clone, Copy)]
struct Level {
    size: usize,
    step: Position,
}

/// All lines of a plan.
pub(crate) struct Nest {
    outer: SmallVec<[Level; 5]>,
    line: Loop,
    /// Whether the line runs along time.
    pub(crate) along_time: bool,
}

/// A row of an item.
///
/// Every offset is a sum of coordinates times strides, so inside the extents
/// that the plan computed from the same sizes and strides; a time step is less
/// than the axis size, as a length is at most that.
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
        if self.time < self.length {
            self.length - 1 - self.time
        } else {
            self.time
        }
    }
}

impl Nest {
    /// The tiles of a plan whose innermost loop are packed columns: all time
    /// steps of `tile_bytes` bytes of columns, or less at the end of a line.
    pub(crate) fn tiles(plan: &Plan, tile_bytes: usize) -> Self {
        let (columns, loops) = match plan.loops.split_last() {
            Some((last, loops)) => (last.size, loops),
            None => (1, &plan.loops[..]),
        };
        Self {
            outer: loops.iter().map(level).collect(),
            line: Loop {
                size: (columns * plan.row_bytes).div_ceil(tile_bytes),
                input: tile_bytes,
                output: tile_bytes,
                lengths: 0,
            },
            along_time: false,
        }
    }

    /// The lines of a plan whose time loop has `time_steps` steps: the axis
    /// size, or half of a longest length for pairs that swap.
    pub(crate) fn new(plan: &Plan, time_steps: usize) -> Self {
        let time = Level {
            size: time_steps,
            step: Position {
                time: 1,
                ..Position::default()
            },
        };
        let along_time = plan.outside_time == plan.loops.len();
        let (line, loops) = match plan.loops.split_last() {
            Some((last, loops)) if !along_time => (*last, loops),
            _ => (
                Loop {
                    size: time_steps,
                    ..plan.time
                },
                &plan.loops[..],
            ),
        };
        let mut outer: SmallVec<[Level; 5]> = loops.iter().map(level).collect();
        if !along_time {
            outer.insert(plan.outside_time, time);
        }
        Self {
            outer,
            line,
            along_time,
        }
    }

    /// The number of items: steps of all lines together.
    pub(crate) fn items(&self) -> usize {
        self.outer.iter().map(|level| level.size).product::<usize>() * self.line.size
    }

    /// The row of an item: a step of a line.
    #[inline(always)]
    pub(crate) fn row(&self, lengths: &SequenceLengths<'_>, at: Position, step: usize) -> Row {
        let (column, time) = match self.along_time {
            true => (0, step),
            false => (step, at.time),
        };
        Row {
            input: at.input + column * self.line.input,
            output: at.output + column * self.line.output,
            length: lengths.get(at.lengths + column * self.line.lengths),
            time,
        }
    }

    /// Every line that has items in `items`, with the steps on it.
    #[inline(always)]
    pub(crate) fn lines(&self, items: Range<usize>) -> Lines<'_> {
        let mut lines = Lines {
            nest: self,
            rounds: SmallVec::from_elem(0, self.outer.len()),
            position: Position::default(),
            first: 0,
            left: items.len(),
        };
        // The first item's line is the first one: most runs start there, and divisions cost.
        if lines.left > 0 && items.start > 0 {
            lines.first = items.start % self.line.size;
            let mut remaining = items.start / self.line.size;
            for (round, level) in lines.rounds.iter_mut().zip(&self.outer).rev() {
                *round = remaining % level.size;
                remaining /= level.size;
                lines.position.advance(&level.step, *round);
            }
        }
        lines
    }
}

/// Goes through lines in order.
///
/// An iterator and not a callback, so that what a kernel does with a line is
/// compiled as part of the kernel, with its vector instructions.
pub(crate) struct Lines<'a> {
    nest: &'a Nest,
    rounds: SmallVec<[usize; 5]>,
    position: Position,
    first: usize,
    left: usize,
}

impl Iterator for Lines<'_> {
    type Item = (Position, Range<usize>);

    #[inline(always)]
    fn next(&mut self) -> Option<Self::Item> {
        if self.left == 0 {
            return None;
        }
        let steps = self.left.min(self.nest.line.size - self.first);
        let item = (self.position, self.first..self.first + steps);
        self.left -= steps;
        self.first = 0;
        if self.left > 0 {
            for (round, level) in self.rounds.iter_mut().zip(&self.nest.outer).rev() {
                *round += 1;
                if *round < level.size {
                    self.position.advance(&level.step, 1);
                    break;
                }
                self.position.rewind(&level.step, level.size - 1);
                *round = 0;
            }
        }
        Some(item)
    }
}

fn level(round: &Loop) -> Level {
    Level {
        size: round.size,
        step: Position {
            input: round.input,
            output: round.output,
            lengths: round.lengths,
            time: 0,
        },
    }
}

impl Position {
    #[inline(always)]
    fn advance(&mut self, step: &Self, rounds: usize) {
        self.input += step.input * rounds;
        self.output += step.output * rounds;
        self.lengths += step.lengths * rounds;
        self.time += step.time * rounds;
    }

    #[inline(always)]
    fn rewind(&mut self, step: &Self, rounds: usize) {
        self.input -= step.input * rounds;
        self.output -= step.output * rounds;
        self.lengths -= step.lengths * rounds;
        self.time -= step.time * rounds;
    }
}
