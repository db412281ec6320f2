//! Contiguous sequences of elements of 1, 2, 4, 8 or 16 bytes: reversed in registers.

use std::ops::Range;

use super::ahead::{DISTANCE, FAR, NEAR};
use super::direction::Backward;
use super::job::Job;
use super::nest::{Rounds, Run};
use super::pieces::Pieces;
use super::short_lines::{self, Lines, LinesInPlace};
use super::sink::{BLOCK, LINE, Sink};
use super::vector::{LANE, Vector, prefetch, prefetch_far};
use super::walk::{Element, Width};

/// The longest line that is reversed in place as a whole, in bytes.
const WHOLE: usize = 4 << 10;

/// From how many bytes a line on it is asked for as far as its length reaches,
/// if memory is far away.
///
/// In place, 64 MiB, Zen 4: lines of 1 KiB 1.4 times a copy by the length of an
/// earlier line, 1.1 so; of 256 bytes 1.1 and 1.2.
const FORESEEN_LINE: usize = 1 << 10;

/// How many lengths are read at once.
const MANY: usize = 128;

/// Moves some items of a plan whose elements are packed along time on both sides.
///
/// # Safety
/// The nest has all time steps of the plan, and `items` are items of it; the
/// sink writes to the job's output; `W` is the plan's `row_bytes`.
#[inline(always)]
pub(super) unsafe fn copy_items<V: Vector, S: Sink, const W: usize>(
    job: &Job<'_>,
    sink: &mut S,
    items: Range<usize>,
) {
    let all = job.plan.time.size;
    let bytes = all * W;
    let mut pieces = Pieces::new::<S>(bytes);
    let mut lengths = [0; MANY];
    let mut rounds = Rounds::default();
    let mut lines = job.nest.lines(items, &mut rounds);
    while let Some(mut run) = lines.next_run(MANY) {
        let lengths = &mut lengths[..run.lines];
        job.lengths.read(run.at.lengths, run.step.lengths, lengths);
        let before = run.at.input;
        let lanes = sink.takes_lanes(run.at.output | run.step.output | bytes);
        let most = match lanes {
            true => S::TWICE,
            false => S::TWICE.min(BLOCK),
        };
        let stepwise = match run.steps.len() == all && (LANE..=most).contains(&bytes) {
            true if before >= bytes => 0,
            true if before + run.step.input >= bytes => 1,
            _ => run.lines,
        };
        let (first, rest) = lengths.split_at(stepwise);
        // SAFETY: see `Job`: a line has as many packed elements as time has
        // steps, and before it lies what comes before its offset in the input.
        unsafe {
            if !first.is_empty() {
                let lines = lines_of(job, sink, &run, first);
                copy_steps::<V, S, W>(lines, run.steps.clone(), &mut pieces);
            }
            if !rest.is_empty() {
                pieces.finish::<V, S>(sink);
                run.at.advance(&run.step, stepwise);
                short_lines::copy::<V, S, W>(lines_of(job, sink, &run, rest), lanes);
            }
        }
    }
    // SAFETY: as above.
    unsafe { pieces.finish::<V, S>(sink) };
}

/// The first lines of a run, as many as have lengths.
#[inline(always)]
fn lines_of<'a, S, const W: usize>(
    job: &Job<'_>,
    sink: &'a mut S,
    run: &Run,
    lengths: &'a [usize],
) -> Lines<'a, S, W> {
    Lines {
        sink,
        input: job.input.wrapping_add(run.at.input),
        output: run.at.output,
        step: (run.step.input, run.step.output),
        lengths,
        bytes: job.plan.time.size * W,
    }
}

/// Copies some steps of each line.
///
/// # Safety
/// The lines are readable, and the output has room for them, until the
/// pieces are finished.
#[inline(always)]
unsafe fn copy_steps<V: Vector, S: Sink, const W: usize>(
    lines: Lines<'_, S, W>,
    steps: Range<usize>,
    pieces: &mut Pieces<Backward<W>, true>,
) {
    let (mut line, mut output) = (lines.input, lines.output);
    for &length in lines.lengths {
        let Range { start, end } = steps;
        let middle = length.clamp(start, end);
        let reversed = line.wrapping_add(length.wrapping_sub(middle).wrapping_mul(W));
        // SAFETY: the caller's.
        unsafe {
            let (to, bytes) = (output + start * W, (middle - start) * W);
            pieces.copy::<V, S>(lines.sink, true, reversed, to, bytes);
            let (to, bytes) = (output + middle * W, (end - middle) * W);
            pieces.copy::<V, S>(lines.sink, false, line.add(middle * W), to, bytes);
        }
        line = line.wrapping_add(lines.step.0);
        output += lines.step.1;
    }
}

/// Exchanges some pairs of a plan whose elements are packed along time, which
/// lie beyond the caches if they are `FAR_AWAY`.
///
/// # Safety
/// The job is in place, the time steps of its nest are the first ones of pairs,
/// and `items` are items of it; `W` is the plan's `row_bytes`.
#[inline(always)]
pub(super) unsafe fn swap_items<V: Vector, const W: usize, const FAR_AWAY: bool>(
    job: &Job<'_>,
    items: Range<usize>,
) {
    let all = job.nest.line.size;
    let bytes = job.plan.time.size * W;
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
            let rest = LinesInPlace::<W, FAR_AWAY>::new(line.wrapping_add(step), bytes, rest);
            if rest.are_short::<V>() {
                // SAFETY: see `Job`: before each of the rest lies another line of these.
                unsafe {
                    reverse::<V, W>(line, first[0]);
                    rest.reverse::<V>();
                }
                continue;
            }
        }
        for (index, &length) in lengths.iter().enumerate() {
            // SAFETY: see `Job`. The first steps of pairs and their mirror images
            // are two runs of packed elements that do not overlap.
            unsafe {
                if run.steps.len() == all && length * W <= WHOLE {
                    if FAR_AWAY && step >= FORESEEN_LINE {
                        // What is read of a later line is what its length says,
                        // or about as much as of the last that is known.
                        for (distance, ask) in [(NEAR, prefetch as fn(_)), (FAR, prefetch_far)] {
                            let lines = (distance / step).max(1);
                            let later = lengths[(index + lines).min(lengths.len() - 1)];
                            let place = line.wrapping_add(lines * step);
                            for byte in (0..later * W).step_by(LINE) {
                                ask(place.wrapping_add(byte));
                            }
                        }
                    } else {
                        // Short lines lie one after the other.
                        for byte in (0..length * W).step_by(LINE) {
                            prefetch(line.wrapping_add(DISTANCE + byte));
                        }
                    }
                    reverse::<V, W>(line, length);
                } else {
                    let pairs = run.steps.start..run.steps.end.min(length / 2);
                    if !pairs.is_empty() {
                        let other = line.add((length - pairs.end) * W);
                        swap_reversed::<V, W>(line.add(pairs.start * W), other, pairs.len());
                    }
                }
            }
            line = line.wrapping_add(step);
        }
    }
}

/// Reverses `count` packed elements.
///
/// # Safety
/// `run` is readable and writable for them.
#[inline(always)]
pub(super) unsafe fn reverse<V: Vector, const W: usize>(run: *mut u8, count: usize) {
    let (mut start, mut end) = (0, count * W);
    // SAFETY: every vector lies between start and end.
    unsafe {
        while end - start >= 2 * V::BYTES {
            end -= V::BYTES;
            swap_vectors::<V, W>(run.add(start), run.add(end));
            start += V::BYTES;
        }
        if end - start >= V::BYTES {
            // They overlap in the middle, where both write the same.
            swap_vectors::<V, W>(run.add(start), run.add(end - V::BYTES));
        } else {
            V::reverse_part::<W>(run.add(start), end - start);
        }
    }
}

/// Exchanges `count` packed elements with as many others, the first with the last.
///
/// # Safety
/// Both are readable and writable for `count` elements, and they do not overlap.
#[inline(always)]
unsafe fn swap_reversed<V: Vector, const W: usize>(one: *mut u8, other: *mut u8, count: usize) {
    let width = V::BYTES / W;
    let mut pair = 0;
    // SAFETY: the caller's; a vector on each side ends within `count` elements.
    unsafe {
        while pair + width <= count {
            let (one, other) = (one.add(pair * W), other.add((count - pair - width) * W));
            prefetch(one.wrapping_add(DISTANCE / 2));
            prefetch(other.wrapping_sub(DISTANCE / 2));
            swap_vectors::<V, W>(one, other);
            pair += width;
        }
        for pair in pair..count {
            Element::<W>.swap(one.add(pair * W), other.add((count - 1 - pair) * W));
        }
    }
}

/// Exchanges two vectors and reverses both; of two that overlap the second
/// overwrites the first.
///
/// # Safety
/// Both are readable and writable.
#[inline(always)]
unsafe fn swap_vectors<V: Vector, const W: usize>(one: *mut u8, other: *mut u8) {
    // SAFETY: the caller's.
    unsafe {
        let (first, last) = (V::load(one), V::load(other));
        last.reversed::<W>().store(one);
        first.reversed::<W>().store(other);
    }
}
