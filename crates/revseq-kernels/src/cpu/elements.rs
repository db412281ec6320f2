//! Contiguous sequences of elements of 1, 2, 4, 8 or 16 bytes: reversed in registers.

use std::ops::Range;

use super::ahead::{DISTANCE, FAR, NEAR};
use super::direction::{Backward, Forward};
use super::few;
use super::job::{Job, longest};
use super::nest::{Position, Rounds, Run};
use super::pieces::Pieces;
use super::short_lines::{self, Lines, LinesInPlace};
use super::sink::{LINE, Sink};
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
    let bytes = job.plan.time.size * W;
    let places = job.plan.loops.iter();
    let lanes = sink.takes_lanes(places.fold(bytes, |all, lines| all | lines.output));
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
                let line = few::load(job.input.add(run.at.input), all * W);
                let steps = few::turned::<W>(line, length) >> (8 * start * W);
                sink.seek(run.at.output + start * W);
                let bytes = (end - start) * W;
                few::store(steps, sink.space(bytes), bytes);
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
pub(super) unsafe fn swap_items<V: Vector, const W: usize>(
    job: &Job<'_>,
    items: Range<usize>,
    far_away: bool,
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
            let second = line.wrapping_add(step);
            let longest = longest(rest);
            let rest = LinesInPlace::<W>::new(second, bytes, rest, longest, far_away);
            if rest.are_short::<V>() {
                // SAFETY: see `Job`: before each of the rest lies another line of these.
                unsafe {
                    reverse::<V, W>(line, first[0]);
                    rest.reverse::<V>();
                }
                continue;
            }
        }
        if run.steps.len() == all && bytes < LANE {
            for &length in &*lengths {
                // SAFETY: see `Job`.
                unsafe {
                    let few = few::load(line, bytes);
                    few::store(few::turned::<W>(few, length), line, bytes);
                }
                line = line.wrapping_add(step);
            }
            continue;
        }
        for (index, &length) in lengths.iter().enumerate() {
            // SAFETY: see `Job`. The first steps of pairs and their mirror images
            // are two runs of packed elements that do not overlap.
            unsafe {
                if run.steps.len() == all && length * W <= WHOLE {
                    if far_away && step >= FORESEEN_LINE {
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
