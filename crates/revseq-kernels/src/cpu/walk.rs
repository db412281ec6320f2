//! Element by element, by any strides: what no other kernel takes, and what is
//! too small to choose one.

use std::ops::Range;

use super::job::{Job, source};
use super::nest::Rounds;
use super::vector::copy_bytes;

/// Moves the rows of some items from their place in the input to their place in the output.
///
/// # Safety
/// The nest has all time steps of the plan, and `items` are items of it;
/// `width` moves rows of the plan's `row_bytes`.
#[inline(always)]
pub(super) unsafe fn copy_items(job: &Job<'_>, width: impl Width, items: Range<usize>) {
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
pub(super) unsafe fn swap_items(job: &Job<'_>, width: impl Width, items: Range<usize>) {
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

/// The bytes of a row. Addresses need no alignment.
pub(super) trait Width: Copy {
    /// Copies a row.
    ///
    /// # Safety
    /// `from` is readable and `to` writable for a row, and they do not overlap.
    unsafe fn copy(self, from: *const u8, to: *mut u8);

    /// Exchanges two rows.
    ///
    /// # Safety
    /// Both are readable and writable for a row, and they do not overlap.
    unsafe fn swap(self, one: *mut u8, other: *mut u8);
}

/// A width that the compiler knows: an element.
#[derive(Clone, Copy)]
pub(super) struct Element<const WIDTH: usize>;

impl<const WIDTH: usize> Width for Element<WIDTH> {
    #[inline(always)]
    unsafe fn copy(self, from: *const u8, to: *mut u8) {
        // SAFETY: the caller's; arrays of bytes need no alignment.
        unsafe { *to.cast::<[u8; WIDTH]>() = *from.cast::<[u8; WIDTH]>() };
    }

    #[inline(always)]
    unsafe fn swap(self, one: *mut u8, other: *mut u8) {
        // SAFETY: the caller's; arrays of bytes need no alignment.
        unsafe { std::ptr::swap(one.cast::<[u8; WIDTH]>(), other.cast::<[u8; WIDTH]>()) };
    }
}

/// Any number of bytes.
#[derive(Clone, Copy)]
pub(super) struct Bytes(pub(super) usize);

impl Width for Bytes {
    #[inline(always)]
    unsafe fn copy(self, from: *const u8, to: *mut u8) {
        // SAFETY: the caller's.
        unsafe { copy_bytes(from, to, self.0) };
    }

    #[inline(always)]
    unsafe fn swap(self, one: *mut u8, other: *mut u8) {
        const CHUNK: usize = 64;
        for at in (0..self.0).step_by(CHUNK) {
            let bytes = CHUNK.min(self.0 - at);
            let mut kept = [0; CHUNK];
            // SAFETY: the caller's; every chunk lies inside the rows.
            unsafe {
                let (one, other) = (one.add(at), other.add(at));
                copy_bytes(one, kept.as_mut_ptr(), bytes);
                copy_bytes(other, one, bytes);
                copy_bytes(kept.as_ptr(), other, bytes);
            }
        }
    }
}
