//! Rows of a few cache lines: every instruction of their loops counts.

use std::ops::Range;

use super::ahead::{FAR, NEAR, Soon};
use super::direction::Forward;
use super::job::{Job, source};
use super::nest::{Lines, Position, Rounds};
use super::sink::Sink;
use super::vector::{Task, Vector};
use super::walk::{Bytes, Width};
use crate::plan::Loop;

/// Up to this many bytes a row is short.
const SHORT: usize = 512;

/// The most bytes of a line of which what is near is a whole number of lines ahead.
const SHORT_LINE: usize = 16 << 10;

/// How many bytes of time steps are exchanged at once.
const CHUNK: usize = 16 << 10;

/// How many lengths are read at once.
const MANY: usize = 64;

/// Whether the rows of a plan are short; `asks` if what is read soon is asked for.
pub(super) fn are_short(job: &Job<'_>, asks: bool) -> bool {
    let bytes = job.plan.row_bytes;
    let near = job.nest.along_time || bytes * job.nest.line.size <= SHORT_LINE;
    bytes <= SHORT && (near || !asks)
}

/// Moves the rows of some items from their place in the input to their place in the output.
///
/// # Safety
/// As for [`rows`](super::rows::copy_items); `BYTES` are those of a row, or 0.
#[inline(always)]
pub(super) unsafe fn copy_items<V: Vector, S: Sink, const BYTES: usize>(
    job: &Job<'_>,
    sink: &mut S,
    items: Range<usize>,
) {
    let (time, line, along_time) = (job.plan.time, job.nest.line, job.nest.along_time);
    let mut lengths = [0; MANY];
    let mut rounds = Rounds::default();
    let mut lines = job.nest.lines(items, &mut rounds);
    let most = lines_together(job, &lines);
    while let Some(run) = lines.next_run(most) {
        // SAFETY: see `Job`.
        unsafe {
            let mut short = Short::<S, BYTES> {
                sink: &mut *sink,
                input: job.input.wrapping_add(run.at.input),
                output: run.at.output,
                bytes: job.plan.row_bytes,
                time,
            };
            if along_time {
                let lengths = &mut lengths[..run.lines];
                job.lengths.read(run.at.lengths, run.step.lengths, lengths);
                V::apart(Along {
                    short,
                    lengths,
                    step: run.step,
                    steps: run.steps,
                });
                continue;
            }
            for first in run.steps.clone().step_by(MANY) {
                let lengths = &mut lengths[..MANY.min(run.steps.end - first)];
                let place = run.at.lengths + first * line.lengths;
                job.lengths.read(place, line.lengths, lengths);
                short.input = job.input.wrapping_add(run.at.input + first * line.input);
                short.output = run.at.output + first * line.output;
                V::apart(Across {
                    short: Short {
                        sink: &mut *short.sink,
                        ..short
                    },
                    lengths,
                    line,
                    steps: run.at.time..run.at.time + run.lines,
                });
            }
        }
    }
}

/// How many lines are taken at once: lines along time with a length each, or
/// time steps of columns that are few enough for their lengths to be read once.
#[inline(always)]
fn lines_together(job: &Job<'_>, lines: &Lines<'_>) -> usize {
    let few = lines.are_time_steps() && job.nest.line.size <= MANY;
    if job.nest.along_time || few { MANY } else { 1 }
}

/// Short rows.
struct Short<'a, S, const BYTES: usize> {
    sink: &'a mut S,
    /// Where the first column starts in the input: its row of the first time step.
    input: *const u8,
    /// Its offset in the output.
    output: usize,
    bytes: usize,
    time: Loop,
}

/// Short rows on lines along time, each with its length.
struct Along<'a, S, const BYTES: usize> {
    short: Short<'a, S, BYTES>,
    lengths: &'a [usize],
    /// How far a line is from the one before.
    step: Position,
    steps: Range<usize>,
}

impl<S: Sink, const BYTES: usize> Task for Along<'_, S, BYTES> {
    #[inline(always)]
    unsafe fn run<V: Vector>(self) {
        let Short {
            sink,
            mut input,
            mut output,
            bytes,
            time,
        } = self.short;
        let bytes = if BYTES == 0 { bytes } else { BYTES };
        let Range { start, end } = self.steps;
        for &length in self.lengths {
            let middle = length.clamp(start, end);
            let mut to = output + start * time.output;
            // SAFETY: the caller's; a time step is less than the axis' size.
            unsafe {
                let mut from =
                    input.wrapping_add(length.wrapping_sub(1 + start).wrapping_mul(time.input));
                for _ in start..middle {
                    sink.seek(to);
                    sink.copy::<Forward>(from, bytes, Some(Soon::before(from)));
                    from = from.wrapping_sub(time.input);
                    to += time.output;
                }
                let mut from = input.add(middle * time.input);
                for _ in middle..end {
                    sink.seek(to);
                    sink.copy::<Forward>(from, bytes, Some(Soon::beyond(from)));
                    from = from.wrapping_add(time.input);
                    to += time.output;
                }
            }
            input = input.wrapping_add(self.step.input);
            output += self.step.output;
        }
    }
}

/// Short rows on lines across time, with a length for each of a line.
struct Across<'a, S, const BYTES: usize> {
    short: Short<'a, S, BYTES>,
    lengths: &'a [usize],
    /// The columns.
    line: Loop,
    steps: Range<usize>,
}

impl<S: Sink, const BYTES: usize> Task for Across<'_, S, BYTES> {
    #[inline(always)]
    unsafe fn run<V: Vector>(self) {
        let Short {
            sink,
            input,
            output,
            bytes,
            time,
        } = self.short;
        let bytes = if BYTES == 0 { bytes } else { BYTES };
        let ahead = |distance: usize| distance / (self.line.size * bytes);
        let (near, far) = (ahead(NEAR).max(1), ahead(FAR).max(1));
        for t in self.steps {
            let mut column = input;
            let mut to = output + t * time.output;
            for &length in self.lengths {
                // SAFETY: the caller's; a time step is less than the axis' size.
                unsafe {
                    let row = |t: usize| column.wrapping_add(source(length, t) * time.input);
                    sink.seek(to);
                    if S::ASKS {
                        let soon = Soon {
                            near: row((t + near).min(time.size - 1)),
                            far: row((t + far).min(time.size - 1)),
                        };
                        sink.copy::<Forward>(row(t), bytes, Some(soon));
                    } else {
                        sink.copy::<Forward>(row(t), bytes, None);
                    }
                }
                column = column.wrapping_add(self.line.input);
                to += self.line.output;
            }
        }
    }
}

/// Exchanges the rows of some pairs.
///
/// # Safety
/// As for [`rows`](super::rows::swap_items); `BYTES` are those of a row, or 0.
#[inline(always)]
pub(super) unsafe fn swap_items<V: Vector, const BYTES: usize>(job: &Job<'_>, items: Range<usize>) {
    let line = job.nest.line;
    let mut lengths = [0; MANY];
    let mut rounds = Rounds::default();
    let mut lines = job.nest.lines(items, &mut rounds);
    let most = lines_together(job, &lines);
    while let Some(run) = lines.next_run(most) {
        let mut short = ShortPairs::<BYTES> {
            data: job.output.wrapping_add(run.at.output),
            pitch: job.plan.time.output,
            bytes: job.plan.row_bytes,
        };
        // SAFETY: see `Job`.
        unsafe {
            if job.nest.along_time {
                let lengths = &mut lengths[..run.lines];
                job.lengths.read(run.at.lengths, run.step.lengths, lengths);
                V::apart(SwapAlong {
                    short,
                    lengths,
                    step: run.step.output,
                    steps: run.steps,
                });
                continue;
            }
            for first in run.steps.clone().step_by(MANY) {
                let lengths = &mut lengths[..MANY.min(run.steps.end - first)];
                let place = run.at.lengths + first * line.lengths;
                job.lengths.read(place, line.lengths, lengths);
                short.data = job.output.wrapping_add(run.at.output + first * line.output);
                V::apart(SwapAcross {
                    short,
                    lengths,
                    step: line.output,
                    steps: run.at.time..run.at.time + run.lines,
                });
            }
        }
    }
}

/// Pairs of short rows.
#[derive(Clone, Copy)]
struct ShortPairs<const BYTES: usize> {
    /// Where the first column starts.
    data: *mut u8,
    /// How far a time step is from the one before.
    pitch: usize,
    bytes: usize,
}

/// Pairs of short rows on lines along time, each with its length.
struct SwapAlong<'a, const BYTES: usize> {
    short: ShortPairs<BYTES>,
    /// How far a line is from the one before.
    step: usize,
    lengths: &'a [usize],
    steps: Range<usize>,
}

impl<const BYTES: usize> Task for SwapAlong<'_, BYTES> {
    #[inline(always)]
    unsafe fn run<V: Vector>(self) {
        let mut column = self.short;
        for &length in self.lengths {
            let pairs = self.steps.start..self.steps.end.min(length / 2);
            // SAFETY: the caller's.
            unsafe { column.swap::<V>(length, pairs) };
            column.data = column.data.wrapping_add(self.step);
        }
    }
}

/// Pairs of short rows on lines across time, with a length for each column.
struct SwapAcross<'a, const BYTES: usize> {
    short: ShortPairs<BYTES>,
    /// How far a column is from the one before.
    step: usize,
    lengths: &'a [usize],
    steps: Range<usize>,
}

impl<const BYTES: usize> Task for SwapAcross<'_, BYTES> {
    #[inline(always)]
    unsafe fn run<V: Vector>(self) {
        // Some steps of a column at a time, as whether a step is one of a pair
        // changes with every column.
        let together = (CHUNK / (self.lengths.len() * self.short.bytes)).max(1);
        for start in self.steps.clone().step_by(together) {
            let end = self.steps.end.min(start + together);
            let mut column = self.short;
            for &length in self.lengths {
                let pairs = start..end.min(length / 2);
                // SAFETY: the caller's.
                unsafe { column.swap::<V>(length, pairs) };
                column.data = column.data.wrapping_add(self.step);
            }
        }
    }
}

impl<const BYTES: usize> ShortPairs<BYTES> {
    /// Exchanges some rows of the first column with their mirror images.
    ///
    /// # Safety
    /// The column has as many rows as its length, and the steps are less than
    /// half of it.
    #[inline(always)]
    unsafe fn swap<V: Vector>(self, length: usize, steps: Range<usize>) {
        if steps.is_empty() {
            return;
        }
        let bytes = if BYTES == 0 { self.bytes } else { BYTES };
        let mut one = self.data.wrapping_add(steps.start * self.pitch);
        let last = length - 1 - steps.start;
        let mut other = self.data.wrapping_add(last * self.pitch);
        for _ in steps {
            // SAFETY: the caller's; the two rows differ.
            unsafe {
                let mut at = 0;
                while at + V::BYTES <= bytes {
                    let (first, second) = (V::load(one.add(at)), V::load(other.add(at)));
                    second.store(one.add(at));
                    first.store(other.add(at));
                    at += V::BYTES;
                }
                if at < bytes {
                    Bytes(bytes - at).swap(one.add(at), other.add(at));
                }
            }
            one = one.wrapping_add(self.pitch);
            other = other.wrapping_sub(self.pitch);
        }
    }
}
