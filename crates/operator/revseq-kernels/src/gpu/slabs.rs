//! Cutting a plan into slabs that one dispatch can reach.
//!
//! A slab is a part of every loop. Along time there are two parts: the steps
//! that are written, and those that can be read. The step to read depends on
//! the length, so slabs along time pair every part with every other.

use std::ops::Range;

use smallvec::SmallVec;

use super::Error;
use crate::Plan;
use crate::plan::Loop;

/// Number of slabs above which a plan is refused.
const MAXIMUM_SLABS: usize = 1 << 16;

/// Rows are cut at multiples of the widest unit.
const ROW_STEP: usize = 16;

/// The layout of lengths in their buffer.
#[derive(Clone, Copy, Debug)]
pub(super) struct LengthsLayout {
    /// The words of a length: 1 or 2.
    pub(super) words: u32,
    pub(super) signed: bool,
}

impl LengthsLayout {
    /// The bytes of a length.
    pub(super) fn bytes(self) -> u64 {
        4 * u64::from(self.words)
    }
}

/// The action at every step of the loops.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Motion {
    /// Copies out of place.
    Copy,
    /// Swaps of pairs in place.
    Swap,
    /// A look at the lengths: nothing moves.
    Check,
}

/// The loops of a plan for one motion.
#[derive(Clone, Debug)]
pub(super) struct Nest {
    pub(super) motion: Motion,
    pub(super) loops: SmallVec<[Loop; 4]>,
    pub(super) outside_time: usize,
    pub(super) time: Loop,
    pub(super) row_bytes: usize,
}

impl Nest {
    /// The loops of a motion, or `None` if there is nothing to do.
    pub(super) fn new(plan: &Plan, motion: Motion) -> Option<Self> {
        let nest = match motion {
            Motion::Check => Self {
                motion,
                loops: plan.lengths_loops(),
                outside_time: 0,
                time: Loop::ONCE,
                row_bytes: 0,
            },
            Motion::Copy | Motion::Swap => Self {
                motion,
                loops: plan.loops.clone(),
                outside_time: plan.outside_time,
                time: plan.time,
                row_bytes: plan.row_bytes,
            },
        };
        let nothing = match motion {
            Motion::Copy => plan.empty,
            Motion::Swap => plan.empty || plan.time.size <= 1,
            Motion::Check => plan.lengths_count() == 0,
        };
        (!nothing).then_some(nest)
    }

    /// The first steps of pairs: half of the axis. All steps for a copy.
    pub(super) fn written_steps(&self, to: &Range<usize>) -> usize {
        match self.motion {
            Motion::Swap => to.end.min(self.time.size / 2).saturating_sub(to.start),
            Motion::Copy | Motion::Check => to.len(),
        }
    }
}

/// The part that does not fit one dispatch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Excess {
    pub(super) kind: ExcessKind,
    pub(super) actual: u64,
    pub(super) maximum: u64,
}

impl Excess {
    /// Checks a number against its limit.
    pub(super) fn check(kind: ExcessKind, actual: u64, maximum: u64) -> Result<(), Self> {
        if actual <= maximum {
            return Ok(());
        }
        Err(Self {
            kind,
            actual,
            maximum,
        })
    }
}

/// The limit that is exceeded: bytes of a binding, or invocations.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ExcessKind {
    Input,
    Lengths,
    Output,
    Items,
}

/// A part of a nest.
#[derive(Clone, Debug)]
pub(super) struct Slab {
    /// The rounds of each loop.
    pub(super) rounds: SmallVec<[Range<usize>; 4]>,
    /// The time steps that are written: of pairs, the first ones.
    pub(super) to: Range<usize>,
    /// The time steps that can be read: of pairs, the second ones.
    pub(super) from: Range<usize>,
    /// The bytes of each row.
    pub(super) row: Range<usize>,
}

/// Place at which a slab can be cut.
#[derive(Clone, Copy)]
enum Cut {
    Rounds(usize),
    To,
    From,
    Row,
}

impl Slab {
    /// All of a nest.
    fn whole(nest: &Nest) -> Self {
        Self {
            rounds: nest.loops.iter().map(|round| 0..round.size).collect(),
            to: 0..nest.time.size,
            from: 0..nest.time.size,
            row: 0..nest.row_bytes,
        }
    }

    /// The bytes of the input, or of the second halves of pairs, from the tensor's start.
    pub(super) fn input(&self, nest: &Nest) -> Range<u64> {
        self.extent(nest, &self.from, &self.row, |round| round.input)
    }

    /// The bytes of the output, from the tensor's start.
    pub(super) fn output(&self, nest: &Nest) -> Range<u64> {
        self.extent(nest, &self.to, &self.row, |round| round.output)
    }

    /// The bytes of the lengths, from the first on.
    pub(super) fn lengths(&self, nest: &Nest, layout: LengthsLayout) -> Range<u64> {
        let lengths = self.extent(nest, &(0..1), &(0..1), |round| round.lengths);
        lengths.start * layout.bytes()..lengths.end * layout.bytes()
    }

    /// The extent of the loops by their steps, with these time steps and this part of a row.
    fn extent(
        &self,
        nest: &Nest,
        times: &Range<usize>,
        row: &Range<usize>,
        step: impl Fn(&Loop) -> usize,
    ) -> Range<u64> {
        let (mut start, mut end) = (row.start, row.end);
        let rounds = self.rounds.iter().chain([times]);
        for (rounds, round) in rounds.zip(nest.loops.iter().chain([&nest.time])) {
            start += rounds.start * step(round);
            end += (rounds.end - 1) * step(round);
        }
        start as u64..end as u64
    }

    /// Whether the second halves of pairs are other time steps than the first ones.
    pub(super) fn is_apart(&self, nest: &Nest) -> bool {
        nest.motion == Motion::Swap && self.to != self.from
    }

    /// Whether some length moves something here.
    fn moves(&self, nest: &Nest) -> bool {
        // Step `t` reads `length − 1 − t`, so the two add up to less than the axis.
        let reverses = self.to.start + self.from.start < nest.time.size;
        match nest.motion {
            Motion::Check => true,
            Motion::Copy => {
                reverses || (self.to.start < self.from.end && self.from.start < self.to.end)
            }
            Motion::Swap => reverses && nest.written_steps(&self.to) > 0,
        }
    }

    /// Cuts this where it reduces the excess most. `None` if nothing is left to cut.
    fn cut(&self, nest: &Nest, excess: ExcessKind) -> Option<SmallVec<[Self; 3]>> {
        let reach = |range: &Range<usize>, step: usize| (range.len() - 1).saturating_mul(step);
        let mut best = None;
        let mut offer = |reach: usize, cut: Cut| {
            if reach > 0 && best.is_none_or(|(most, _)| reach > most) {
                best = Some((reach, cut));
            }
        };
        for (index, (rounds, round)) in self.rounds.iter().zip(&nest.loops).enumerate() {
            let step = match excess {
                ExcessKind::Input => round.input,
                ExcessKind::Lengths => round.lengths,
                ExcessKind::Output => round.output,
                ExcessKind::Items => 1,
            };
            offer(reach(rounds, step), Cut::Rounds(index));
        }
        match excess {
            ExcessKind::Input => offer(reach(&self.from, nest.time.input), Cut::From),
            ExcessKind::Output => offer(reach(&self.to, nest.time.output), Cut::To),
            ExcessKind::Items => offer(reach(&self.to, 1), Cut::To),
            ExcessKind::Lengths => {}
        }
        if excess != ExcessKind::Lengths && self.row.len() > ROW_STEP {
            let step = if excess == ExcessKind::Items {
                1
            } else {
                ROW_STEP
            };
            offer((self.row.len() - 1) / ROW_STEP * step, Cut::Row);
        }
        let (_, cut) = best?;
        Some(self.cut_at(nest, cut))
    }

    fn cut_at(&self, nest: &Nest, cut: Cut) -> SmallVec<[Self; 3]> {
        let halves = |range: &Range<usize>, step: usize| {
            let middle = range.start + (range.len() / 2).next_multiple_of(step);
            [range.start..middle, middle..range.end]
        };
        let with = |change: &dyn Fn(&mut Self)| {
            let mut slab = self.clone();
            change(&mut slab);
            slab
        };
        match cut {
            Cut::Rounds(index) => halves(&self.rounds[index], 1)
                .map(|half| with(&|slab| slab.rounds[index] = half.clone()))
                .into_iter()
                .collect(),
            Cut::Row => halves(&self.row, ROW_STEP)
                .map(|half| with(&|slab| slab.row = half.clone()))
                .into_iter()
                .collect(),
            // Pairs inside either half, and pairs across.
            Cut::To | Cut::From if nest.motion == Motion::Swap && self.to == self.from => {
                let [first, second] = halves(&self.to, 1);
                [(&first, &first), (&first, &second), (&second, &second)]
                    .map(|(to, from)| {
                        with(&|slab| {
                            slab.to = to.clone();
                            slab.from = from.clone();
                        })
                    })
                    .into_iter()
                    .collect()
            }
            Cut::To => halves(&self.to, 1)
                .map(|half| with(&|slab| slab.to = half.clone()))
                .into_iter()
                .collect(),
            Cut::From => halves(&self.from, 1)
                .map(|half| with(&|slab| slab.from = half.clone()))
                .into_iter()
                .collect(),
        }
    }
}

/// Cuts a nest into slabs until `dispatch` succeeds for each, and returns the dispatches.
///
/// Exactly one slab writes each element.
pub(super) fn dispatches<T>(
    nest: &Nest,
    dispatch: impl Fn(&Slab) -> Result<T, Excess>,
) -> Result<Vec<T>, Error> {
    let mut done = Vec::new();
    let mut left = vec![Slab::whole(nest)];
    while let Some(slab) = left.pop() {
        if !slab.moves(nest) {
            continue;
        }
        match dispatch(&slab) {
            Ok(dispatch) => done.push(dispatch),
            Err(excess) => match slab.cut(nest, excess.kind) {
                Some(parts) => left.extend(parts.into_iter().rev()),
                None => return Err(uncuttable(excess)),
            },
        }
        if done.len() + left.len() > MAXIMUM_SLABS {
            return Err(Error::UnsupportedSize {
                what: "dispatches that the device's limits ask for",
                actual: (done.len() + left.len()) as u64,
                maximum: MAXIMUM_SLABS as u64,
            });
        }
    }
    Ok(done)
}

/// The error of an excess that even the smallest slab has.
fn uncuttable(excess: Excess) -> Error {
    Error::UnsupportedSize {
        what: match excess.kind {
            ExcessKind::Input => "bytes to bind for one element of the input",
            ExcessKind::Lengths => "bytes to bind for one length",
            ExcessKind::Output => "bytes to bind for one element of the output",
            ExcessKind::Items => "invocations for one element",
        },
        actual: excess.actual,
        maximum: excess.maximum,
    }
}
