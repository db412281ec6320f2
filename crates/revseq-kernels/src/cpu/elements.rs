//! Contiguous sequences of elements of 1, 2, 4, 8 or 16 bytes: reversed in registers.

use std::mem::MaybeUninit;
use std::ops::Range;

use super::ahead::Ahead;
use super::nest::Nest;
use super::sink::{BLOCK, Sink};
use super::vector::{LANE, V128, Vector, WIDEST, copy_bytes, prefetch};
use super::walk::{Element, Width};
use crate::{Plan, SequenceLengths};

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
/// `input` is readable for the plan's `input_bytes`, the sink writes to an
/// output of the plan's `output_bytes`, and they do not overlap. `items` are
/// items of the nest, which is the plan's with all its time steps.
#[inline(always)]
pub(super) unsafe fn copy_items<V: Vector, S: Sink, const W: usize>(
    plan: &Plan,
    nest: &Nest,
    lengths: &SequenceLengths<'_>,
    input: *const u8,
    sink: &mut S,
    items: Range<usize>,
) {
    let mut queue = Ahead::of((plan.time.size * W).min(BLOCK));
    // SAFETY: see `nest::Row`: a line has as many packed elements as time has steps.
    unsafe {
        for (at, steps) in nest.lines(items) {
            let length = lengths.get(at.lengths).min(plan.time.size);
            let mut start = steps.start;
            while start < steps.end {
                let end = steps.end.min(start + BLOCK / W);
                let piece = Piece {
                    line: input.add(at.input),
                    to: at.output + start * W,
                    length,
                    start,
                    end,
                };
                if !S::BEYOND_CACHES {
                    copy::<V, S, W>(piece, sink, piece.low::<W>());
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
    let count = piece.end - piece.start;
    // SAFETY: the caller's.
    unsafe {
        sink.seek(piece.to);
        if piece.start >= piece.length {
            sink.copy(piece.line.add(piece.start * W), count * W, ahead);
            return;
        }
        let to = sink.space(count * W);
        if count * W >= V::BYTES {
            mirror::<V, S, W>(piece, to, ahead);
        } else if count * W >= LANE {
            mirror::<V128, S, W>(piece, to, ahead);
        } else {
            for step in piece.start..piece.end {
                let from = match step < piece.length {
                    true => piece.length - 1 - step,
                    false => step,
                };
                Element::<W>.copy(piece.line.add(from * W), to.add((step - piece.start) * W));
            }
        }
    }
}

/// Copies a piece of at least a vector.
///
/// Lengths are anything, so a branch on where one ends is often mispredicted,
/// and a line may be done sooner than that is noticed. So each vector chooses
/// without a branch whether it is read reversed, and the one that is neither is
/// put right afterwards.
///
/// # Safety
/// As [`copy`]; `to` is writable for the piece.
#[inline(always)]
unsafe fn mirror<V: Vector, S: Sink, const W: usize>(piece: Piece, to: *mut u8, ahead: *const u8) {
    let Piece {
        line,
        length,
        start,
        end,
        ..
    } = piece;
    let width = V::BYTES / W;
    // SAFETY: `start + width <= end`, and every step read is less than the end or the length.
    unsafe {
        let mut next = start;
        while next < end {
            // The last vector lies over the one before.
            let step = next.min(end - width);
            let reversed = step + width <= length;
            let from = if reversed {
                length - width - step
            } else {
                step
            };
            let vector = V::load(line.add(from * W));
            vector
                .or(vector.reversed::<W>(), reversed)
                .store(to.add((step - start) * W));
            if S::BEYOND_CACHES {
                prefetch(ahead.wrapping_add((next - start) * W));
            }
            next += width;
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
/// `data` is readable and writable for the plan's `output_bytes`, and the
/// plan's input has the output's layout. `items` are items of the nest, whose
/// time steps are the first ones of pairs.
#[inline(always)]
pub(super) unsafe fn swap_items<V: Vector, const W: usize>(
    nest: &Nest,
    lengths: &SequenceLengths<'_>,
    data: *mut u8,
    items: Range<usize>,
) {
    let mut queue = Ahead::of(BLOCK);
    for (at, steps) in nest.lines(items) {
        let length = lengths.get(at.lengths);
        let mut start = steps.start;
        let end = steps.end.min(length / 2);
        while start < end {
            let count = (end - start).min(BLOCK / 2 / W);
            // SAFETY: see `nest::Row`. The first steps of pairs and their mirror
            // images are two runs of packed elements that do not overlap.
            unsafe {
                let line = data.add(at.output);
                let run = Runs {
                    one: line.add(start * W),
                    other: line.add((length - start - count) * W),
                    count,
                };
                for byte in (0..count * W).step_by(64) {
                    prefetch(run.one.wrapping_add(byte));
                    prefetch(run.other.wrapping_add(byte));
                }
                if let Some(oldest) = queue.push(run) {
                    swap_reversed::<V, W>(oldest.one, oldest.other, oldest.count);
                }
            }
            start += count;
        }
    }
    while let Some(run) = queue.pop() {
        // SAFETY: as above.
        unsafe { swap_reversed::<V, W>(run.one, run.other, run.count) };
    }
}

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
