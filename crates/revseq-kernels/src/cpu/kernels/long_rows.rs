//! Rows of many bytes: each is copied or exchanged whole.

use std::ops::Range;

use crate::cpu::loop_nest::Rounds;
use crate::cpu::loop_nest::job::{Job, source};
use crate::cpu::memory::copy_queue::CopyQueue;
use crate::cpu::memory::direction::Forward;
use crate::cpu::memory::store_policy::StorePolicy;
use crate::cpu::memory::swap_queue::SwapQueue;
use crate::cpu::simd::Vector;

/// How many lengths are read at once.
const MAX_LENGTHS: usize = 64;

/// Copies the rows of some items from their place in the input to their place in the output.
///
/// # Safety
/// The nest has all time steps of the plan, and `items` are items of it; the store policy
/// writes to the job's output.
#[inline(always)]
pub(crate) unsafe fn copy_items<V: Vector, S: StorePolicy>(
    job: &Job<'_>,
    stores: &mut S,
    items: Range<usize>,
) {
    let (bytes, time, line) = (job.plan.row_bytes, job.plan.time, job.nest.line);
    let mut queue = CopyQueue::<Forward>::new(bytes);
    let mut lengths = [0; MAX_LENGTHS];
    // Which lengths were read: mostly those of the next line, too.
    let mut read = None;
    let mut rounds = Rounds::default();
    for (at, steps) in job.nest.lines(items, &mut rounds) {
        for first in steps.clone().step_by(MAX_LENGTHS) {
            let lengths = &mut lengths[..MAX_LENGTHS.min(steps.end - first)];
            let wanted = (at.lengths + first * line.lengths, lengths.len());
            if read != Some(wanted) {
                job.lengths.read(wanted.0, line.lengths, lengths);
                read = Some(wanted);
            }
            let to = at.output + at.time * time.output + first * line.output;
            for (place, &length) in lengths.iter().enumerate() {
                // Along time the line's strides are those of time.
                let (t, column) = match job.nest.along_time {
                    true => (first + place, at.input),
                    false => (at.time, at.input + (first + place) * line.input),
                };
                let to = to + place * line.output;
                // SAFETY: see `Job`.
                unsafe {
                    let from = job.input.add(column + source(length, t) * time.input);
                    queue.copy::<V, S>(stores, false, from, to, bytes);
                }
            }
        }
    }
    // SAFETY: as above.
    unsafe { queue.finish::<V, S>(stores) };
}

/// Exchanges the rows of some pairs, beyond the caches if `prefetches`.
///
/// # Safety
/// The job is in place, the time steps of its nest are the first ones of pairs,
/// and `items` are items of it.
#[inline(always)]
pub(crate) unsafe fn swap_items<V: Vector>(job: &Job<'_>, items: Range<usize>, prefetches: bool) {
    let (bytes, time) = (job.plan.row_bytes, job.plan.time.output);
    let mut queue = SwapQueue::<Forward>::new(2 * bytes, prefetches);
    let mut rounds = Rounds::default();
    for (at, steps) in job.nest.lines(items, &mut rounds) {
        for step in steps {
            let row = job.row(at, step);
            if row.time >= row.length / 2 {
                continue;
            }
            // SAFETY: see `Job`. The two time steps of a pair differ, so the rows
            // do not overlap.
            unsafe {
                let column = job.output.add(row.output);
                let (one, other) = (row.time * time, row.source() * time);
                queue.exchange::<V>(column.add(one), column.add(other), bytes);
            }
        }
    }
    // SAFETY: as above.
    unsafe { queue.finish::<V>() };
}
