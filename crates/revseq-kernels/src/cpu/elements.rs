//! Contiguous sequences of elements of 1, 2, 4, 8 or 16 bytes: reversed in registers.

use std::ops::Range;

use super::ahead::DISTANCE;
use super::job::Job;
use super::nest::Rounds;
use super::sink::{BLOCK, LINE, Sink};
use super::vector::{LANE, V128, Vector, prefetch};
use super::walk::{Element, Width};

/// The longest line that is reversed in place as a whole, in bytes.
const TOGETHER: usize = 4 << 10;

/// The longest line after which the next is asked for as a whole, in bytes: a
/// small part of the second level of the cache.
const SHORT: usize = 64 << 10;

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
    let whole = (V::BYTES..=BLOCK).contains(&(all * W));
    let short = all * W <= SHORT;
    let distance = DISTANCE.max(all * W);
    let mut rounds = Rounds::default();
    // SAFETY: see `Job`: a line has as many packed elements as time has steps.
    unsafe {
        for (at, steps) in job.nest.lines(items, &mut rounds) {
            let line = job.input.add(at.input);
            let length = job.lengths.get(at.lengths).min(all);
            if whole && steps.len() == all {
                sink.seek(at.output);
                let to = sink.space(all * W);
                mirror::<V, S, W>(line, length, 0..all, to, line.wrapping_add(distance));
                continue;
            }
            let mut start = steps.start;
            while start < steps.end {
                let end = steps.end.min(start + BLOCK / W);
                let ahead = match short {
                    true => line.wrapping_add(start * W + distance),
                    false => line.wrapping_add(read_first(length, start, end, DISTANCE / W) * W),
                };
                sink.seek(at.output + start * W);
                copy::<V, S, W>(line, length, start..end, sink, ahead);
                start = end;
            }
        }
    }
}

/// The first step in memory of those that are read `distance` steps after some.
#[inline(always)]
fn read_first(length: usize, start: usize, end: usize, distance: usize) -> usize {
    match end + distance <= length {
        true => length - end - distance,
        false => start + distance,
    }
}

/// Copies some steps of a line, at most a block of bytes, and asks for what
/// lies at `ahead`.
///
/// # Safety
/// The line is readable up to the end of the steps and to its length, and the
/// sink's output has room for them.
#[inline(always)]
unsafe fn copy<V: Vector, S: Sink, const W: usize>(
    line: *const u8,
    length: usize,
    Range { start, end }: Range<usize>,
    sink: &mut S,
    ahead: *const u8,
) {
    let bytes = (end - start) * W;
    // SAFETY: the caller's.
    unsafe {
        if start >= length {
            sink.copy(line.add(start * W), bytes, ahead);
            return;
        }
        let to = sink.space(bytes);
        if bytes >= V::BYTES {
            mirror::<V, S, W>(line, length, start..end, to, ahead);
        } else if bytes >= LANE {
            mirror::<V128, S, W>(line, length, start..end, to, ahead);
        } else {
            for step in start..end {
                let from = if step < length {
                    length - 1 - step
                } else {
                    step
                };
                Element::<W>.copy(line.add(from * W), to.add((step - start) * W));
            }
        }
    }
}

/// Copies some steps of a line, at least a vector of them.
///
/// Lengths are anything, so a branch on where one ends is often mispredicted,
/// and a line may be done sooner than that is noticed. So each vector chooses
/// without a branch whether it is read reversed, and the one that is neither is
/// put right afterwards.
///
/// # Safety
/// The line is readable up to the end of the steps and to its length, which is
/// at least their start; `to` is writable for the steps.
#[inline(always)]
unsafe fn mirror<V: Vector, S: Sink, const W: usize>(
    line: *const u8,
    length: usize,
    Range { start, end }: Range<usize>,
    to: *mut u8,
    ahead: *const u8,
) {
    let width = V::BYTES / W;
    let count = end - start;
    // SAFETY: `start + width <= end`, and every step read is less than the end or the length.
    unsafe {
        let whole_reversed = (length.min(end) - start) / width;
        let mut backward = line
            .wrapping_add(length * W)
            .wrapping_sub((start + width) * W);
        let mut forward = line.add(start * W);
        for vector in 0..count / width {
            let reversed = vector < whole_reversed;
            V::load(if reversed { backward } else { forward })
                .reversed_if::<W>(reversed)
                .store(to.add(vector * V::BYTES));
            let at = vector * V::BYTES;
            S::ask(ahead.wrapping_add(at), to.add(at));
            backward = backward.wrapping_sub(V::BYTES);
            forward = forward.wrapping_add(V::BYTES);
        }
        if !count.is_multiple_of(width) {
            // The last vector lies over the one before.
            let step = end - width;
            let reversed = end <= length;
            let from = if reversed { length - end } else { step };
            V::load(line.add(from * W))
                .reversed_if::<W>(reversed)
                .store(to.add((count - width) * W));
        }
        if length <= end {
            // The last of the reversed steps are the first of the line.
            let steps = width.min(length - start);
            let to = to.add((length - start - steps) * W);
            V::copy_reversed::<W>(line, to, steps * W);
        }
    }
}

/// Exchanges some pairs of a plan whose elements are packed along time.
///
/// # Safety
/// The job is in place, the time steps of its nest are the first ones of pairs,
/// and `items` are items of it; `W` is the plan's `row_bytes`.
#[inline(always)]
pub(super) unsafe fn swap_items<V: Vector, const W: usize>(job: &Job<'_>, items: Range<usize>) {
    let all = job.nest.line.size;
    let mut rounds = Rounds::default();
    // SAFETY: see `Job`. The first steps of pairs and their mirror images are
    // two runs of packed elements that do not overlap.
    unsafe {
        for (at, steps) in job.nest.lines(items, &mut rounds) {
            let length = job.lengths.get(at.lengths);
            let line = job.output.add(at.output);
            if steps.len() == all && length * W <= TOGETHER {
                // Short lines lie one after the other, so that what is read next is known.
                for byte in (0..length * W).step_by(LINE) {
                    prefetch(line.wrapping_add(DISTANCE + byte));
                }
                reverse::<V, W>(line, length);
                continue;
            }
            let pairs = steps.start..steps.end.min(length / 2);
            if !pairs.is_empty() {
                let other = line.add((length - pairs.end) * W);
                swap_reversed::<V, W>(line.add(pairs.start * W), other, pairs.len());
            }
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
