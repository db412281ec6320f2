//! Rows of many bytes: each is copied or exchanged whole.

use std::ops::Range;

use super::ahead::{Ahead, DISTANCE};
use super::direction::Forward;
use super::job::{Job, source};
use super::nest::Rounds;
use super::pieces::{PIECE, Pieces};
use super::sink::{LINE, Sink};
use super::vector::{Vector, prefetch};
use super::walk::{Bytes, Width};

/// How many lengths are read at once.
const MANY: usize = 64;

/// Moves the rows of some items from their place in the input to their place in the output.
///
/// # Safety
/// The nest has all time steps of the plan, and `items` are items of it; the
/// sink writes to the job's output.
#[inline(always)]
pub(super) unsafe fn copy_items<V: Vector, S: Sink>(
    job: &Job<'_>,
    sink: &mut S,
    items: Range<usize>,
) {
    // SAFETY: the caller's.
    unsafe {
        match job.plan.row_bytes > PIECE {
            true => copy_rows::<V, S, true>(job, sink, items),
            false => copy_rows::<V, S, false>(job, sink, items),
        }
    }
}

/// As [`copy_items`]; the rows have more than [`PIECE`] bytes if they are `LONG`.
///
/// # Safety
/// As there.
#[inline(always)]
unsafe fn copy_rows<V: Vector, S: Sink, const LONG: bool>(
    job: &Job<'_>,
    sink: &mut S,
    items: Range<usize>,
) {
    let (bytes, time, line) = (job.plan.row_bytes, job.plan.time, job.nest.line);
    let mut pieces = Pieces::<Forward, LONG>::new::<S>(bytes);
    let mut lengths = [0; MANY];
    // Which lengths were read: mostly those of the next line, too.
    let mut read = None;
    let mut rounds = Rounds::default();
    for (at, steps) in job.nest.lines(items, &mut rounds) {
        for first in steps.clone().step_by(MANY) {
            let lengths = &mut lengths[..MANY.min(steps.end - first)];
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
                    pieces.copy::<V, S>(sink, false, from, to, bytes);
                }
            }
        }
    }
    // SAFETY: as above.
    unsafe { pieces.finish::<V, S>(sink) };
}

/// Exchanges the rows of some pairs.
///
/// # Safety
/// The job is in place, the time steps of its nest are the first ones of pairs,
/// and `items` are items of it.
#[inline(always)]
pub(super) unsafe fn swap_items<V: Vector>(job: &Job<'_>, items: Range<usize>) {
    let (bytes, time) = (job.plan.row_bytes, job.plan.time.output);
    let mut queue = Ahead::new(2 * bytes, DISTANCE, DISTANCE);
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
                let pair = (column.add(row.time * time), column.add(row.source() * time));
                if let Some((oldest, near)) = queue.push(pair) {
                    swap::<V>(oldest, bytes, near);
                }
            }
        }
    }
    while let Some(pair) = queue.pop() {
        // SAFETY: as above.
        unsafe { swap::<V>(pair, bytes, pair) };
    }
}

/// Exchanges two rows and asks for those of `ahead`.
///
/// # Safety
/// Both rows are readable and writable for `bytes`, and they do not overlap.
#[inline(always)]
unsafe fn swap<V: Vector>(
    (one, other): (*mut u8, *mut u8),
    bytes: usize,
    ahead: (*mut u8, *mut u8),
) {
    let mut at = 0;
    // SAFETY: every line and the rest end within `bytes`.
    unsafe {
        while at + LINE <= bytes {
            prefetch(ahead.0.wrapping_add(at));
            prefetch(ahead.1.wrapping_add(at));
            for part in (at..at + LINE).step_by(V::BYTES) {
                let (one, other) = (one.add(part), other.add(part));
                let (first, second) = (V::load(one), V::load(other));
                second.store(one);
                first.store(other);
            }
            at += LINE;
        }
        Bytes(bytes - at).swap(one.add(at), other.add(at));
    }
}
