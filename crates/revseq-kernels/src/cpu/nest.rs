//! The plan's loops as lines: what every kernel walks along.
//!
//! All loops but the innermost one lead to a line; a kernel moves along it. One
//! item is one step on one line, so that a range of items is a piece of work of
//! known size that starts and ends anywhere.

use std::ops::Range;

use smallvec::SmallVec;

use crate::Plan;
use crate::plan::Loop;

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

impl Nest {
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
        let level = |round: &Loop| Level {
            size: round.size,
            step: Position {
                input: round.input,
                output: round.output,
                lengths: round.lengths,
                time: 0,
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

    /// The loop that a line is.
    pub(crate) fn line(&self) -> Loop {
        self.line
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
