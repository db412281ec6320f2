//! Moving one row of bytes, by its width.

/// How a row moves. Addresses need no alignment.
pub(crate) trait Row: Copy + Send + Sync {
    /// The bytes of a row.
    fn bytes(self) -> usize;

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

    /// Copies `count` packed rows in reverse order.
    ///
    /// # Safety
    /// `from` is readable and `to` writable for `count` rows, and they do not overlap.
    #[inline(always)]
    unsafe fn copy_reversed(self, from: *const u8, to: *mut u8, count: usize) {
        let bytes = self.bytes();
        for index in 0..count {
            // SAFETY: `index` and its mirror image are both less than `count`.
            unsafe { self.copy(from.add((count - 1 - index) * bytes), to.add(index * bytes)) };
        }
    }
}

/// A row of a width that the compiler knows: an element.
#[derive(Clone, Copy)]
pub(crate) struct Element<const WIDTH: usize>;

impl<const WIDTH: usize> Row for Element<WIDTH> {
    #[inline(always)]
    fn bytes(self) -> usize {
        WIDTH
    }

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

/// A row of any number of bytes.
#[derive(Clone, Copy)]
pub(crate) struct Bytes(pub(crate) usize);

impl Row for Bytes {
    #[inline(always)]
    fn bytes(self) -> usize {
        self.0
    }

    #[inline(always)]
    unsafe fn copy(self, from: *const u8, to: *mut u8) {
        // SAFETY: the caller's.
        unsafe { std::ptr::copy_nonoverlapping(from, to, self.0) };
    }

    #[inline(always)]
    unsafe fn swap(self, one: *mut u8, other: *mut u8) {
        // SAFETY: the caller's.
        unsafe { std::ptr::swap_nonoverlapping(one, other, self.0) };
    }
}
