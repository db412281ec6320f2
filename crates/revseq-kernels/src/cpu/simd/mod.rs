//! The instruction sets: all that kernels ask of one is the trait [`Vector`], which a file
//! here implements for each.

pub(crate) mod bytes;
pub(crate) mod level;
#[cfg(target_arch = "aarch64")]
mod neon;
// Tested everywhere, used where there is nothing better.
#[cfg(any(test, not(target_arch = "x86_64")))]
mod portable;
pub(crate) mod sub_vector;
#[cfg(test)]
mod tests;
#[cfg(target_arch = "x86_64")]
mod x86;

use bytes::copy_bytes;
#[cfg(target_arch = "aarch64")]
pub(crate) use neon::V128;
#[cfg(not(target_arch = "x86_64"))]
pub(crate) use portable::V128 as Portable;
#[cfg(not(any(target_arch = "aarch64", target_arch = "x86_64")))]
pub(crate) use portable::V128;
#[cfg(target_arch = "x86_64")]
pub(crate) use x86::{V128 as Portable, V128, V256, V512};

/// The bytes of a lane, inside which [`Vector::zip`] works.
pub(crate) const LANE: usize = 16;

/// The bytes of the widest vector.
pub(crate) const WIDEST: usize = 64;

/// A vector register of bytes, which are elements of `W` bytes: 1, 2, 4, 8 or 16.
///
/// Every method but [`run_outlined`](Self::run_outlined) is inlined and has to end up in a function
/// with the vector's instructions; that is the safety condition of all of them, beside what each
/// says.
pub(crate) trait Vector: Copy {
    /// The bytes of a vector: one or more lanes.
    const BYTES: usize;

    /// A vector of half the bytes, or the same if it is one lane.
    type Half: Vector;

    /// Does a task in a function of its own, compiled with the vector's instructions.
    ///
    /// # Safety
    /// The CPU has them, and the task's condition holds.
    unsafe fn run_outlined<T: SimdTask>(task: T);

    /// Loads from anywhere.
    ///
    /// # Safety
    /// `from` is readable for a vector.
    unsafe fn load(from: *const u8) -> Self;

    /// Stores to anywhere.
    ///
    /// # Safety
    /// `to` is writable for a vector.
    unsafe fn store(self, to: *mut u8);

    /// Stores past the caches, where the target can.
    ///
    /// # Safety
    /// `to` is writable for a vector and a multiple of its bytes.
    unsafe fn stream(self, to: *mut u8);

    /// As [`stream`](Self::stream), lane by lane if that is not a multiple of the
    /// vector's bytes.
    ///
    /// # Safety
    /// `to` is writable for a vector and a multiple of a lane.
    #[inline(always)]
    unsafe fn stream_lanes(self, to: *mut u8) {
        const { assert!(Self::BYTES == LANE, "a vector of one lane") };
        // SAFETY: `to` is writable for a vector, and a multiple of its one lane.
        unsafe { self.stream(to) };
    }

    /// As [`stream_lanes`](Self::stream_lanes), of the last `bytes` bytes alone, or of
    /// all if those are more than a vector's.
    ///
    /// # Safety
    /// As there; `bytes` are whole lanes, one at least.
    #[inline(always)]
    unsafe fn stream_last_lanes(self, to: *mut u8, _bytes: usize) {
        // SAFETY: `to` is writable for a vector and a multiple of a lane; the last lane of one is
        // all of it.
        unsafe { self.stream_lanes(to) };
    }

    /// The elements in reverse order.
    ///
    /// # Safety
    /// See the trait.
    unsafe fn reversed<const W: usize>(self) -> Self;

    /// The bytes whose mask is all ones; the others, whose mask is 0, from another vector.
    ///
    /// # Safety
    /// See the trait.
    unsafe fn blend(self, other: Self, mask: Self) -> Self;

    /// Loads a [`prefix_mask`].
    ///
    /// # Safety
    /// As [`load`](Self::load).
    #[inline(always)]
    unsafe fn load_mask(from: *const u8) -> Self {
        // SAFETY: `from` is readable for a vector.
        unsafe { Self::load(from) }
    }

    /// Whether [`store_prefix`](Self::store_prefix) leaves the other bytes alone.
    const MASKS: bool = false;

    /// Stores, of a vector that is `at` bytes after the start of a line, what lies in the line's
    /// prefix of `prefix` bytes: one element of `W` bytes at least, `MOST` bytes at most.
    ///
    /// # Safety
    /// `to` is readable and writable for a vector, which ends in the first `MOST` bytes of the
    /// line.
    #[inline(always)]
    unsafe fn store_prefix<const W: usize, const MOST: usize>(
        self,
        to: *mut u8,
        at: usize,
        prefix: usize,
    ) {
        // SAFETY: `to` is valid for a vector, and so is the mask.
        unsafe {
            let mask = Self::load_mask(prefix_mask(prefix.saturating_sub(at)));
            self.blend(Self::load(to), mask).store(to);
        }
    }

    /// Interleaves elements in each lane: first those of the lanes' lower
    /// halves, then those of the upper ones. `W` is less than a lane.
    ///
    /// # Safety
    /// See the trait.
    unsafe fn zip<const W: usize>(self, other: Self) -> (Self, Self);

    /// Whether [`shuffle`](Self::shuffle) is worth it.
    const SHUFFLES: bool;

    /// The bytes in another order: of each the index is in `order`, less than a vector.
    ///
    /// # Safety
    /// See the trait.
    unsafe fn shuffle(self, order: Self) -> Self {
        let (mut bytes, mut indices) = ([0_u8; WIDEST], [0_u8; WIDEST]);
        // SAFETY: both arrays have room for a vector, as none is wider than the widest.
        unsafe {
            self.store(bytes.as_mut_ptr());
            order.store(indices.as_mut_ptr());
            let shuffle = indices.map(|index| bytes[usize::from(index) % WIDEST]);
            Self::load(shuffle.as_ptr())
        }
    }

    /// Loads each lane from a place of its own, `pitch` bytes after the one before.
    ///
    /// # Safety
    /// Every place is readable for a lane.
    #[inline(always)]
    unsafe fn load_lanes(from: *const u8, _pitch: usize) -> Self {
        const { assert!(Self::BYTES == LANE, "a vector of one lane") };
        // SAFETY: `from` is readable for the one lane.
        unsafe { Self::load(from) }
    }

    /// Stores each lane to a place of its own, `pitch` bytes after the one before.
    ///
    /// # Safety
    /// Every place is writable for a lane.
    #[inline(always)]
    unsafe fn store_lanes(self, to: *mut u8, _pitch: usize) {
        const { assert!(Self::BYTES == LANE, "a vector of one lane") };
        // SAFETY: `to` is writable for the one lane.
        unsafe { self.store(to) };
    }

    /// Reverses less than a vector of elements where they lie.
    ///
    /// # Safety
    /// `at` is readable and writable for `bytes`, a number of whole elements
    /// and less than a vector.
    #[inline(always)]
    unsafe fn reverse_part<const W: usize>(at: *mut u8, bytes: usize) {
        let mut part = [0_u8; WIDEST];
        let part = part.as_mut_ptr();
        // SAFETY: `at` is valid for `bytes`, and the array has room for a vector.
        unsafe {
            copy_bytes(at, part, bytes);
            Self::load(part).reversed::<W>().store(part);
            copy_bytes(part.add(Self::BYTES - bytes), at, bytes);
        }
    }

    /// Loads the first `bytes` bytes, less than a lane, into a vector of one.
    ///
    /// # Safety
    /// `from` is readable for them, and the vector is one lane.
    #[inline(always)]
    unsafe fn load_partial(from: *const u8, bytes: usize) -> Self {
        debug_assert_eq!(Self::BYTES, LANE);
        // SAFETY: `from` is readable for `bytes`; the array is a lane, as the vector is.
        unsafe {
            let value = sub_vector::load(from, bytes);
            Self::load(value.to_le_bytes().as_ptr())
        }
    }

    /// Stores the first `bytes` bytes only, less than a lane, of a vector of one.
    ///
    /// # Safety
    /// `to` is writable for them, and the vector is one lane.
    #[inline(always)]
    unsafe fn store_partial(self, to: *mut u8, bytes: usize) {
        debug_assert_eq!(Self::BYTES, LANE);
        let mut value = [0_u8; LANE];
        // SAFETY: `to` is writable for `bytes`; the array is a lane, as the vector is.
        unsafe {
            self.store(value.as_mut_ptr());
            sub_vector::store(u128::from_le_bytes(value), to, bytes);
        }
    }
}

/// A mask of the first `bytes` bytes of a vector, all if they are more than it has.
#[inline(always)]
pub(crate) fn prefix_mask(bytes: usize) -> *const u8 {
    /// Aligned, as a load from two cache lines takes twice as long. [M13]
    #[repr(align(64))]
    struct Masks([[u8; WIDEST]; WIDEST + 1]);
    static MASKS: Masks = Masks({
        let mut masks = [[0; WIDEST]; WIDEST + 1];
        let mut prefix = 1;
        while prefix <= WIDEST {
            masks[prefix] = masks[prefix - 1];
            masks[prefix][prefix - 1] = 0xff;
            prefix += 1;
        }
        masks
    });
    MASKS
        .0
        .as_ptr()
        .cast::<u8>()
        .wrapping_add(WIDEST * bytes.min(WIDEST))
}

/// What a function of its own does: its loops then have all registers.
pub(crate) trait SimdTask {
    /// Does it. Always inlined, so that it gets the vector's instructions; a
    /// closure in it would not.
    ///
    /// # Safety
    /// See [`Vector`], and what the task says.
    unsafe fn run<V: Vector>(self);
}

/// Calls a function that is not to become part of its caller.
///
/// The compiler heeds `#[inline(never)]` only in functions without target features.
///
/// # Safety
/// As the function's.
#[inline(always)]
unsafe fn call_outlined<V: Vector, T: SimdTask>(run: unsafe fn(T), task: T) {
    #[cfg(test)]
    crate::cpu::tests::forced::reached::<V, T>();
    // SAFETY: the task's condition holds, and the CPU has the instructions of `run`.
    unsafe { std::hint::black_box(run)(task) };
}

/// Does a task by the widest vectors that `bytes` bytes fill, or by single lanes.
///
/// # Safety
/// As [`Vector::run_outlined`].
#[inline(always)]
pub(crate) unsafe fn run_outlined_by_width<V: Vector, T: SimdTask>(task: T, bytes: usize) {
    // SAFETY: the CPU has the instructions of V, and so those of narrower vectors.
    unsafe {
        if bytes >= V::BYTES {
            V::run_outlined(task);
        } else if bytes >= V::Half::BYTES {
            V::Half::run_outlined(task);
        } else {
            V128::run_outlined(task);
        }
    }
}

/// Transposes `R` rows of `R` elements in each lane: afterwards the vector of
/// index `i` holds the elements that had index `i` in their lanes.
///
/// # Safety
/// See [`Vector`]; `R` elements of `W` bytes are a lane.
#[inline(always)]
pub(crate) unsafe fn transpose<V: Vector, const W: usize, const R: usize>(
    mut rows: [V; R],
) -> [V; R] {
    // Interleaving the first half of the rows with the second moves one bit of
    // the row's index into the element's index.
    for _ in 0..R.ilog2() {
        let from = rows;
        for pair in 0..R / 2 {
            // SAFETY: the function that this is inlined into has the vector's instructions.
            (rows[2 * pair], rows[2 * pair + 1]) =
                unsafe { from[pair].zip::<W>(from[pair + R / 2]) };
        }
    }
    rows
}

/// Orders non-temporal stores before what follows: other threads read the output.
#[inline(always)]
pub(crate) fn fence() {
    #[cfg(all(target_arch = "x86_64", not(revseq_sanitize)))]
    // SAFETY: SSE is part of x86-64.
    unsafe {
        std::arch::x86_64::_mm_sfence();
    }
}
