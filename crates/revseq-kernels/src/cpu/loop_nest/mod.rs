//! The plan's loops as lines: what every kernel walks along.
//!
//! All loops but the innermost one lead to a line; a kernel moves along it. One
//! item is one step on one line, so that a range of items is a piece of work of
//! known size that starts and ends anywhere.

pub(crate) mod job;

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
struct OuterLoop {
    size: usize,
    step: Position,
}

impl OuterLoop {
    /// A level that goes round once.
    const ONCE: Self = Self {
        size: 1,
        step: Position {
            input: 0,
            output: 0,
            lengths: 0,
            time: 0,
        },
    };
}

/// All lines of a plan.
pub(crate) struct LoopNest {
    outer: SmallVec<[OuterLoop; 5]>,
    /// The loop that a line is.
    pub(crate) line: Loop,
    /// Whether the line runs along time.
    pub(crate) along_time: bool,
}

impl LoopNest {
    /// The tiles of a plan whose innermost loop are packed columns: all time
    /// steps of some columns, as the tiling says, which cuts them in so many `tiles`.
    pub(crate) fn tiles(plan: &Plan, tiles: usize) -> Self {
        let outer = plan.loops.len().saturating_sub(1);
        Self {
            outer: plan.loops[..outer].iter().map(outer_loop).collect(),
            line: Loop {
                size: tiles,
                input: 0,
                output: 0,
                lengths: 0,
            },
            along_time: false,
        }
    }

    /// The lines of a plan whose time loop has `time_steps` steps: the axis
    /// size, or half of a longest length for pairs that swap.
    pub(crate) fn new(plan: &Plan, time_steps: usize) -> Self {
        let time = OuterLoop {
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
        let mut nest = Self {
            outer: SmallVec::new(),
            line,
            along_time,
        };
        // What is outside time, time itself unless it is the line, and the rest.
        let (outside, inside) = loops.split_at(plan.outside_time.min(loops.len()));
        for round in outside {
            nest.outer.push(outer_loop(round));
        }
        if !along_time {
            nest.outer.push(time);
        }
        for round in inside {
            nest.outer.push(outer_loop(round));
        }
        nest
    }

    /// The number of items: steps of all lines together.
    pub(crate) fn items(&self) -> usize {
        self.outer.iter().map(|level| level.size).product::<usize>() * self.line.size
    }

    /// Every line that has items in `items`, with the steps on it.
    #[inline(always)]
    pub(crate) fn lines<'a>(&'a self, items: Range<usize>, rounds: &'a mut Rounds) -> Lines<'a> {
        let inner = self.outer.last().copied().unwrap_or(OuterLoop::ONCE);
        let mut lines = Lines {
            nest: self,
            rounds,
            position: Position::default(),
            inner: inner.step,
            more: inner.size.saturating_sub(1),
            first: 0,
            left: items.len(),
        };
        // The first item's line is the first one: most runs start there, and divisions cost.
        if lines.left > 0 && items.start > 0 {
            lines.first = items.start % self.line.size;
            let line = items.start / self.line.size;
            lines.more = inner.size - 1 - line % inner.size;
            lines.position = self.find(line, lines.rounds);
        }
        lines
    }

    /// Where a line starts, and in which `rounds`.
    #[cold]
    #[inline(never)]
    fn find(&self, mut line: usize, rounds: &mut Rounds) -> Position {
        let mut position = Position::default();
        rounds.0.resize(self.outer.len(), 0);
        for (round, level) in rounds.0.iter_mut().zip(self.outer.iter().rev()) {
            *round = line % level.size;
            line /= level.size;
            position.advance(&level.step, *round);
        }
        position
    }

    /// Goes on to the next round of the level around the innermost, at whose
    /// last round `position` is.
    #[cold]
    #[inline(never)]
    fn carry(&self, rounds: &mut Rounds, mut position: Position) -> Position {
        rounds.0.resize(self.outer.len(), 0);
        for (place, (round, level)) in rounds.0.iter_mut().zip(self.outer.iter().rev()).enumerate()
        {
            if place == 0 {
                position.rewind(&level.step, level.size - 1);
                continue;
            }
            *round += 1;
            if *round < level.size {
                position.advance(&level.step, 1);
                break;
            }
            position.rewind(&level.step, level.size - 1);
            *round = 0;
        }
        position
    }
}

/// The round of each level, from the innermost on, which itself is not kept up.
///
/// Apart from [`Lines`], so that the rest of it can stay in registers.
#[derive(Default)]
pub(crate) struct Rounds(SmallVec<[usize; 5]>);

/// Goes through lines in order.
///
/// An iterator and not a callback, so that what a kernel does with a line is
/// compiled as part of the kernel, with its vector instructions.
pub(crate) struct Lines<'a> {
    nest: &'a LoopNest,
    rounds: &'a mut Rounds,
    position: Position,
    /// A round of the innermost level.
    inner: Position,
    /// How many rounds of the innermost level are left.
    more: usize,
    first: usize,
    left: usize,
}

/// Neighbouring lines on the innermost level, whole unless it is only one.
pub(crate) struct Run {
    /// Where the first line starts.
    pub(crate) at: Position,
    /// How far the next line is from each.
    pub(crate) step: Position,
    pub(crate) lines: usize,
    /// The steps on each.
    pub(crate) steps: Range<usize>,
}

impl Lines<'_> {
    /// Whether each line is a time step of the same columns as the one before,
    /// but where a level further out goes on.
    pub(crate) fn are_time_steps(&self) -> bool {
        self.inner.time == 1
    }

    /// As `next`, of at most `most` lines at once.
    #[inline(always)]
    pub(crate) fn next_run(&mut self, most: usize) -> Option<Run> {
        let whole = match self.first {
            0 => self.left / self.nest.line.size,
            _ => 0,
        };
        let (at, step) = (self.position, self.inner);
        let before = whole.min(self.more + 1).min(most).saturating_sub(1);
        self.position.advance(&step, before);
        self.more -= before;
        self.left -= before * self.nest.line.size;
        let (_, steps) = self.next()?;
        Some(Run {
            at,
            step,
            lines: before + 1,
            steps,
        })
    }
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
        if self.more > 0 {
            self.more -= 1;
            self.position.advance(&self.inner, 1);
        } else if self.left > 0 {
            self.position = self.nest.carry(self.rounds, self.position);
            self.more = self.nest.outer.last().map_or(0, |inner| inner.size - 1);
        }
        Some(item)
    }
}

fn outer_loop(round: &Loop) -> OuterLoop {
    OuterLoop {
        size: round.size,
        step: Position::step_of(round),
    }
}

impl Position {
    /// How far a round of a loop is from the one before.
    pub(crate) fn step_of(round: &Loop) -> Self {
        Self {
            input: round.input,
            output: round.output,
            lengths: round.lengths,
            time: 0,
        }
    }

    #[inline(always)]
    pub(crate) fn advance(&mut self, step: &Self, rounds: usize) {
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
