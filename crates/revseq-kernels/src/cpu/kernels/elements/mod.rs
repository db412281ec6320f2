//! Contiguous sequences of elements of 1, 2, 4, 8 or 16 bytes: reversed in registers.

pub(crate) mod short_lines;

use std::ops::Range;

use self::short_lines::{Lines, LinesInPlace};
use crate::cpu::loop_nest::job::{Job, longest};
use crate::cpu::loop_nest::{Position, Rounds, Run};
use crate::cpu::memory::copy_queue::Pieces;
use crate::cpu::memory::direction::{Backward, Direction, Forward};
use crate::cpu::memory::store_policy::Sink;
use crate::cpu::memory::swap_queue::Swaps;
use crate::cpu::simd::sub_vector;
use crate::cpu::simd::{LANE, Vector};

/// How many lengths are read at once.
const MANY: usize = 128;

/// Moves some items of a plan whose elements are packed along time on both sides.
///
/// # Safety
/// The nest has all time steps of the plan, and `items` are items of it; the
/// sink writes to the job's output; `W` is the plan's `row_bytes`.
#[inline(always)]
pub(crate) unsafe fn copy_items<V: Vector, S: Sink, const W: usize>(
    job: &Job<'_>,
    sink: &mut S,
    items: Range<usize>,
) {
    let bytes = job.plan.time.size * W;
    let lanes = sink.takes_lanes(bytes | job.strides());
    let most = match lanes {
        true => S::TWICE,
        false => S::TWICE.min(S::SPACE),
    };
    // SAFETY: the caller's.
    unsafe {
        match bytes {
            ..LANE => copy_few::<S, W>(job, sink, items),
            _ if bytes <= most => copy_short::<V, S, W>(job, sink, items, lanes),
            _ => copy_long::<V, S, W>(job, sink, items),
        }
    }
}

/// As [`copy_items`], of lines that are read both ways, straight to their places
/// if those are `lanes` that the sink takes.
///
/// # Safety
/// As there; a line is a lane at least.
#[inline(always)]
unsafe fn copy_short<V: Vector, S: Sink, const W: usize>(
    job: &Job<'_>,
    sink: &mut S,
    items: Range<usize>,
    lanes: bool,
) {
    let all = job.plan.time.size;
    let bytes = all * W;
    let mut lengths = [0; MANY];
    let mut rounds = Rounds::default();
    let mut lines = job.nest.lines(items, &mut rounds);
    while let Some(Run {
        mut at,
        step,
        lines: count,
        steps,
    }) = lines.next_run(MANY)
    {
        let lengths = &mut lengths[..count];
        job.lengths.read(at.lengths, step.lengths, lengths);
        // What is read both ways has as many bytes before it.
        let alone = match steps.len() == all {
            true if at.input >= bytes => 0,
            true if at.input + step.input >= bytes => 1,
            _ => count,
        };
        let (first, rest) = lengths.split_at(alone);
        // SAFETY: see `Job`: a line has as many packed elements as time has
        // steps, and before it lies what comes before its offset in the input.
        unsafe {
            for &length in first {
                for part in parts::<W>(job, at, length, &steps) {
                    sink.seek(part.to);
                    match part.turned {
                        true => sink.copy::<Backward<W>>(part.from, part.bytes, None),
                        false => sink.copy::<Forward>(part.from, part.bytes, None),
                    }
                }
                at.advance(&step, 1);
            }
            if !rest.is_empty() {
                let lines = Lines::<_, W> {
                    sink: &mut *sink,
                    input: job.input.add(at.input),
                    output: at.output,
                    step: (step.input, step.output),
                    lengths: rest,
                    bytes,
                };
                short_lines::copy::<V, S, W>(lines, lanes);
            }
        }
    }
}

/// As [`copy_items`], of lines of less than a lane.
///
/// # Safety
/// As there.
#[inline(always)]
unsafe fn copy_few<S: Sink, const W: usize>(job: &Job<'_>, sink: &mut S, items: Range<usize>) {
    let all = job.plan.time.size;
    let mut lengths = [0; MANY];
    let mut rounds = Rounds::default();
    let mut lines = job.nest.lines(items, &mut rounds);
    while let Some(mut run) = lines.next_run(MANY) {
        let lengths = &mut lengths[..run.lines];
        job.lengths.read(run.at.lengths, run.step.lengths, lengths);
        let Range { start, end } = run.steps;
        for &length in &*lengths {
            // SAFETY: see `Job`: a line has as many packed elements as time has steps.
            unsafe {
                let line = sub_vector::load(job.input.add(run.at.input), all * W);
                let steps = sub_vector::turned::<W>(line, length) >> (8 * start * W);
                sink.seek(run.at.output + start * W);
                let bytes = (end - start) * W;
                sub_vector::store(steps, sink.space(bytes), bytes);
            }
            run.at.advance(&run.step, 1);
        }
    }
}

/// As [`copy_items`], of lines of any length.
///
/// # Safety
/// As there.
#[inline(always)]
unsafe fn copy_long<V: Vector, S: Sink, const W: usize>(
    job: &Job<'_>,
    sink: &mut S,
    items: Range<usize>,
) {
    let mut pieces = Pieces::<Backward<W>, true>::new::<S>(job.plan.time.size * W);
    let mut rounds = Rounds::default();
    for (at, steps) in job.nest.lines(items, &mut rounds) {
        let length = job.lengths.get(at.lengths);
        for part in parts::<W>(job, at, length, &steps) {
            // SAFETY: see `Job`.
            unsafe { pieces.copy::<V, S>(sink, part.turned, part.from, part.to, part.bytes) };
        }
    }
    // SAFETY: as above.
    unsafe { pieces.finish::<V, S>(sink) };
}

/// A part of a line that is reversed as a whole, or not.
struct Part {
    /// Whether it is reversed.
    turned: bool,
    from: *const u8,
    /// Its offset in the output.
    to: usize,
    bytes: usize,
}

/// What comes of the reversed prefix, and what comes after it, in some steps of a line.
#[inline(always)]
fn parts<const W: usize>(
    job: &Job<'_>,
    at: Position,
    length: usize,
    steps: &Range<usize>,
) -> [Part; 2] {
    let middle = length.clamp(steps.start, steps.end);
    let part = |turned, from: usize, steps: Range<usize>| Part {
        turned,
        from: job.input.wrapping_add(at.input + from * W),
        to: at.output + steps.start * W,
        bytes: steps.len() * W,
    };
    [
        // What ends before the steps has a prefix of no elements, of which none is read.
        part(true, length.saturating_sub(middle), steps.start..middle),
        part(false, middle, middle..steps.end),
    ]
}

/// Exchanges some pairs of a plan whose elements are packed along time, which
/// lie beyond the caches if they are `far_away`.
///
/// # Safety
/// The job is in place, the time steps of its nest are the first ones of pairs,
/// and `items` are items of it; `W` is the plan's `row_bytes`.
#[inline(always)]
pub(crate) unsafe fn swap_items<V: Vector, const W: usize>(
    job: &Job<'_>,
    items: Range<usize>,
    far_away: bool,
) {
    let all = job.nest.line.size;
    let bytes = job.plan.time.size * W;
    let mut swaps = Swaps::<Backward<W>>::new(bytes, far_away);
    let mut lengths = [0; MANY];
    let mut rounds = Rounds::default();
    let mut lines = job.nest.lines(items, &mut rounds);
    while let Some(run) = lines.next_run(MANY) {
        let lengths = &mut lengths[..run.lines];
        job.lengths.read(run.at.lengths, run.step.lengths, lengths);
        let mut line = job.output.wrapping_add(run.at.output);
        let step = run.step.output;
        if run.steps.len() == all && step == bytes {
            let (first, rest) = lengths.split_at(1);
            let second = line.wrapping_add(step);
            let longest = longest(rest);
            let rest = LinesInPlace::<W>::new(second, bytes, rest, longest, far_away);
            if rest.are_short::<V>() {
                // SAFETY: see `Job`: before each of the rest lies another line of these.
                unsafe {
                    Backward::<W>::turn::<V>(line, first[0] * W);
                    rest.reverse::<V>();
                }
                continue;
            }
        }
        if run.steps.len() == all && bytes < LANE {
            for &length in &*lengths {
                // SAFETY: see `Job`.
                unsafe {
                    let few = sub_vector::load(line, bytes);
                    sub_vector::store(sub_vector::turned::<W>(few, length), line, bytes);
                }
                line = line.wrapping_add(step);
            }
            continue;
        }
        for &length in &*lengths {
            // SAFETY: see `Job`. The first steps of pairs and their mirror images
            // are two runs of packed elements that do not overlap.
            unsafe {
                if run.steps.len() == all {
                    swaps.turn::<V>(line, length * W);
                } else {
                    let pairs = run.steps.start..run.steps.end.min(length / 2);
                    if !pairs.is_empty() {
                        let other = line.add((length - pairs.end) * W);
                        swaps.exchange::<V>(line.add(pairs.start * W), other, pairs.len() * W);
                    }
                }
            }
            line = line.wrapping_add(step);
        }
    }
    // SAFETY: as above.
    unsafe { swaps.finish::<V>() };
}
