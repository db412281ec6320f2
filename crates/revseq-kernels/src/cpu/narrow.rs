//! Rows of less than a cache line that are packed along time, such as RGB
//! pixels: reversed by copying more than a row at a time.

use std::mem::MaybeUninit;
use std::ops::Range;

use super::ahead::DISTANCE;
use super::job::Job;
use super::nest::Rounds;
use super::sink::{BLOCK, LINE, Sink};
use super::vector::{LANE, V128, Vector, copy_bytes, prefetch};

/// Moves some items of a plan whose rows are packed along time on both sides
/// and at most `LANES` lanes wide.
///
/// # Safety
/// The nest has all time steps of the plan, and `items` are items of it; the
/// sink writes to the job's output.
#[inline(always)]
pub(super) unsafe fn copy_items<S: Sink, const LANES: usize>(
    job: &Job<'_>,
    sink: &mut S,
    items: Range<usize>,
) {
    let (row, all) = (job.plan.row_bytes, job.plan.time.size);
    let mut rounds = Rounds::default();
    // SAFETY: see `Job`: a line has as many packed rows as time has steps.
    unsafe {
        for (at, steps) in job.nest.lines(items, &mut rounds) {
            let line = job.input.add(at.input);
            let length = job.lengths.get(at.lengths).min(all);
            let reversed = steps.start.min(length)..steps.end.min(length);
            let kept = steps.start.max(length)..steps.end.max(length);
            sink.seek(at.output + steps.start * row);
            for first in reversed.clone().step_by(BLOCK / row) {
                let count = (BLOCK / row).min(reversed.end - first);
                let from = line.add((length - first - count) * row);
                let ahead = from.wrapping_sub(DISTANCE);
                reverse::<LANES>(from, sink.space(count * row), count, row, ahead);
            }
            for first in kept.clone().step_by(BLOCK / row) {
                let count = (BLOCK / row).min(kept.end - first);
                let from = line.add(first * row);
                sink.copy(from, count * row, from.wrapping_add(DISTANCE));
            }
        }
    }
}

/// Exchanges some pairs of a plan whose rows are packed along time and at most
/// `LANES` lanes wide.
///
/// # Safety
/// The job is in place, the time steps of its nest are the first ones of pairs,
/// and `items` are items of it.
#[inline(always)]
pub(super) unsafe fn swap_items<const LANES: usize>(job: &Job<'_>, items: Range<usize>) {
    let row = job.plan.row_bytes;
    let mut kept = [MaybeUninit::<u8>::uninit(); BLOCK];
    let kept = kept.as_mut_ptr().cast::<u8>();
    let mut rounds = Rounds::default();
    for (at, steps) in job.nest.lines(items, &mut rounds) {
        let length = job.lengths.get(at.lengths);
        let pairs = steps.start..steps.end.min(length / 2);
        for first in pairs.clone().step_by(BLOCK / row) {
            let count = (BLOCK / row).min(pairs.end - first);
            // SAFETY: see `Job`. The first steps of pairs and their mirror images
            // are two runs of packed rows that do not overlap.
            unsafe {
                let line = job.output.add(at.output);
                let one = line.add(first * row);
                let other = line.add((length - first - count) * row);
                kept.copy_from_nonoverlapping(one, count * row);
                let ahead = (other.wrapping_sub(DISTANCE), one.wrapping_add(DISTANCE));
                reverse::<LANES>(other, one, count, row, ahead.0);
                reverse::<LANES>(kept, other, count, row, ahead.1);
            }
        }
    }
}

/// Copies `count` rows in reverse order, and asks for as many at `ahead`.
///
/// To ask for what is not mapped would cost the search for its page each time,
/// so that a caller gives a place in its data, or near.
///
/// # Safety
/// `from` is readable and `to` writable for `count` rows of `row` bytes, at
/// most `LANES` lanes, and they do not overlap.
#[inline(always)]
unsafe fn reverse<const LANES: usize>(
    from: *const u8,
    to: *mut u8,
    count: usize,
    row: usize,
    ahead: *const u8,
) {
    // What is copied past a row's end lies inside the rows on both sides, and
    // the rows after it overwrite it; not so for those at either end.
    let exact = (LANES * LANE).div_ceil(row).min(count);
    let middle = exact..(count - exact).max(exact);
    // SAFETY: the caller's, and as just said.
    unsafe {
        let source = |index: usize| from.add((count - 1 - index) * row);
        for index in 0..middle.start {
            copy_bytes(source(index), to.add(index * row), row);
        }
        for index in middle.clone() {
            let (from, to) = (source(index), to.add(index * row));
            if (index * row) % LINE < row {
                prefetch(ahead.wrapping_add((count - 1 - index) * row));
            }
            for lane in 0..LANES {
                V128::load(from.add(lane * LANE)).store(to.add(lane * LANE));
            }
        }
        for index in middle.end..count {
            copy_bytes(source(index), to.add(index * row), row);
        }
    }
}
