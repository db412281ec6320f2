//! Lines of rows that are no elements, such as RGB pixels: reversed by as many at a time as a
//! vector holds. [M15]

use std::mem::MaybeUninit;
use std::ops::Range;

use crate::cpu::choice::Tier;
use crate::cpu::simd::{Portable, SimdTask, Vector, run_at};
use crate::cpu::walk::{Band, Job, MAX_COLUMNS};
use crate::cpu::write::{CACHE_LINE, CacheLine, Span, prefetch_l1, write};

/// The size of the buffer for rows whose place is written, or that are streamed later, in bytes.
const KEPT: usize = 4 << 10;

/// Distance in bytes at which pixels in order are prefetched: the hardware foresees most of them.
const DISTANCE: usize = 8 << 10;

/// Runs like [`run`](super::run), for rows that are no elements.
///
/// # Safety
/// As [`run`](super::run).
pub(super) unsafe fn run(job: &Job<'_>, items: Range<usize>) {
    let (row, simd) = (job.plan.row_bytes, job.choice.simd);
    // SAFETY: see `Job`.
    job.for_each_band(items, MAX_COLUMNS, |band| unsafe {
        match (job.choice.in_place, job.choice.tier) {
            (true, _) => run_at(simd, Swap { band, row }),
            (false, Tier::Streamed) => run_at(simd, Copy::<true> { band, row }),
            (false, _) => run_at(simd, Copy::<false> { band, row }),
        }
    });
}

/// Copies lines.
struct Copy<'a, const STREAM: bool> {
    band: Band<'a>,
    row: usize,
}

impl<const STREAM: bool> SimdTask for Copy<'_, STREAM> {
    /// # Safety
    /// The band's rows are packed along time on both sides, and no wider than a vector.
    #[inline(always)]
    unsafe fn run<V: Vector>(self) {
        let Self { band, row } = self;
        let Range { start, end } = band.times;
        let mut kept = [MaybeUninit::<u8>::uninit(); KEPT];
        let kept = kept.as_mut_ptr().cast::<u8>();
        let pixels = Pixels::new::<V>(row);
        let most = if STREAM { KEPT / row } else { usize::MAX };
        let (mut line, mut to) = (band.input, band.output);
        for &length in band.lengths {
            let middle = length.clamp(start, end);
            // SAFETY: a line has as many packed rows as time has steps (see `Job`), and the kept
            // bytes have room for as many rows.
            unsafe {
                for first in (start..middle).step_by(most) {
                    let count = most.min(middle - first);
                    let from = line.add((length - first - count) * row);
                    let out = to.add(first * row);
                    let place = if STREAM { kept } else { out };
                    pixels.reverse::<V>(from, place, count, from.wrapping_sub(DISTANCE));
                    if STREAM {
                        let kept = Span::<1, false>::new(kept, count * row, kept);
                        write::<V, _, true, false>(kept, out, count * row);
                    }
                }
                let (from, bytes) = (line.add(middle * row), (end - middle) * row);
                let rest = Span::<1, false>::new(from, bytes, from.wrapping_add(bytes));
                write::<V, _, STREAM, true>(rest, to.add(middle * row), bytes);
            }
            line = line.wrapping_add(band.input_step);
            to = to.wrapping_add(band.output_step);
        }
    }
}

/// Swaps the pairs of lines.
struct Swap<'a> {
    band: Band<'a>,
    row: usize,
}

impl SimdTask for Swap<'_> {
    /// # Safety
    /// As for [`Copy`]; the job is in place.
    #[inline(always)]
    unsafe fn run<V: Vector>(self) {
        let Self { band, row } = self;
        let mut kept = [MaybeUninit::<u8>::uninit(); KEPT];
        let kept = kept.as_mut_ptr().cast::<u8>();
        let pixels = Pixels::new::<V>(row);
        let mut line = band.output;
        for &length in band.lengths {
            let pairs = band.times.start..band.times.end.min(length / 2);
            for first in pairs.clone().step_by(KEPT / row) {
                let count = (KEPT / row).min(pairs.end - first);
                // SAFETY: the first steps of pairs and their mirror images are packed rows of the
                // line, which do not overlap.
                unsafe {
                    let one = line.add(first * row);
                    let other = line.add((length - first - count) * row);
                    kept.copy_from_nonoverlapping(one, count * row);
                    pixels.reverse::<V>(other, one, count, other.wrapping_sub(DISTANCE));
                    pixels.reverse::<V>(kept, other, count, one.wrapping_add(DISTANCE));
                }
            }
            line = line.wrapping_add(band.output_step);
        }
    }
}

/// Reversal of rows of a width.
struct Pixels {
    /// The bytes of a row.
    row: usize,
    /// Number of rows that a vector moves.
    rows: usize,
    /// The order of a vector's bytes that reverses them.
    order: CacheLine,
}

// A vector's bytes after its last row lie inside the rows on both sides, and the next rows
// overwrite them; rows at either end, where this does not hold, are copied exactly.
impl Pixels {
    #[inline(always)]
    fn new<V: Vector>(row: usize) -> Self {
        let rows = if V::SHUFFLES { V::BYTES / row } else { 1 };
        let mut order = CacheLine([0; CACHE_LINE]);
        for (place, to) in order.0[..rows * row].chunks_mut(row).enumerate() {
            for (byte, index) in to.iter_mut().enumerate() {
                *index = ((rows - 1 - place) * row + byte) as u8;
            }
        }
        Self { row, rows, order }
    }

    /// Copies `count` rows in reverse order, and prefetches as many at `soon`.
    ///
    /// A prefetch of an unmapped page costs a page walk each time, so `soon` lies in the data, or
    /// near it.
    ///
    /// # Safety
    /// See [`Vector`]; `from` is readable and `to` writable for the rows, and they do not overlap.
    #[inline(always)]
    unsafe fn reverse<V: Vector>(
        &self,
        from: *const u8,
        to: *mut u8,
        count: usize,
        soon: *const u8,
    ) {
        let Self { row, rows, .. } = *self;
        let source = |index: usize| from.wrapping_add((count - 1 - index) * row);
        let place = |index: usize| to.wrapping_add(index * row);
        let exactly = |some: Range<usize>| {
            for index in some {
                // SAFETY: a row of this index lies in the `count` rows on both sides.
                unsafe {
                    let row = Span::<1, false>::new(source(index), self.row, from);
                    write::<Portable, _, false, false>(row, place(index), self.row);
                }
            }
        };
        // The rows that a vector touches, the last one perhaps in part.
        let touched = V::BYTES.div_ceil(row);
        let ends = touched - rows;
        if count < touched + ends {
            return exactly(0..count);
        }
        let (mut index, end) = (ends, count - touched);
        exactly(0..ends);
        // SAFETY: rows from `ends` on have a vector's bytes before them, and up to `end` after
        // them, on both sides.
        unsafe {
            let order = V::load(self.order.0.as_ptr());
            loop {
                let last = index + rows - 1;
                if index * row % CACHE_LINE < rows * row {
                    prefetch_l1(soon.wrapping_add((count - 1 - last) * row));
                }
                let vector = V::load(source(last));
                match rows {
                    1 => vector.store(place(index)),
                    _ => vector.shuffle(order).store(place(index)),
                }
                if index == end {
                    break;
                }
                // The last vector overlaps the one before it.
                index = end.min(index + rows);
            }
        }
        exactly(count - ends..count);
    }
}
