//! Rows of a width, copied and exchanged one at a time.

use crate::cpu::simd::bytes::copy_bytes;

/// The bytes of a row. Addresses need no alignment.
pub(crate) trait Width: Copy {
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
pub(crate) struct Element<const WIDTH: usize>;

impl<const WIDTH: usize> Width for Element<WIDTH> {
    #[inline(always)]
    unsafe fn copy(self, from: *const u8, to: *mut u8) {
        // SAFETY: both are valid for a row; arrays of bytes need no alignment.
        unsafe { *to.cast::<[u8; WIDTH]>() = *from.cast::<[u8; WIDTH]>() };
    }

    #[inline(always)]
    unsafe fn swap(self, one: *mut u8, other: *mut u8) {
        // SAFETY: both are valid for a row and do not overlap; arrays of bytes need no alignment.
        unsafe { std::ptr::swap(one.cast::<[u8; WIDTH]>(), other.cast::<[u8; WIDTH]>()) };
    }
}

/// Any number of bytes.
#[derive(Clone, Copy)]
pub(crate) struct Bytes(pub(crate) usize);

impl Width for Bytes {
    #[inline(always)]
    unsafe fn copy(self, from: *const u8, to: *mut u8) {
        // SAFETY: both are valid for as many bytes, and do not overlap.
        unsafe { copy_bytes(from, to, self.0) };
    }

    #[inline(always)]
    unsafe fn swap(self, one: *mut u8, other: *mut u8) {
        const CHUNK: usize = 64;
        for at in (0..self.0).step_by(CHUNK) {
            let bytes = CHUNK.min(self.0 - at);
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
}
