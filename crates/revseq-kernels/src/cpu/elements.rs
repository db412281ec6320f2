//! Contiguous sequences of elements of 1, 2, 4, 8 or 16 bytes: reversed in registers.

use std::mem::MaybeUninit;
use std::ops::Range;

use super::ahead::{Ahead, DISTANCE};
use super::job::Job;
use super::nest::Rounds;
use super::sink::{BLOCK, LINE, Sink};
use super::vector::{LANE, V128, Vector, WIDEST, copy_bytes, prefetch};
use super::walk::{Element, Width};

/// Some steps of a line, at most a block of bytes.
#[derive(Clone, Copy)]
struct Piece {
    /// Where the line starts in the input.
    line: *const u8,
    /// Where the piece starts in the output.
    to: usize,
    length: usize,
    start: usize,
    end: usize,
}

impl Piece {
    /// The lowest address that it reads, or nearly.
    #[inline(always)]
    fn low<const W: usize>(&self) -> *const u8 {
        let step = match self.end <= self.length {
            true => self.length - self.end,
            false => self.start,
        };
        self.line.wrapping_add(step * W)
    }
}

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
    // Short lines lie one after the other, so that what is read next is known.
    let short = all * W <= BLOCK;
    let whole = short && all * W >= V::BYTES;
    let mut queue = Ahead::of(BLOCK);
    let mut rounds = Rounds::default();
    // SAFETY: see `Job`: a line has as many packed elements as time has steps.
    unsafe {
        for (at, steps) in job.nest.lines(items, &mut rounds) {
            let line = job.input.add(at.input);
            let length = job.lengths.get(at.lengths).min(all);
            if whole && steps.len() == all {
                sink.seek(at.output);
                let to = sink.space(all * W);
                mirror::<V, S, W>(line, length, 0..all, to, line.wrapping_add(DISTANCE));
                continue;
            }
            let mut start = steps.start;
            while start < steps.end {
                let end = steps.end.min(start + BLOCK / W);
                let piece = Piece {
                    line,
                    to: at.output + start * W,
                    length,
                    start,
                    end,
                };
                if !S::BEYOND_CACHES || short {
                    copy::<V, S, W>(piece, sink, line.wrapping_add(start * W + DISTANCE));
                } else if let Some(oldest) = queue.push(piece) {
                    copy::<V, S, W>(oldest, sink, piece.low::<W>());
                }
                start = end;
            }
        }
        while let Some(piece) = queue.pop() {
            copy::<V, S, W>(piece, sink, piece.low::<W>());
        }
    }
}

/// Copies a piece and asks for one at `ahead`.
///
/// # Safety
/// The line is readable up to the piece's end and to its length, and the sink's
/// output has room for it.
#[inline(always)]
unsafe fn copy<V: Vector, S: Sink, const W: usize>(piece: Piece, sink: &mut S, ahead: *const u8) {
    let Piece {
        line,
        to,
        length,
        start,
        end,
    } = piece;
    let bytes = (end - start) * W;
    // SAFETY: the caller's.
    unsafe {
        sink.seek(to);
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
/// The line is readable up to the end of the steps and to its length; `to` is
/// writable for the steps.
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
            if S::BEYOND_CACHES {
                prefetch(ahead.wrapping_add(vector * V::BYTES));
            }
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
        if start + width <= length && length <= end {
            // The last of the reversed steps are the first of the line.
            V::load(line)
                .reversed::<W>()
                .store(to.add((length - width - start) * W));
        } else if length < end {
            // They are less than a vector.
            let bytes = (length - start) * W;
            let mut first = [MaybeUninit::<u8>::uninit(); WIDEST];
            let first = first.as_mut_ptr().cast::<u8>();
            V::load(line).reversed::<W>().store(first);
            copy_bytes(first.add(V::BYTES - bytes), to, bytes);
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
    let mut queue = Ahead::of(BLOCK);
    let mut rounds = Rounds::default();
    for (at, steps) in job.nest.lines(items, &mut rounds) {
        let length = job.lengths.get(at.lengths);
        let mut start = steps.start;
        let end = steps.end.min(length / 2);
        while start < end {
            let count = (end - start).min(BLOCK / 2 / W);
            // SAFETY: see `Job`. The first steps of pairs and their mirror
            // images are two runs of packed elements that do not overlap.
            unsafe {
                let line = job.output.add(at.output);
                let runs = Runs {
                    one: line.add(start * W),
                    other: line.add((length - start - count) * W),
                    count,
                };
                for byte in (0..count * W).step_by(LINE) {
                    prefetch(runs.one.wrapping_add(byte));
                    prefetch(runs.other.wrapping_add(byte));
                }
                if let Some(oldest) = queue.push(runs) {
                    swap_reversed::<V, W>(oldest.one, oldest.other, oldest.count);
                }
            }
            start += count;
        }
    }
    while let Some(runs) = queue.pop() {
        // SAFETY: as above.
        unsafe { swap_reversed::<V, W>(runs.one, runs.other, runs.count) };
    }
}

/// Two runs of elements that are exchanged, the first with the last.
#[derive(Clone, Copy)]
struct Runs {
    one: *mut u8,
    other: *mut u8,
    count: usize,
}

/// Exchanges `count` packed elements with as many others, the first with the last.
///
/// # Safety
/// Both are readable and writable for `count` elements, and they do not overlap.
#[inline(always)]
pub(super) unsafe fn swap_reversed<V: Vector, const W: usize>(
    one: *mut u8,
    other: *mut u8,
    count: usize,
) {
    /// Exchanges whole vectors from pair `done` on; returns the pairs done.
    ///
    /// # Safety
    /// As [`swap_reversed`].
    #[inline(always)]
    unsafe fn vectors<V: Vector, const W: usize>(
        one: *mut u8,
        other: *mut u8,
        count: usize,
        mut done: usize,
    ) -> usize {
        let width = V::BYTES / W;
        // SAFETY: the caller's; a vector on each side ends within `count` elements.
        unsafe {
            while done + width <= count {
                let (one, other) = (one.add(done * W), other.add((count - done - width) * W));
                let (first, last) = (V::load(one), V::load(other));
                last.reversed::<W>().store(one);
                first.reversed::<W>().store(other);
                done += width;
            }
        }
        done
    }
    // SAFETY: the caller's.
    unsafe {
        let done = vectors::<V, W>(one, other, count, 0);
        let done = vectors::<V128, W>(one, other, count, done);
        for pair in done..count {
            Element::<W>.swap(one.add(pair * W), other.add((count - 1 - pair) * W));
        }
    }
}
