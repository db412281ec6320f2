//! Rows that move as they are: copied by [`write`], or exchanged through registers.

use std::ops::Range;

use super::choice::Tier;
use super::simd::{SimdTask, Vector, fence, run_at};
use super::swap::exchange;
use super::walk::{Band, Job, MAX_COLUMNS, longest, source};
use super::with_const::with_const;
use super::write::{L1_DISTANCE, L2_DISTANCE, Run, prefetch_l2, prefetch_range, write};
use crate::plan::Loop;

/// How many bytes of neighbouring columns go through time together beyond the caches.
///
/// What is near is then one step ahead, and the next step's rows lie in the same pages, or in
/// pages whose translations lie in the same line of the cache. [M9]
const BAND: usize = 8 << 10;

/// How many bytes of rows of the same columns are exchanged at once.
const BLOCK: usize = 16 << 10;

/// Rows of less are not prefetched along time in place. [M5]
const MIN_ROW_ALONG_TIME: usize = 512;

/// How much of a row is exchanged before more is prefetched, in bytes.
const PIECE: usize = 1 << 10;

/// The least and the most bytes of rows that have loops of their own: known to the compiler, they
/// leave no branch in how a row is moved, or in what is prefetched. [M11]
const CLASSES: [(usize, usize); 7] = [
    (64, 64),
    (128, 128),
    (256, 256),
    (33, 63),
    (65, 127),
    (1, L1_DISTANCE),
    (1, usize::MAX),
];

/// The index of the class of a row.
fn class(row: usize) -> usize {
    let of_row = |&(least, most): &(usize, usize)| least <= row && row <= most;
    CLASSES.iter().position(of_row).unwrap_or_default()
}

/// The bytes of a row, of which the compiler then knows the class.
///
/// # Safety
/// They are of it.
#[inline(always)]
unsafe fn of_class<const CLASS: usize>(row: usize) -> usize {
    let (least, most) = const { CLASSES[CLASS] };
    // SAFETY: the row is between the bounds of its class.
    unsafe { std::hint::assert_unchecked(least <= row && row <= most) };
    row
}

/// Copies the rows of some items to their place, or exchanges those of pairs in place.
///
/// # Safety
/// `items` are items of the job's walk, which is that of the plan's rows, with all time steps or,
/// in place, those of all pairs; the CPU has the instructions of the job's choice.
pub(crate) unsafe fn run(job: &Job<'_>, items: Range<usize>) {
    let choice = job.choice;
    let (row, time) = (job.plan.row_bytes, job.plan.time);
    let simd = choice.simd.narrowed(row);
    // SAFETY: see `Job`; a row is of the class that the constant says.
    job.for_each_band(items, columns_together(job), |band| unsafe {
        with_const!(class(row), CLASS in [0, 1, 2, 3, 4, 5] else 6 => match (choice.in_place, choice.tier) {
            (false, Tier::Near) => run_at(simd, Copy::<CLASS, false, false> { band, row, time }),
            (false, Tier::Far) => run_at(simd, Copy::<CLASS, false, true> { band, row, time }),
            (false, Tier::Streamed) => run_at(simd, Copy::<CLASS, true, true> { band, row, time }),
            (true, Tier::Near) => run_at(simd, Swap::<CLASS, false> { band, row, time }),
            (true, _) => run_at(simd, Swap::<CLASS, true> { band, row, time }),
        })
    });
    if choice.tier == Tier::Streamed {
        fence();
    }
}

/// How many columns are taken at once: beyond the caches about a [`BAND`], in equal parts, if a
/// column's neighbour comes before its next row.
fn columns_together(job: &Job<'_>) -> usize {
    let (row, columns) = (job.plan.row_bytes, job.walk.columns());
    if job.choice.tier == Tier::Near || job.walk.along_time() {
        return MAX_COLUMNS;
    }
    let bands = (columns * row + BAND / 2) / BAND;
    columns.div_ceil(bands.max(1))
}

/// Copies the rows of a band.
struct Copy<'a, const CLASS: usize, const STREAM: bool, const AHEAD: bool> {
    band: Band<'a>,
    row: usize,
    time: Loop,
}

impl<const CLASS: usize, const STREAM: bool, const AHEAD: bool> SimdTask
    for Copy<'_, CLASS, STREAM, AHEAD>
{
    /// # Safety
    /// The band is one of the job's (see [`Job`]), whose rows are of the class.
    #[inline(always)]
    unsafe fn run<V: Vector>(self) {
        let Self { band, time, .. } = self;
        // SAFETY: the row is of the class.
        let row = unsafe { of_class::<CLASS>(self.row) };
        // What is moved from a row to the next one of its column.
        let spread = match band.along_time {
            true => row,
            false => row * band.lengths.len(),
        };
        let near = (L1_DISTANCE / spread).max(1);
        let far = (L2_DISTANCE / spread).max(1);
        let row_of = |column: *const u8, length: usize, t: usize| {
            let place = |t: usize| column.wrapping_add(source(length, t) * time.input);
            let from = place(t);
            let (near, far) = match AHEAD {
                true => (t + near, t + far),
                false => (t, t),
            };
            let last = time.size - 1;
            Run::<1, false>::row(from, row, place(near.min(last)), place(far.min(last)))
        };
        if band.along_time {
            let (mut column, mut to) = (band.input, band.output);
            for &length in band.lengths {
                let mut out = to.wrapping_add(band.times.start * time.output);
                for t in band.times.clone() {
                    // SAFETY: a time step is less than the axis size, so that each row lies in its
                    // column (see `Job`).
                    unsafe { write::<V, _, STREAM, AHEAD>(row_of(column, length, t), out, row) };
                    out = out.wrapping_add(time.output);
                }
                column = column.wrapping_add(band.input_step);
                to = to.wrapping_add(band.output_step);
            }
            return;
        }
        for t in band.times {
            let (mut column, mut to) = (band.input, band.output.wrapping_add(t * time.output));
            for &length in band.lengths {
                // SAFETY: as above.
                unsafe { write::<V, _, STREAM, AHEAD>(row_of(column, length, t), to, row) };
                column = column.wrapping_add(band.input_step);
                to = to.wrapping_add(band.output_step);
            }
        }
    }
}

/// Exchanges the rows of the pairs of a band.
struct Swap<'a, const CLASS: usize, const AHEAD: bool> {
    band: Band<'a>,
    row: usize,
    time: Loop,
}

impl<const CLASS: usize, const AHEAD: bool> SimdTask for Swap<'_, CLASS, AHEAD> {
    /// # Safety
    /// As for [`Copy`]; the job is in place.
    #[inline(always)]
    unsafe fn run<V: Vector>(self) {
        let band = self.band;
        // SAFETY: the row is of the class.
        let row = unsafe { of_class::<CLASS>(self.row) };
        let pitch = self.time.output;
        // A column at a time, as whether a row is one of a pair changes with every column.
        let together = match band.along_time {
            true => usize::MAX,
            false => (BLOCK / (band.lengths.len() * row)).max(1),
        };
        // How far the rows are from here that are exchanged a while later. Short ones along time
        // lie in order, which the hardware foresees.
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
                            exchange::<V, 1, false>(one.add(at), other.add(at), bytes);
                            let next = one.wrapping_add(ahead + at);
                            prefetch_range(next, bytes, prefetch_l2);
                            let next = other.wrapping_sub(ahead).wrapping_add(at);
                            prefetch_range(next, bytes, prefetch_l2);
                            at += bytes;
                        }
                        if !prefetches {
                            exchange::<V, 1, false>(one, other, row);
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
