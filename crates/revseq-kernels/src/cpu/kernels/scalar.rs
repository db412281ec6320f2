//! Element by element, by any strides: what no other kernel takes, and what is
//! too small to choose one.

use std::ops::Range;

use crate::cpu::loop_nest::job::{Job, source};
use crate::cpu::loop_nest::{Position, Rounds};
use crate::cpu::memory::width::Width;
use crate::plan::Loop;
use crate::{Plan, SequenceLengths};

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

/// Moves all rows of a small plan, column by column, in whatever order its loops are.
///
/// # Safety
/// `input` is readable for the plan's `input_bytes`, `output` writable for its `output_bytes`,
/// and they do not overlap; `width` moves rows of the plan's `row_bytes`.
#[inline(always)]
pub(crate) unsafe fn copy_columns(
    plan: &Plan,
    width: impl Width,
    lengths: &SequenceLengths<'_>,
    input: *const u8,
    output: *mut u8,
) {
    for_each_column(&plan.loops, Position::default(), &mut |at| {
        let length = lengths.get(at.lengths);
        // In registers: the compiler takes what is written for any memory.
        let time = plan.time;
        // SAFETY: see `Job`; a length is at most the number of time steps.
        unsafe {
            let (from, mut to) = (input.add(at.input), output.add(at.output));
            for t in 0..time.size {
                width.copy(from.add(source(length, t) * time.input), to);
                to = to.wrapping_add(time.output);
            }
        }
    });
}

/// Exchanges all pairs of a small plan, column by column.
///
/// # Safety
/// `data` is readable and writable for the plan's `output_bytes`; `width` moves rows of the
/// plan's `row_bytes`.
#[inline(always)]
pub(crate) unsafe fn swap_columns(
    plan: &Plan,
    width: impl Width,
    lengths: &SequenceLengths<'_>,
    data: *mut u8,
) {
    let time = plan.time.output;
    for_each_column(&plan.loops, Position::default(), &mut |at| {
        let length = lengths.get(at.lengths);
        // SAFETY: see `Job`. The two time steps of a pair differ, so the rows do not overlap.
        unsafe {
            let column = data.add(at.output);
            for t in 0..length / 2 {
                width.swap(column.add(t * time), column.add((length - 1 - t) * time));
            }
        }
    });
}

/// Calls `column` with where each starts.
///
/// What is small has few loops, as each of a plan's goes round at least twice.
fn for_each_column(loops: &[Loop], mut at: Position, column: &mut impl FnMut(Position)) {
    let [outermost, inner @ ..] = loops else {
        return column(at);
    };
    let step = Position::step_of(outermost);
    for _ in 0..outermost.size {
        match inner {
            [] => column(at),
            _ => for_each_column(inner, at, column),
        }
        at.advance(&step, 1);
    }
}
