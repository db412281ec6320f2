//! Lines of less than 16 bytes along time: each is loaded into an integer, reversed there by
//! shifts and byte swaps, and stored.

use std::ops::Range;

use super::long_lines::MAX_LENGTHS;
use crate::cpu::loop_nest::Rounds;
use crate::cpu::loop_nest::job::Job;
use crate::cpu::memory::direction::{Backward, Direction};
use crate::cpu::memory::store_policy::StorePolicy;
use crate::cpu::simd::sub_vector;

/// Copies some items of a plan whose elements are packed along time on both sides.
///
/// # Safety
/// The nest has all time steps of the plan, and `items` are items of it; the store policy
/// writes to the job's output; `W` is the plan's `row_bytes`, and a line is less than a lane.
#[inline(always)]
pub(crate) unsafe fn copy_items<S: StorePolicy, const W: usize>(
    job: &Job<'_>,
    stores: &mut S,
    items: Range<usize>,
) {
    let all = job.plan.time.size;
    let mut lengths = [0; MAX_LENGTHS];
    let mut rounds = Rounds::default();
    let mut lines = job.nest.lines(items, &mut rounds);
    while let Some(mut run) = lines.next_run(MAX_LENGTHS) {
        let lengths = &mut lengths[..run.lines];
        job.lengths.read(run.at.lengths, run.step.lengths, lengths);
        let Range { start, end } = run.steps;
        for &length in &*lengths {
            // SAFETY: a line is `all` packed elements from its offset on, in both buffers (see
            // `Job`), and `start..end` are steps of it.
            unsafe {
                let line = sub_vector::load(job.input.add(run.at.input), all * W);
                let steps = sub_vector::prefix_reversed::<W>(line, length) >> (8 * start * W);
                stores.seek(run.at.output + start * W);
                let bytes = (end - start) * W;
                sub_vector::store(steps, stores.reserve(bytes), bytes);
            }
            run.at.advance(&run.step, 1);
        }
    }
}

/// Swaps some pairs of a plan whose elements are packed along time.
///
/// # Safety
/// The job is in place, the time steps of its nest are the first ones of pairs, and `items`
/// are items of it; `W` is the plan's `row_bytes`, and a line is less than a lane.
#[inline(always)]
pub(crate) unsafe fn swap_items<const W: usize>(job: &Job<'_>, items: Range<usize>) {
    let bytes = job.plan.time.size * W;
    let mut lengths = [0; MAX_LENGTHS];
    let mut rounds = Rounds::default();
    let mut lines = job.nest.lines(items, &mut rounds);
    while let Some(run) = lines.next_run(MAX_LENGTHS) {
        let lengths = &mut lengths[..run.lines];
        job.lengths.read(run.at.lengths, run.step.lengths, lengths);
        let mut line = job.output.wrapping_add(run.at.output);
        for &length in &*lengths {
            // SAFETY: a line is `bytes` bytes from its offset on (see `Job`); no pair's first
            // step is beyond half of the length, so the two parts of a line do not overlap.
            unsafe {
                if run.steps.len() == job.nest.line.size {
                    let value = sub_vector::load(line, bytes);
                    sub_vector::store(sub_vector::prefix_reversed::<W>(value, length), line, bytes);
                } else {
                    let pairs = run.steps.start..run.steps.end.min(length / 2);
                    if !pairs.is_empty() {
                        let (first, last) = (pairs.start * W, (length - pairs.end) * W);
                        Backward::<W>::swap_partial(
                            line.add(first),
                            line.add(last),
                            pairs.len() * W,
                        );
                    }
                }
            }
            line = line.wrapping_add(run.step.output);
        }
    }
}
