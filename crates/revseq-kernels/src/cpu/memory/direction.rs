//! The two ways to move a run of packed elements: as it is, and reversed.

use crate::cpu::memory::width::{Bytes, Element, Width};
use crate::cpu::simd::bytes::copy_partial;
use crate::cpu::simd::{LANE, V128, Vector};

/// In which order the elements of a run are copied.
pub(crate) trait Direction {
    /// Whether the last element comes first.
    const REVERSES: bool;

    /// The bytes of an element; 1 where the order stays.
    const ELEMENT: usize;

    /// The vector that is written `at` bytes after the start of `bytes` bytes.
    ///
    /// # Safety
    /// See [`Vector`]; `from` is readable for `bytes`, in which the vector ends,
    /// and all three are whole elements.
    unsafe fn load<V: Vector>(from: *const u8, bytes: usize, at: usize) -> V;

    /// Copies less than a lane.
    ///
    /// # Safety
    /// As for [`copy_inline`].
    unsafe fn copy_partial(from: *const u8, to: *mut u8, bytes: usize);

    /// Exchanges less than a lane with as much.
    ///
    /// # Safety
    /// As for [`copy_partial`](Self::copy_partial), and both are writable.
    unsafe fn swap_partial(one: *mut u8, other: *mut u8, bytes: usize);

    /// Puts the elements of a run in this order.
    ///
    /// # Safety
    /// It is readable and writable for `bytes`, which are whole elements.
    unsafe fn reverse_in_place<V: Vector>(run: *mut u8, bytes: usize);

    /// Where the run starts that is written `at` bytes after the start of `bytes` bytes.
    #[inline(always)]
    fn part(at: usize, part: usize, bytes: usize) -> usize {
        if Self::REVERSES {
            bytes - at - part
        } else {
            at
        }
    }
}

/// As they are.
pub(crate) struct Forward;

/// Elements of `W` bytes from the last to the first.
pub(crate) struct Backward<const W: usize>;

impl Direction for Forward {
    const REVERSES: bool = false;
    const ELEMENT: usize = 1;

    #[inline(always)]
    unsafe fn load<V: Vector>(from: *const u8, _: usize, at: usize) -> V {
        // SAFETY: the vector ends within the bytes from `from` on.
        unsafe { V::load(from.add(at)) }
    }

    #[inline(always)]
    unsafe fn copy_partial(from: *const u8, to: *mut u8, bytes: usize) {
        // SAFETY: both are valid for `bytes`, less than a lane.
        unsafe { copy_partial(from, to, bytes) };
    }

    #[inline(always)]
    unsafe fn swap_partial(one: *mut u8, other: *mut u8, bytes: usize) {
        // SAFETY: both are valid for `bytes`, and do not overlap.
        unsafe { Bytes(bytes).swap(one, other) };
    }

    #[inline(always)]
    unsafe fn reverse_in_place<V: Vector>(_: *mut u8, _: usize) {}
}

impl<const W: usize> Direction for Backward<W> {
    const REVERSES: bool = true;
    const ELEMENT: usize = W;

    #[inline(always)]
    unsafe fn load<V: Vector>(from: *const u8, bytes: usize, at: usize) -> V {
        // SAFETY: the vector lies in the bytes from `from` on, as far from their end as `at` from
        // the start.
        unsafe { V::load(from.add(bytes - at - V::BYTES)).reversed::<W>() }
    }

    #[inline(always)]
    unsafe fn copy_partial(from: *const u8, to: *mut u8, bytes: usize) {
        for at in (0..bytes).step_by(W) {
            // SAFETY: every element lies in the bytes, on both sides.
            unsafe { Element::<W>.copy(from.add(bytes - W - at), to.add(at)) };
        }
    }

    #[inline(always)]
    unsafe fn swap_partial(one: *mut u8, other: *mut u8, bytes: usize) {
        for at in (0..bytes).step_by(W) {
            // SAFETY: every element lies in the bytes, on both sides; the two runs do not overlap.
            unsafe { Element::<W>.swap(one.add(at), other.add(bytes - W - at)) };
        }
    }

    #[inline(always)]
    unsafe fn reverse_in_place<V: Vector>(run: *mut u8, bytes: usize) {
        let (mut start, mut end) = (0, bytes);
        // SAFETY: every vector lies between start and end.
        unsafe {
            while end - start >= 2 * V::BYTES {
                end -= V::BYTES;
                swap_vectors::<V, Self>(run.add(start), run.add(end));
                start += V::BYTES;
            }
            if end - start >= V::BYTES {
                // They overlap in the middle, where both write the same.
                swap_vectors::<V, Self>(run.add(start), run.add(end - V::BYTES));
            } else {
                V::reverse_part::<W>(run.add(start), end - start);
            }
        }
    }
}

/// Exchanges two vectors, each in the order of `D`; of two that overlap the second
/// overwrites the first.
///
/// # Safety
/// Both are readable and writable.
#[inline(always)]
pub(crate) unsafe fn swap_vectors<V: Vector, D: Direction>(one: *mut u8, other: *mut u8) {
    // SAFETY: both are readable and writable for a vector.
    unsafe {
        let first = D::load::<V>(one, V::BYTES, 0);
        let last = D::load::<V>(other, V::BYTES, 0);
        last.store(one);
        first.store(other);
    }
}

/// Copies a run between places that do not overlap, without a call.
///
/// # Safety
/// See [`Vector`]; `from` is readable and `to` writable for `bytes`, which are
/// whole elements, and they do not overlap.
#[inline(always)]
pub(crate) unsafe fn copy_inline<V: Vector, D: Direction>(
    from: *const u8,
    to: *mut u8,
    bytes: usize,
) {
    /// Copies vectors, the last one over the end of the one before it.
    ///
    /// # Safety
    /// As [`copy_inline`]; `bytes` is at least a vector.
    #[inline(always)]
    unsafe fn vectors<V: Vector, D: Direction>(from: *const u8, to: *mut u8, bytes: usize) {
        let last = bytes - V::BYTES;
        let mut at = 0;
        // SAFETY: every vector ends within `bytes`.
        unsafe {
            while at < last {
                D::load::<V>(from, bytes, at).store(to.add(at));
                at += V::BYTES;
            }
            D::load::<V>(from, bytes, last).store(to.add(last));
        }
    }
    /// Copies two vectors, of which the second may lie over the first.
    ///
    /// # Safety
    /// As [`copy_inline`]; `bytes` is one vector to two.
    #[inline(always)]
    unsafe fn two<V: Vector, D: Direction>(from: *const u8, to: *mut u8, bytes: usize) {
        // SAFETY: both end within `bytes`.
        unsafe {
            let last = bytes - V::BYTES;
            let vectors = (
                D::load::<V>(from, bytes, 0),
                D::load::<V>(from, bytes, last),
            );
            vectors.0.store(to);
            vectors.1.store(to.add(last));
        }
    }
    // SAFETY: both are valid for `bytes`, which are at least as wide as each branch needs.
    unsafe {
        if bytes >= V::BYTES {
            vectors::<V, D>(from, to, bytes);
        } else if bytes >= V::Half::BYTES {
            two::<V::Half, D>(from, to, bytes);
        } else if bytes >= LANE {
            two::<V128, D>(from, to, bytes);
        } else {
            D::copy_partial(from, to, bytes);
        }
    }
}
