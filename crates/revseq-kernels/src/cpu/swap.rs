//! Runs that change places where they lie, through registers.

use super::simd::bytes::copy_bytes;
use super::simd::{LANE, Lane, Vector, sub_lane};
use super::write::{Both, Source};

/// Exchanges two runs of elements of `W` bytes, each in reverse order if `REVERSED`.
///
/// # Safety
/// See [`Vector`]; both are readable and writable for `bytes`, whole elements, and do not overlap.
#[inline(always)]
pub(crate) unsafe fn exchange<V: Vector, const W: usize, const REVERSED: bool>(
    one: *mut u8,
    other: *mut u8,
    bytes: usize,
) {
    /// By vectors, the last one over the end of the one before it.
    ///
    /// # Safety
    /// As [`exchange`]; `bytes` is at least a vector.
    #[inline(always)]
    unsafe fn vectors<V: Vector, const W: usize, const REVERSED: bool>(
        one: *mut u8,
        other: *mut u8,
        bytes: usize,
    ) {
        let last = bytes - V::BYTES;
        // What changes places with the vector at `at` of the first run.
        let mirror = |at: usize| match REVERSED {
            true => other.wrapping_add(last - at),
            false => other.wrapping_add(at),
        };
        // SAFETY: every vector ends within the bytes. The last ones are read before what they lie
        // over is written.
        unsafe {
            let ends = (
                load::<V, W, REVERSED>(one.add(last)),
                load::<V, W, REVERSED>(mirror(last)),
            );
            let mut at = 0;
            while at < last {
                swap_vectors::<V, W, REVERSED>(one.add(at), mirror(at));
                at += V::BYTES;
            }
            ends.1.store(one.add(last));
            ends.0.store(mirror(last));
        }
    }
    // SAFETY: both runs are valid for `bytes`, which are at least as wide as each branch needs.
    unsafe {
        if bytes >= V::BYTES {
            vectors::<V, W, REVERSED>(one, other, bytes);
        } else if bytes >= V::Half::BYTES {
            vectors::<V::Half, W, REVERSED>(one, other, bytes);
        } else if bytes >= LANE {
            vectors::<Lane<V>, W, REVERSED>(one, other, bytes);
        } else if REVERSED {
            for at in (0..bytes).step_by(W) {
                swap_rows::<W>(one.add(at), other.add(bytes - W - at), W);
            }
        } else {
            swap_rows::<0>(one, other, bytes);
        }
    }
}

/// Reverses the elements of `W` bytes of a run where it lies.
///
/// # Safety
/// See [`Vector`]; the run is readable and writable for `bytes`, whole elements.
#[inline(always)]
pub(crate) unsafe fn reverse_in_place<V: Vector, const W: usize>(run: *mut u8, bytes: usize) {
    /// By vectors from both ends.
    ///
    /// # Safety
    /// As [`reverse_in_place`]; `bytes` is at least a vector.
    #[inline(always)]
    unsafe fn vectors<V: Vector, const W: usize>(run: *mut u8, bytes: usize) {
        let (mut start, mut end) = (0, bytes);
        // SAFETY: every vector lies between start and end, but the last one: on both sides of what
        // is left of several there is a vector of the run.
        unsafe {
            while end - start >= 2 * V::BYTES {
                end -= V::BYTES;
                swap_vectors::<V, W, true>(run.add(start), run.add(end));
                start += V::BYTES;
            }
            let left = end - start;
            if left >= V::BYTES {
                // They overlap in the middle, where both write the same.
                swap_vectors::<V, W, true>(run.add(start), run.add(end - V::BYTES));
            } else if left > W {
                let middle = run.add(start);
                let prefix = left;
                Both::<W> {
                    line: middle,
                    prefix,
                }
                .vector::<V>(0)
                .store(middle);
            }
        }
    }
    // SAFETY: the run is valid for `bytes`, which are at least as wide as each branch needs.
    unsafe {
        if bytes >= V::BYTES {
            vectors::<V, W>(run, bytes);
        } else if bytes >= V::Half::BYTES {
            vectors::<V::Half, W>(run, bytes);
        } else if bytes >= LANE {
            vectors::<Lane<V>, W>(run, bytes);
        } else if bytes > W {
            let value = sub_lane::load(run, bytes);
            sub_lane::store(sub_lane::prefix_reversed::<W>(value, bytes / W), run, bytes);
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

/// Exchanges two vectors; of two that overlap the second overwrites the first.
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
        let first = load::<V, W, REVERSED>(one);
        let last = load::<V, W, REVERSED>(other);
        last.store(one);
        first.store(other);
    }
}

/// Exchanges two rows of `W` bytes, or of `row` bytes if `W` is 0, without vectors.
///
/// # Safety
/// Both are readable and writable for a row, and do not overlap.
#[inline(always)]
pub(crate) unsafe fn swap_rows<const W: usize>(one: *mut u8, other: *mut u8, row: usize) {
    const CHUNK: usize = 64;
    if W > 0 {
        // SAFETY: both are valid for a row; arrays of bytes need no alignment.
        return unsafe { std::ptr::swap(one.cast::<[u8; W]>(), other.cast::<[u8; W]>()) };
    }
    for at in (0..row).step_by(CHUNK) {
        let bytes = CHUNK.min(row - at);
        let mut kept = [0; CHUNK];
        // SAFETY: every chunk lies inside the rows, which do not overlap.
        unsafe {
            let (one, other) = (one.add(at), other.add(at));
            copy_bytes(one, kept.as_mut_ptr(), bytes);
            copy_bytes(other, one, bytes);
            copy_bytes(kept.as_ptr(), other, bytes);
        }
    }
}
