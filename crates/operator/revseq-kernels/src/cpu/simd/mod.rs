//! The instruction sets: kernels use each through the trait [`Vector`].

pub(crate) mod few;
#[cfg(target_arch = "aarch64")]
mod neon;
// Tested everywhere, used where there is nothing better.
#[cfg(any(test, not(target_arch = "x86_64")))]
mod portable;
#[cfg(test)]
mod tests;
#[cfg(target_arch = "x86_64")]
mod x86;

#[cfg(not(target_arch = "x86_64"))]
pub(crate) use portable::V128 as Portable;
#[cfg(target_arch = "x86_64")]
pub(crate) use x86::V128 as Portable;

use crate::simd_level::SimdLevel;

/// The bytes of a lane, inside which [`Vector::zip`] works.
pub(crate) const LANE: usize = 16;

/// The bytes of the widest vector.
pub(crate) const WIDEST: usize = 64;

/// A vector register of bytes, which are elements of `W` bytes: 1, 2, 4, 8 or 16.
///
/// Every method is inlined and has to end up in a function with the vector's instructions, as
/// [`run_at`] calls; that is the safety condition of all of them, beside those that each states.
pub(crate) trait Vector: Copy {
    /// The bytes of a vector: one or more lanes.
    const BYTES: usize;

    /// A vector of half the bytes, or the same if it is one lane. The half of a half is one.
    type Half: Vector;

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

    /// Stores past the caches, where the target can and gains by it.
    ///
    /// # Safety
    /// `to` is writable for a vector and a multiple of its bytes.
    #[inline(always)]
    unsafe fn stream(self, to: *mut u8) {
        // SAFETY: the caller's.
        unsafe { self.store(to) };
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

    /// Whether [`store_prefix`](Self::store_prefix) leaves the other bytes alone.
    const MASKS: bool = false;

    /// Stores the part of a vector, `at` bytes after the start of a line, that lies in the line's
    /// prefix of `prefix` bytes: one element of `W` bytes at least, `MOST` bytes at most. Without
    /// [`MASKS`](Self::MASKS) it stores all of the vector, which must then hold the line's bytes.
    ///
    /// # Safety
    /// `to` is writable for a vector, which ends in the first `MOST` bytes of the line.
    #[inline(always)]
    unsafe fn store_prefix<const W: usize, const MOST: usize>(
        self,
        to: *mut u8,
        _at: usize,
        _prefix: usize,
    ) {
        // SAFETY: `to` is writable for a vector.
        unsafe { self.store(to) };
    }

    /// Interleaves elements in each lane: first those of the lanes' lower
    /// halves, then those of the upper ones. `W` is less than a lane.
    ///
    /// # Safety
    /// See the trait.
    unsafe fn zip<const W: usize>(self, other: Self) -> (Self, Self);

    /// Whether there is [`shuffle`](Self::shuffle).
    const SHUFFLES: bool = false;

    /// The bytes in another order: of each the index is in `order`, less than a vector. Without
    /// [`SHUFFLES`](Self::SHUFFLES) as they are.
    ///
    /// # Safety
    /// See the trait.
    #[inline(always)]
    unsafe fn shuffle(self, _order: Self) -> Self {
        self
    }

    /// Loads the lanes from places that are `pitch` bytes apart.
    ///
    /// # Safety
    /// Every place is readable for a lane.
    #[inline(always)]
    unsafe fn load_lanes(from: *const u8, _pitch: usize) -> Self {
        const { assert!(Self::BYTES == LANE, "a vector of one lane") };
        // SAFETY: `from` is readable for the one lane.
        unsafe { Self::load(from) }
    }

    /// Stores the lanes to places that are `pitch` bytes apart.
    ///
    /// # Safety
    /// Every place is writable for a lane.
    #[inline(always)]
    unsafe fn store_lanes(self, to: *mut u8, _pitch: usize) {
        const { assert!(Self::BYTES == LANE, "a vector of one lane") };
        // SAFETY: `to` is writable for the one lane.
        unsafe { self.store(to) };
    }
}

/// One lane of a vector.
pub(crate) type Lane<V> = <<V as Vector>::Half as Vector>::Half;

/// A mask of the first `bytes` bytes of a vector, all if they are more than it has.
#[inline(always)]
pub(crate) fn prefix_mask(bytes: usize) -> *const u8 {
    /// The masks, aligned, as a load from two cache lines takes twice as long. [M13]
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

/// A loop that is compiled as a separate function for every instruction set.
pub(crate) trait SimdTask {
    /// Does the task. Always inlined, so that it gets the vector's instructions; a closure that the
    /// compiler does not inline lacks them.
    ///
    /// # Safety
    /// See [`Vector`], and the task's conditions.
    unsafe fn run<V: Vector>(self);
}

/// Does a task by the instructions of a level.
///
/// # Safety
/// The CPU has them, and the task's condition holds.
#[inline(always)]
pub(crate) unsafe fn run_at<T: SimdTask>(level: SimdLevel, task: T) {
    /// # Safety
    /// The task's condition holds.
    #[inline(never)]
    unsafe fn portable<T: SimdTask>(task: T) {
        // SAFETY: the task's condition holds.
        unsafe { task.run::<Portable>() }
    }
    #[cfg(test)]
    if crate::cpu::tests::work::is_counting() {
        // SAFETY: the task's condition holds; a counting vector needs no special instructions.
        return unsafe { task.run::<crate::cpu::tests::work::Counted>() };
    }
    // SAFETY: the CPU has the instructions of the level, which are the vector's.
    unsafe {
        match level {
            #[cfg(target_arch = "x86_64")]
            SimdLevel::Avx2 => x86::run_avx2(task),
            #[cfg(target_arch = "x86_64")]
            SimdLevel::Avx512 => x86::run_avx512(task),
            #[cfg(target_arch = "aarch64")]
            SimdLevel::Neon => neon::run(task),
            _ => portable(task),
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

/// Orders non-temporal stores before later ones: other threads read the output.
#[inline(always)]
pub(crate) fn fence() {
    #[cfg(all(target_arch = "x86_64", not(revseq_sanitize)))]
    // SAFETY: SSE is part of x86-64.
    unsafe {
        std::arch::x86_64::_mm_sfence();
    }
}
