//! Bytes that change places where they lie, through registers.

use super::simd::{LANE, Lane, Vector, few};
use super::write::{Both, Source};

/// Swaps two sequences of elements of `W` bytes, each in reverse order if `REVERSED`.
///
/// # Safety
/// See [`Vector`]; both are readable and writable for `bytes`, whole elements, and do not overlap.
#[inline(always)]
pub(crate) unsafe fn swap<V: Vector, const W: usize, const REVERSED: bool>(
    one: *mut u8,
    other: *mut u8,
    bytes: usize,
) {
    /// Swaps by vectors, of which the last one overlaps the one before it.
    ///
    /// # Safety
    /// As [`swap`]; `bytes` is at least a vector.
    #[inline(always)]
    unsafe fn vectors<V: Vector, const W: usize, const REVERSED: bool>(
        one: *mut u8,
        other: *mut u8,
        bytes: usize,
    ) {
        let last = bytes - V::BYTES;
        // The place that the vector at `at` of the first is swapped with.
        let mirror = |at: usize| match REVERSED {
            true => other.wrapping_add(last - at),
            false => other.wrapping_add(at),
        };
        // SAFETY: every vector ends within the bytes. The last ones are read before the bytes
        // that they overlap are written.
        unsafe {
            let ends = (
                load::<V, W, REVERSED>(one.add(last)),
                load::<V, W, REVERSED>(mirror(last)),
            );
            for at in (0..last).step_by(V::BYTES) {
                swap_vectors::<V, W, REVERSED>(one.add(at), mirror(at));
            }
            ends.1.store(one.add(last));
            ends.0.store(mirror(last));
        }
    }
    // SAFETY: both are valid for `bytes`, which are at least as wide as each branch needs.
    unsafe {
        if bytes >= V::BYTES {
            vectors::<V, W, REVERSED>(one, other, bytes);
        } else if bytes >= V::Half::BYTES {
            vectors::<V::Half, W, REVERSED>(one, other, bytes);
        } else if bytes >= LANE {
            vectors::<Lane<V>, W, REVERSED>(one, other, bytes);
        } else {
            let turned = |from: *const u8| match few::load(from, bytes) {
                value if REVERSED => few::reverse_prefix::<W>(value, bytes / W),
                value => value,
            };
            let (first, last) = (turned(one), turned(other));
            few::store(last, one, bytes);
            few::store(first, other, bytes);
        }
    }
}

/// Reverses the elements of `W` bytes of a line where it lies.
///
/// # Safety
/// See [`Vector`]; the line is readable and writable for `bytes`, whole elements.
#[inline(always)]
pub(crate) unsafe fn reverse<V: Vector, const W: usize>(line: *mut u8, bytes: usize) {
    /// Reverses by vectors from both ends.
    ///
    /// # Safety
    /// As [`reverse`]; `bytes` is at least a vector.
    #[inline(always)]
    unsafe fn vectors<V: Vector, const W: usize>(line: *mut u8, bytes: usize) {
        let (mut start, mut end) = (0, bytes);
        // SAFETY: every vector lies between start and end, but the last one: on both sides of the
        // rest of several there is a vector of the line.
        unsafe {
            while end - start >= 2 * V::BYTES {
                end -= V::BYTES;
                swap_vectors::<V, W, true>(line.add(start), line.add(end));
                start += V::BYTES;
            }
            let (left, middle) = (end - start, line.add(start));
            if left >= V::BYTES {
                // They overlap in the middle, where both write the same.
                swap_vectors::<V, W, true>(middle, line.add(end - V::BYTES));
            } else if left > W {
                Both::<W>::new(middle, left / W)
                    .vector::<V>(0)
                    .store(middle);
            }
        }
    }
    // SAFETY: the line is valid for `bytes`, which are at least as wide as each branch needs.
    unsafe {
        if bytes >= V::BYTES {
            vectors::<V, W>(line, bytes);
        } else if bytes >= V::Half::BYTES {
            vectors::<V::Half, W>(line, bytes);
        } else if bytes >= LANE {
            vectors::<Lane<V>, W>(line, bytes);
        } else if bytes > W {
            let value = few::load(line, bytes);
            few::store(few::reverse_prefix::<W>(value, bytes / W), line, bytes);
        }
    }
}

/// Loads a vector, in reverse order if `REVERSED`.
///
/// # Safety
/// As [`Vector::load`].
#[inline(always)]
unsafe fn load<V: Vector, const W: usize, const REVERSED: bool>(from: *const u8) -> V {
    // SAFETY: `from` is readable for a vector.
    unsafe {
        match REVERSED {
            true => V::load(from).reversed::<W>(),
            false => V::load(from),
        }
    }
}

/// Swaps two vectors; of two that overlap the second overwrites the first.
///
/// # Safety
/// Both are readable and writable.
#[inline(always)]
unsafe fn swap_vectors<V: Vector, const W: usize, const REVERSED: bool>(
    one: *mut u8,
    other: *mut u8,
) {
    // SAFETY: both are readable and writable for a vector.
    unsafe {
        let (first, last) = (load::<V, W, REVERSED>(one), load::<V, W, REVERSED>(other));
        last.store(one);
        first.store(other);
    }
}
