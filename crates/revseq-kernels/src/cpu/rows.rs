//! Rows of many bytes: each is copied or exchanged whole.

use std::ops::Range;

use super::ahead::Ahead;
use super::job::Job;
use super::nest::Rounds;
use super::sink::{LINE, Sink};
use super::vector::{Vector, prefetch};
use super::walk::{Bytes, Width};

/// How many rows are looked up at once.
const MANY: usize = 64;

/// Moves the rows of some items from their place in the input to their place in the output.
///
/// # Safety
/// The nest has all time steps of the plan, and `items` are items of it; the
/// sink writes to the job's output.
#[inline(always)]
pub(super) unsafe fn copy_items<S: Sink>(job: &Job<'_>, sink: &mut S, items: Range<usize>) {
    let bytes = job.plan.row_bytes;
    let mut queue = Ahead::of(bytes);
    let mut sources = [0; MANY];
    let mut rounds = Rounds::default();
    for (at, steps) in job.nest.lines(items, &mut rounds) {
        for first in steps.clone().step_by(MANY) {
            let sources = &mut sources[..MANY.min(steps.end - first)];
            job.sources(at, first, sources);
            let (mut to, stride) = job.destination(at, first);
            for &source in sources.iter() {
                // SAFETY: see `Job`.
                unsafe {
                    let from = job.input.add(source);
                    if !S::BEYOND_CACHES {
                        sink.seek(to);
                        sink.copy(from, bytes, from);
                    } else if let Some((oldest, to)) = queue.push((from, to)) {
                        sink.seek(to);
                        sink.copy(oldest, bytes, from);
                    }
                }
                to += stride;
            }
        }
    }
    while let Some((from, to)) = queue.pop() {
        // SAFETY: see `Job`.
        unsafe {
            sink.seek(to);
            sink.copy(from, bytes, from);
        }
    }
}

/// Exchanges the rows of some pairs.
///
/// # Safety
/// The job is in place, the time steps of its nest are the first ones of pairs,
/// and `items` are items of it.
#[inline(always)]
pub(super) unsafe fn swap_items<V: Vector>(job: &Job<'_>, items: Range<usize>) {
    let (bytes, time) = (job.plan.row_bytes, job.plan.time.output);
    let mut queue = Ahead::of(2 * bytes);
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
                if let Some(oldest) = queue.push(pair) {
                    swap::<V>(oldest, bytes, pair);
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
