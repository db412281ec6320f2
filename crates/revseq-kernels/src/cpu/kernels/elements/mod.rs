//! Contiguous sequences of elements of 1, 2, 4, 8 or 16 bytes: reversed in registers.

pub(crate) mod short_lines;

use std::ops::Range;

use self::short_lines::{CopyLines, ReverseLines};
use crate::cpu::loop_nest::job::{Job, longest};
use crate::cpu::loop_nest::{Position, Rounds, Run};
use crate::cpu::memory::copy_queue::CopyQueue;
use crate::cpu::memory::direction::{Backward, Direction, Forward};
use crate::cpu::memory::store_policy::StorePolicy;
use crate::cpu::memory::swap_queue::SwapQueue;
use crate::cpu::simd::sub_vector;
use crate::cpu::simd::{LANE, Vector};

/// How many lengths are read at once.
const MAX_LENGTHS: usize = 128;

/// Moves some items of a plan whose elements are packed along time on both sides.
///
/// # Safety
/// The nest has all time steps of the plan, and `items` are items of it; the
/// store policy writes to the job's output; `W` is the plan's `row_bytes`.
#[inline(always)]
pub(crate) unsafe fn copy_items<V: Vector, S: StorePolicy, const W: usize>(
    job: &Job<'_>,
    stores: &mut S,
    items: Range<usize>,
) {
    let bytes = job.plan.time.size * W;
    let aligned = stores.is_aligned(bytes | job.strides());
    let most = match aligned {
        true => S::MAX_BLENDED,
        false => S::MAX_BLENDED.min(S::MAX_RESERVE),
    };
    // SAFETY: the caller's.
    unsafe {
        match bytes {
            ..LANE => copy_sub_vector::<S, W>(job, stores, items),
            _ if bytes <= most => copy_short::<V, S, W>(job, stores, items, aligned),
            _ => copy_long::<V, S, W>(job, stores, items),
        }
    }
}

/// As [`copy_items`], of lines that are read both ways, straight to their places
/// if those are `aligned` that the store policy takes.
///
/// # Safety
/// As there; a line is a lane at least.
#[inline(always)]
unsafe fn copy_short<V: Vector, S: StorePolicy, const W: usize>(
    job: &Job<'_>,
    stores: &mut S,
    items: Range<usize>,
    aligned: bool,
) {
    let all = job.plan.time.size;
    let bytes = all * W;
    let mut lengths = [0; MAX_LENGTHS];
    let mut rounds = Rounds::default();
    let mut lines = job.nest.lines(items, &mut rounds);
    while let Some(Run {
        mut at,
        step,
        lines: count,
        steps,
    }) = lines.next_run(MAX_LENGTHS)
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
                    stores.seek(part.to);
                    match part.reversed {
                        true => stores.copy::<Backward<W>>(part.from, part.bytes, None),
                        false => stores.copy::<Forward>(part.from, part.bytes, None),
                    }
                }
                at.advance(&step, 1);
            }
            if !rest.is_empty() {
                let lines = CopyLines::<_, W> {
                    stores: &mut *stores,
                    input: job.input.add(at.input),
                    output: at.output,
                    step: (step.input, step.output),
                    lengths: rest,
                    bytes,
                };
                short_lines::copy::<V, S, W>(lines, aligned);
            }
        }
    }
}

/// As [`copy_items`], of lines of less than a lane.
///
/// # Safety
/// As there.
#[inline(always)]
unsafe fn copy_sub_vector<S: StorePolicy, const W: usize>(
    job: &Job<'_>,
    stores: &mut S,
    items: Range<usize>,
) {
    let all = job.plan.time.size;
    let mut lengths = [0; MAX_LENGTHS];
    let mut rounds = Rounds::default();
    let mut lines = job.nest.lines(items, &mut rounds);
    while let Some(mut run) = lines.next_run(MAX_LENGTHS) {
        let lengths = &mut lengths[..run.lines];
        job.lengths.read(run.at.lengths, run.step.lengths, lengths);
        let Range { start, end } = run.steps;
        for &length in &*lengths {
            // SAFETY: see `Job`: a line has as many packed elements as time has steps.
            unsafe {
                let line = sub_vector::load(job.input.add(run.at.input), all * W);
                let steps = sub_vector::prefix_reversed::<W>(line, length) >> (8 * start * W);
                stores.seek(run.at.output + start * W);
                let bytes = (end - start) * W;
                sub_vector::store(steps, stores.reserve(bytes), bytes);
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
unsafe fn copy_long<V: Vector, S: StorePolicy, const W: usize>(
    job: &Job<'_>,
    stores: &mut S,
    items: Range<usize>,
) {
    let mut queue = CopyQueue::<Backward<W>, true>::new::<S>(job.plan.time.size * W);
    let mut rounds = Rounds::default();
    for (at, steps) in job.nest.lines(items, &mut rounds) {
        let length = job.lengths.get(at.lengths);
        for part in parts::<W>(job, at, length, &steps) {
            // SAFETY: see `Job`.
            unsafe { queue.copy::<V, S>(stores, part.reversed, part.from, part.to, part.bytes) };
        }
    }
    // SAFETY: as above.
    unsafe { queue.finish::<V, S>(stores) };
}

/// A part of a line that is reversed as a whole, or not.
struct Part {
    /// Whether it is reversed.
    reversed: bool,
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
    let part = |reversed, from: usize, steps: Range<usize>| Part {
        reversed,
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
    let mut swaps = SwapQueue::<Backward<W>>::new(bytes, far_away);
    let mut lengths = [0; MAX_LENGTHS];
    let mut rounds = Rounds::default();
    let mut lines = job.nest.lines(items, &mut rounds);
    while let Some(run) = lines.next_run(MAX_LENGTHS) {
        let lengths = &mut lengths[..run.lines];
        job.lengths.read(run.at.lengths, run.step.lengths, lengths);
        let mut line = job.output.wrapping_add(run.at.output);
        let step = run.step.output;
        if run.steps.len() == all && step == bytes {
            let (first, rest) = lengths.split_at(1);
            let second = line.wrapping_add(step);
            let longest = longest(rest);
            let rest = ReverseLines::<W>::new(second, bytes, rest, longest, far_away);
            if rest.are_short::<V>() {
                // SAFETY: see `Job`: before each of the rest lies another line of these.
                unsafe {
                    Backward::<W>::reverse_in_place::<V>(line, first[0] * W);
                    rest.reverse::<V>();
                }
                continue;
            }
        }
        if run.steps.len() == all && bytes < LANE {
            for &length in &*lengths {
                // SAFETY: see `Job`.
                unsafe {
                    let value = sub_vector::load(line, bytes);
                    sub_vector::store(sub_vector::prefix_reversed::<W>(value, length), line, bytes);
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
                    swaps.reverse_in_place::<V>(line, length * W);
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
