//! Rows that move as they are: copied by [`write`], or swapped through registers.

use std::ops::Range;

use super::choice::Tier;
use super::simd::{SimdTask, Vector, fence, run_at};
use super::swap::swap;
use super::walk::{Band, Job, MAX_COLUMNS, longest, source};
use super::write::{L1_DISTANCE, L2_DISTANCE, Span, prefetch_l2, prefetch_range, write};
use crate::plan::Loop;

/// Number of bytes of neighbouring columns that go through time together beyond the caches.
///
/// Then the rows that are read soon are one step ahead, and lie in the same pages, or in pages
/// whose translations share a cache line. [M9]
const BAND: usize = 8 << 10;

/// Number of bytes of rows of the same columns that are swapped at once.
const BLOCK: usize = 16 << 10;

/// Number of bytes of the narrowest rows that are prefetched along time in place. [M5]
const MIN_ROW_ALONG_TIME: usize = 512;

/// Number of bytes of a row that are swapped before more is prefetched.
const PIECE: usize = 1 << 10;

/// Copies the rows of some items to their place, or swaps those of pairs in place.
///
/// # Safety
/// `items` are items of the job's walk, which is that of the plan's rows, with all time steps or,
/// in place, those of all pairs; the CPU has the instructions of the job's choice.
pub(crate) unsafe fn run(job: &Job<'_>, items: Range<usize>) {
    // Each class has its own loops, in which no branch depends on the bytes of a row. [M11]
    // SAFETY: this function's conditions; the row is of the class.
    unsafe {
        match job.plan.row_bytes {
            64 => run_class::<64, 64>(job, items),
            128 => run_class::<128, 128>(job, items),
            256 => run_class::<256, 256>(job, items),
            17..33 => run_class::<17, 32>(job, items),
            33..64 => run_class::<33, 63>(job, items),
            65..128 => run_class::<65, 127>(job, items),
            ..=L1_DISTANCE => run_class::<1, L1_DISTANCE>(job, items),
            _ => run_class::<1, { usize::MAX }>(job, items),
        }
    }
    if job.choice.tier == Tier::Streamed {
        fence();
    }
}

/// Runs like [`run`], for rows of `LEAST` to `MOST` bytes.
///
/// # Safety
/// As [`run`].
unsafe fn run_class<const LEAST: usize, const MOST: usize>(job: &Job<'_>, items: Range<usize>) {
    let (row, time, choice) = (job.plan.row_bytes, job.plan.time, job.choice);
    let simd = choice.simd.narrowed(row);
    // SAFETY: see `Job`; the row is of the class.
    job.for_each_band(items, columns_together(job), |band| unsafe {
        let rows = Rows::<LEAST, MOST> { band, row, time };
        match (choice.in_place, choice.tier) {
            (false, Tier::Near) => run_at(simd, Copy::<LEAST, MOST, false, false>(rows)),
            (false, Tier::Far) => run_at(simd, Copy::<LEAST, MOST, false, true>(rows)),
            (false, Tier::Streamed) => run_at(simd, Copy::<LEAST, MOST, true, true>(rows)),
            (true, Tier::Near) => run_at(simd, Swap::<LEAST, MOST, false>(rows)),
            (true, _) => run_at(simd, Swap::<LEAST, MOST, true>(rows)),
        }
    });
}

/// Returns the number of columns that are taken at once: beyond the caches those of about a
/// [`BAND`], in equal parts, if a column's neighbour comes before its next row.
fn columns_together(job: &Job<'_>) -> usize {
    let (row, columns) = (job.plan.row_bytes, job.walk.columns.size);
    if job.choice.tier == Tier::Near || job.walk.along_time {
        return MAX_COLUMNS;
    }
    let bands = (columns * row + BAND / 2) / BAND;
    columns.div_ceil(bands.max(1))
}

/// The rows of a band, each of `LEAST` to `MOST` bytes.
struct Rows<'a, const LEAST: usize, const MOST: usize> {
    band: Band<'a>,
    row: usize,
    time: Loop,
}

/// Copies them.
struct Copy<'a, const LEAST: usize, const MOST: usize, const STREAM: bool, const AHEAD: bool>(
    Rows<'a, LEAST, MOST>,
);

impl<const LEAST: usize, const MOST: usize, const STREAM: bool, const AHEAD: bool> SimdTask
    for Copy<'_, LEAST, MOST, STREAM, AHEAD>
{
    /// # Safety
    /// The band is one of the job's (see [`Job`]), whose rows are of the class.
    #[inline(always)]
    unsafe fn run<V: Vector>(self) {
        let Rows { band, row, time } = self.0;
        // SAFETY: the row is of the class.
        unsafe { std::hint::assert_unchecked(LEAST <= row && row <= MOST) };
        // The bytes that are moved from a row to the next one of its column.
        let spread = match band.along_time {
            true => row,
            false => row * band.lengths.len(),
        };
        let near = (L1_DISTANCE / spread).max(1);
        let far = (L2_DISTANCE / spread).max(1);
        let last = time.size - 1;
        let row_of = |column: *const u8, length: usize, t: usize| {
            let place = |t: usize| column.wrapping_add(source(length, t) * time.input);
            let (near, far) = if AHEAD { (t + near, t + far) } else { (t, t) };
            Span::<1, false>::row(place(t), row, place(near.min(last)), place(far.min(last)))
        };
        let (mut column, mut first) = (band.input, band.output);
        if band.along_time {
            for &length in band.lengths {
                let mut to = first.wrapping_add(band.times.start * time.output);
                for t in band.times.clone() {
                    // SAFETY: a time step is less than the axis size, so that each row lies in its
                    // column (see `Job`).
                    unsafe { write::<V, _, STREAM, AHEAD>(row_of(column, length, t), to, row) };
                    to = to.wrapping_add(time.output);
                }
                column = column.wrapping_add(band.input_step);
                first = first.wrapping_add(band.output_step);
            }
            return;
        }
        for t in band.times {
            (column, first) = (band.input, band.output.wrapping_add(t * time.output));
            for &length in band.lengths {
                // SAFETY: as above.
                unsafe { write::<V, _, STREAM, AHEAD>(row_of(column, length, t), first, row) };
                column = column.wrapping_add(band.input_step);
                first = first.wrapping_add(band.output_step);
            }
        }
    }
}

/// Swaps those of pairs.
struct Swap<'a, const LEAST: usize, const MOST: usize, const AHEAD: bool>(Rows<'a, LEAST, MOST>);

impl<const LEAST: usize, const MOST: usize, const AHEAD: bool> SimdTask
    for Swap<'_, LEAST, MOST, AHEAD>
{
    /// # Safety
    /// As for [`Copy`]; the job is in place.
    #[inline(always)]
    unsafe fn run<V: Vector>(self) {
        let Rows { band, row, time } = self.0;
        let pitch = time.output;
        // SAFETY: the row is of the class.
        unsafe { std::hint::assert_unchecked(LEAST <= row && row <= MOST) };
        // A column at a time, as whether a row is one of a pair changes with every column.
        let together = match band.along_time {
            true => usize::MAX,
            false => (BLOCK / (band.lengths.len() * row)).max(1),
        };
        // The distance to the rows that are swapped a while later. Narrow ones along time lie in
        // order, which the hardware foresees.
        let ahead = match band.along_time {
            true => (L2_DISTANCE / 2 / row).max(1) * pitch,
            false => together * pitch,
        };
        let prefetches = AHEAD && !(band.along_time && row < MIN_ROW_ALONG_TIME);
        let last = longest(band.lengths) / 2;
        for start in (band.times.start..band.times.end.min(last)).step_by(together) {
            let end = band.times.end.min(start.saturating_add(together));
            let mut column = band.output;
            for &length in band.lengths {
                let mut one = column.wrapping_add(start * pitch);
                let mirror = length.wrapping_sub(1 + start);
                let mut other = column.wrapping_add(mirror.wrapping_mul(pitch));
                for _ in start..end.min(length / 2) {
                    // SAFETY: both rows lie in the column, and differ as no step is beyond half of
                    // its length.
                    unsafe {
                        let mut at = 0;
                        while prefetches && at < row {
                            let left = row - at;
                            let bytes = if left < 2 * PIECE { left } else { PIECE };
                            let (one, other) = (one.add(at), other.add(at));
                            swap::<V, 1, false>(one, other, bytes);
                            prefetch_range(one.wrapping_add(ahead), bytes, prefetch_l2);
                            prefetch_range(other.wrapping_sub(ahead), bytes, prefetch_l2);
                            at += bytes;
                        }
                        if !prefetches {
                            swap::<V, 1, false>(one, other, row);
                        }
                    }
                    one = one.wrapping_add(pitch);
                    other = other.wrapping_sub(pitch);
                }
                column = column.wrapping_add(band.output_step);
            }
        }
    }
}
