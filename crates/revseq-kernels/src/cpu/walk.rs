//! Element by element, by any strides: what no other kernel takes, and what is
//! too small to choose one.

use std::ops::Range;

use super::nest::Nest;
use super::vector::copy_bytes;
use crate::{Plan, SequenceLengths};

/// Moves the rows of some items from their place in `input` to their place in `output`.
///
/// # Safety
/// `input` is readable for the plan's `input_bytes`, `output` writable for its
/// `output_bytes`, and they do not overlap. `items` are items of the nest, which
/// is the plan's with all its time steps. `width` moves rows of the plan's `row_bytes`.
#[inline(always)]
pub(super) unsafe fn copy_items(
    plan: &Plan,
    nest: &Nest,
    lengths: &SequenceLengths<'_>,
    width: impl Width,
    input: *const u8,
    output: *mut u8,
    items: Range<usize>,
) {
    for (at, steps) in nest.lines(items) {
        for step in steps {
            let row = nest.row(lengths, at, step);
            // SAFETY: see `Row`.
            unsafe {
                width.copy(
                    input.add(row.input + row.source() * plan.time.input),
                    output.add(row.output + row.time * plan.time.output),
                );
            }
        }
    }
}

/// Exchanges the rows of some pairs.
///
/// # Safety
/// `data` is readable and writable for the plan's `output_bytes`, and the
/// plan's input has the output's layout. `items` are items of the nest, whose
/// time steps are the first ones of pairs. `width` moves rows of the plan's `row_bytes`.
#[inline(always)]
pub(super) unsafe fn swap_items(
    plan: &Plan,
    nest: &Nest,
    lengths: &SequenceLengths<'_>,
    width: impl Width,
    data: *mut u8,
    items: Range<usize>,
) {
    for (at, steps) in nest.lines(items) {
        for step in steps {
            let row = nest.row(lengths, at, step);
            if row.time < row.length / 2 {
                // SAFETY: see `Row`. The two time steps differ, so the rows do not overlap.
                unsafe {
                    let column = data.add(row.output);
                    width.swap(
                        column.add(row.time * plan.time.output),
                        column.add(row.source() * plan.time.output),
                    );
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
