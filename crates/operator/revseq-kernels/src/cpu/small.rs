//! Rows moved one by one, by any strides: small plans, and those that no other kernel takes.

use std::ops::Range;

use super::simd::Portable;
use super::swap::swap;
use super::walk::{Job, MAX_COLUMNS, source};
use super::with_const::with_const;
use super::write::{Span, copy_element, write};
use crate::plan::Loop;
use crate::{Plan, SequenceLengths};

/// Copies the rows of some items to their place, or swaps those of pairs in place.
///
/// # Safety
/// As [`rows::run`](super::rows::run).
pub(crate) unsafe fn run(job: &Job<'_>, items: Range<usize>) {
    let (row, time) = (job.plan.row_bytes, job.plan.time);
    with_const!(row, ROW in [1, 2, 4, 8, 16] else 0 => {
        job.for_each_band(items, MAX_COLUMNS, |band| {
            // Nearly in the order of the output: a few time steps of a column are one loop.
            let step = if band.along_time { usize::MAX } else { 8 };
            for start in band.times.clone().step_by(step) {
                let times = start..band.times.end.min(start.saturating_add(step));
                let (mut from, mut to) = (band.input, band.output);
                for &length in band.lengths {
                    let times = times.clone();
                    // SAFETY: see `Job`.
                    unsafe {
                        match job.choice.in_place {
                            true => swap_column::<ROW>(to, length, times, time, row),
                            false => copy_column::<ROW>(from, to, length, times, time, row),
                        }
                    }
                    from = from.wrapping_add(band.input_step);
                    to = to.wrapping_add(band.output_step);
                }
            }
        });
    });
}

/// Moves all rows of a plan column by column, in the order of its loops: a small plan in less time
/// than it takes to choose a kernel. [M51]
///
/// # Safety
/// `input` is readable for the plan's `input_bytes`, `output` writable for its `output_bytes`, and
/// they do not overlap; `in_place` they are the same, and readable and writable.
#[inline(always)]
pub(crate) unsafe fn run_plan(
    plan: &Plan,
    lengths: &SequenceLengths<'_>,
    (input, output): (*const u8, *mut u8),
    in_place: bool,
) {
    let row = plan.row_bytes;
    with_const!(row, ROW in [1, 2, 4, 8, 16] else 0 => {
        let swap = |[_, to, index]: [usize; 3]| {
            let (length, time) = (lengths.get(index), plan.time);
            // SAFETY: each column lies in the buffer (see `Job`).
            unsafe { swap_column::<ROW>(output.add(to), length, 0..usize::MAX, time, row) };
        };
        let copy = |[from, to, index]: [usize; 3]| {
            // Copied to a local: the compiler takes a store for one to the plan.
            let (length, time) = (lengths.get(index), plan.time);
            // SAFETY: each column lies in both buffers (see `Job`).
            unsafe {
                let (from, to) = (input.add(from), output.add(to));
                copy_column::<ROW>(from, to, length, 0..time.size, time, row);
            }
        };
        match in_place {
            true => for_each_column(&plan.loops, [0; 3], &mut { swap }),
            false => for_each_column(&plan.loops, [0; 3], &mut { copy }),
        }
    });
}

/// Calls `column` with where each starts: in the input, in the output and in the lengths.
#[inline(always)]
fn for_each_column(loops: &[Loop], mut at: [usize; 3], column: &mut impl FnMut([usize; 3])) {
    /// Iterates over several loops, of which a small plan has few, as each iterates at least twice.
    #[inline(never)]
    fn nested(loops: &[Loop], at: [usize; 3], column: &mut impl FnMut([usize; 3])) {
        for_each_column(loops, at, column);
    }
    let Some((outer, inner)) = loops.split_first() else {
        return column(at);
    };
    for _ in 0..outer.size {
        match inner {
            [] => column(at),
            _ => nested(inner, at, column),
        }
        at[0] += outer.input;
        at[1] += outer.output;
        at[2] += outer.lengths;
    }
}

/// Copies some time steps of a column of rows of `ROW` bytes, or of `row` if that is 0.
///
/// # Safety
/// The column is readable from `from` on and writable from `to` on.
#[inline(always)]
unsafe fn copy_column<const ROW: usize>(
    from: *const u8,
    to: *mut u8,
    length: usize,
    times: Range<usize>,
    time: Loop,
    row: usize,
) {
    let mut to = to.wrapping_add(times.start * time.output);
    for t in times {
        // SAFETY: both rows lie in the column.
        unsafe {
            let from = from.add(source(length, t) * time.input);
            match ROW {
                0 => write::<Portable, _, false, false>(
                    Span::<1, false>::new(from, row, from),
                    to,
                    row,
                ),
                _ => copy_element::<ROW>(from, to),
            }
        }
        to = to.wrapping_add(time.output);
    }
}

/// Swaps some pairs of a column, of which these are the first time steps.
///
/// # Safety
/// The column is readable and writable.
#[inline(always)]
unsafe fn swap_column<const ROW: usize>(
    column: *mut u8,
    length: usize,
    times: Range<usize>,
    time: Loop,
    row: usize,
) {
    for t in times.start..times.end.min(length / 2) {
        // SAFETY: both rows lie in the column, and the two time steps of a pair differ; arrays of
        // bytes need no alignment.
        unsafe {
            let one = column.add(t * time.output);
            let other = column.add((length - 1 - t) * time.output);
            match ROW {
                0 => swap::<Portable, 1, false>(one, other, row),
                _ => std::ptr::swap(one.cast::<[u8; ROW]>(), other.cast::<[u8; ROW]>()),
            }
        }
    }
}
