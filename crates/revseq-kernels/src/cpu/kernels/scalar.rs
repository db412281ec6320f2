//! Element by element, by any strides: what no other kernel takes, and what is
//! too small to choose one.

use std::ops::Range;

use crate::cpu::loop_nest::Rounds;
use crate::cpu::loop_nest::job::{Job, source};
use crate::cpu::memory::width::Width;

/// Moves the rows of some items from their place in the input to their place in the output.
///
/// # Safety
/// The nest has all time steps of the plan, and `items` are items of it;
/// `width` moves rows of the plan's `row_bytes`.
#[inline(always)]
pub(crate) unsafe fn copy_items(job: &Job<'_>, width: impl Width, items: Range<usize>) {
    let time = job.plan.time;
    let mut rounds = Rounds::default();
    for (at, steps) in job.nest.lines(items, &mut rounds) {
        // SAFETY: see `Job`.
        unsafe {
            if job.nest.along_time {
                let length = job.lengths.get(at.lengths);
                let (input, output) = (job.input.add(at.input), job.output.add(at.output));
                for t in steps {
                    let from = input.add(source(length, t) * time.input);
                    width.copy(from, output.add(t * time.output));
                }
                continue;
            }
            for step in steps {
                let row = job.row(at, step);
                width.copy(
                    job.input.add(row.input + row.source() * time.input),
                    job.output.add(row.output + row.time * time.output),
                );
            }
        }
    }
}

/// Exchanges the rows of some pairs.
///
/// # Safety
/// The job is in place, the time steps of its nest are the first ones of pairs,
/// and `items` are items of it; `width` moves rows of the plan's `row_bytes`.
#[inline(always)]
pub(crate) unsafe fn swap_items(job: &Job<'_>, width: impl Width, items: Range<usize>) {
    let time = job.plan.time.output;
    let mut rounds = Rounds::default();
    for (at, steps) in job.nest.lines(items, &mut rounds) {
        // SAFETY: see `Job`. The two time steps of a pair differ, so the rows do not overlap.
        unsafe {
            if job.nest.along_time {
                let length = job.lengths.get(at.lengths);
                let column = job.output.add(at.output);
                for t in steps.start..steps.end.min(length / 2) {
                    width.swap(column.add(t * time), column.add((length - 1 - t) * time));
                }
                continue;
            }
            for step in steps {
                let row = job.row(at, step);
                if row.time < row.length / 2 {
                    let column = job.output.add(row.output);
                    width.swap(column.add(row.time * time), column.add(row.source() * time));
                }
            }
        }
    }
}
