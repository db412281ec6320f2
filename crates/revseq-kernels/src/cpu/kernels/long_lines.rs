//! Long lines of elements of 1, 2, 4, 8 or 16 bytes along time: the reversed prefix and the rest
//! are two runs, reversed or copied by vectors.

use std::ops::Range;

use crate::cpu::loop_nest::job::Job;
use crate::cpu::loop_nest::{Position, Rounds};
use crate::cpu::memory::copy_queue::CopyQueue;
use crate::cpu::memory::direction::Backward;
use crate::cpu::memory::store_policy::StorePolicy;
use crate::cpu::memory::swap_queue::SwapQueue;
use crate::cpu::simd::Vector;

/// How many lengths are read at once.
pub(super) const MAX_LENGTHS: usize = 128;

/// Copies some items of a plan whose elements are packed along time on both sides.
///
/// # Safety
/// The nest has all time steps of the plan, and `items` are items of it; the store policy
/// writes to the job's output; `W` is the plan's `row_bytes`.
#[inline(always)]
pub(crate) unsafe fn copy_items<V: Vector, S: StorePolicy, const W: usize>(
    job: &Job<'_>,
    stores: &mut S,
    items: Range<usize>,
) {
    let mut queue = CopyQueue::<Backward<W>>::new(job.plan.time.size * W);
    let mut rounds = Rounds::default();
    for (at, steps) in job.nest.lines(items, &mut rounds) {
        let length = job.lengths.get(at.lengths);
        for run in runs::<W>(job, at, length, &steps) {
            // SAFETY: both runs lie in the line, which has as many packed elements in both
            // buffers as time has steps (see `Job`).
            unsafe { queue.copy::<V, S>(stores, run.reversed, run.from, run.to, run.bytes) };
        }
    }
    // SAFETY: the buffers outlive the call.
    unsafe { queue.finish::<V, S>(stores) };
}

/// A part of a line that is reversed as a whole, or not.
pub(super) struct LineRun {
    pub(super) reversed: bool,
    pub(super) from: *const u8,
    /// Its offset in the output.
    pub(super) to: usize,
    pub(super) bytes: usize,
}

/// What comes of the reversed prefix, and what comes after it, in some steps of a line.
#[inline(always)]
pub(super) fn runs<const W: usize>(
    job: &Job<'_>,
    at: Position,
    length: usize,
    steps: &Range<usize>,
) -> [LineRun; 2] {
    let middle = length.clamp(steps.start, steps.end);
    let run = |reversed, from: usize, steps: Range<usize>| LineRun {
        reversed,
        from: job.input.wrapping_add(at.input + from * W),
        to: at.output + steps.start * W,
        bytes: steps.len() * W,
    };
    [
        // A prefix that ends before the steps has no elements in them, so none is read.
        run(true, length.saturating_sub(middle), steps.start..middle),
        run(false, middle, middle..steps.end),
    ]
}

/// Swaps some pairs of a plan whose elements are packed along time; beyond the caches if
/// `prefetches`.
///
/// # Safety
/// The job is in place, the time steps of its nest are the first ones of pairs, and `items`
/// are items of it; `W` is the plan's `row_bytes`.
#[inline(always)]
pub(crate) unsafe fn swap_items<V: Vector, const W: usize>(
    job: &Job<'_>,
    items: Range<usize>,
    prefetches: bool,
) {
    let mut queue = SwapQueue::<Backward<W>>::new(job.plan.time.size * W, prefetches);
    let mut lengths = [0; MAX_LENGTHS];
    let mut rounds = Rounds::default();
    let mut lines = job.nest.lines(items, &mut rounds);
    while let Some(run) = lines.next_run(MAX_LENGTHS) {
        let lengths = &mut lengths[..run.lines];
        job.lengths.read(run.at.lengths, run.step.lengths, lengths);
        let mut line = job.output.wrapping_add(run.at.output);
        for &length in &*lengths {
            // SAFETY: the first steps of pairs and their mirror images are two runs of packed
            // elements of the line (see `Job`) that do not overlap.
            unsafe {
                if run.steps.len() == job.nest.line.size {
                    queue.reverse_in_place::<V>(line, length * W);
                } else {
                    let pairs = run.steps.start..run.steps.end.min(length / 2);
                    if !pairs.is_empty() {
                        let mirror = line.add((length - pairs.end) * W);
                        queue.exchange::<V>(line.add(pairs.start * W), mirror, pairs.len() * W);
                    }
                }
            }
            line = line.wrapping_add(run.step.output);
        }
    }
    // SAFETY: the buffer outlives the call.
    unsafe { queue.finish::<V>() };
}
