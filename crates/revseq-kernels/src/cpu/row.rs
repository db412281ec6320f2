//! Moving rows of bytes, by their width.

use super::sink::{Sink, copy_bytes};

/// How a row moves. Addresses need no alignment.
pub(super) trait Row: Copy + Send + Sync {
    /// The bytes of a row.
    fn bytes(self) -> usize;

    /// Gives a row to a sink.
    ///
    /// # Safety
    /// `from` is readable for a row, and the sink's output has room for it.
    unsafe fn give<S: Sink>(self, from: *const u8, sink: &mut S);

    /// Gives `count` packed rows in reverse order; at most a block of bytes
    /// unless it is one row.
    ///
    /// # Safety
    /// `from` is readable for `count` rows, and the sink's output has room for them.
    unsafe fn give_reversed<S: Sink>(self, from: *const u8, sink: &mut S, count: usize);

    /// Exchanges two rows.
    ///
    /// # Safety
    /// Both are readable and writable for a row, and they do not overlap.
    unsafe fn swap(self, one: *mut u8, other: *mut u8);

    /// Exchanges `count` packed rows with as many others, the first with the last.
    ///
    /// # Safety
    /// Both are readable and writable for `count` rows, and they do not overlap.
    unsafe fn swap_reversed(self, one: *mut u8, other: *mut u8, count: usize);
}

/// A row of a width that the compiler knows: an element.
#[derive(Clone, Copy)]
pub(super) struct Element<const WIDTH: usize>;

impl<const WIDTH: usize> Row for Element<WIDTH> {
    #[inline(always)]
    fn bytes(self) -> usize {
        WIDTH
    }

    #[inline(always)]
    unsafe fn give<S: Sink>(self, from: *const u8, sink: &mut S) {
        // SAFETY: the caller's; arrays of bytes need no alignment.
        unsafe { *sink.space(WIDTH).cast::<[u8; WIDTH]>() = *from.cast::<[u8; WIDTH]>() };
    }

    #[inline(always)]
    unsafe fn give_reversed<S: Sink>(self, from: *const u8, sink: &mut S, count: usize) {
        // SAFETY: the caller's.
        unsafe { reverse::<WIDTH>(from, sink.space(count * WIDTH), count) };
    }

    #[inline(always)]
    unsafe fn swap(self, one: *mut u8, other: *mut u8) {
        // SAFETY: the caller's; arrays of bytes need no alignment.
        unsafe { std::ptr::swap(one.cast::<[u8; WIDTH]>(), other.cast::<[u8; WIDTH]>()) };
    }

    #[inline(always)]
    unsafe fn swap_reversed(self, one: *mut u8, other: *mut u8, count: usize) {
        // SAFETY: the caller's: both are `count` arrays of bytes, which need no
        // alignment, and they do not overlap.
        let (one, other) = unsafe {
            (
                std::slice::from_raw_parts_mut(one.cast::<[u8; WIDTH]>(), count),
                std::slice::from_raw_parts_mut(other.cast::<[u8; WIDTH]>(), count),
            )
        };
        for (one, other) in one.iter_mut().zip(other.iter_mut().rev()) {
            std::mem::swap(one, other);
        }
    }
}

/// Copies `count` elements in reverse order.
///
/// # Safety
/// `from` is readable and `to` writable for `count` elements, and they do not overlap.
#[inline(always)]
unsafe fn reverse<const WIDTH: usize>(from: *const u8, to: *mut u8, count: usize) {
    let (from, to) = (from.cast::<[u8; WIDTH]>(), to.cast::<[u8; WIDTH]>());
    for index in 0..count {
        // SAFETY: the caller's; arrays of bytes need no alignment, and
        // `count - 1 - index` is less than `count`.
        unsafe { *to.add(index) = *from.add(count - 1 - index) };
    }
}

/// A row of any number of bytes.
#[derive(Clone, Copy)]
pub(super) struct Bytes(pub(super) usize);

impl Row for Bytes {
    #[inline(always)]
    fn bytes(self) -> usize {
        self.0
    }

    #[inline(always)]
    unsafe fn give<S: Sink>(self, from: *const u8, sink: &mut S) {
        // SAFETY: the caller's.
        unsafe { sink.copy(from, self.0) };
    }

    #[inline(always)]
    unsafe fn give_reversed<S: Sink>(self, from: *const u8, sink: &mut S, count: usize) {
        for index in (0..count).rev() {
            // SAFETY: the caller's.
            unsafe { sink.copy(from.add(index * self.0), self.0) };
        }
    }

    #[inline(always)]
    unsafe fn swap(self, one: *mut u8, other: *mut u8) {
        const CHUNK: usize = 64;
        let mut at = 0;
        // SAFETY: the caller's; every chunk and the rest lie inside the rows.
        unsafe {
            while at + CHUNK <= self.0 {
                let (one, other) = (one.add(at), other.add(at));
                std::ptr::swap(one.cast::<[u8; CHUNK]>(), other.cast::<[u8; CHUNK]>());
                at += CHUNK;
            }
            let mut rest = [0; CHUNK];
            copy_bytes(one.add(at), rest.as_mut_ptr(), self.0 - at);
            copy_bytes(other.add(at), one.add(at), self.0 - at);
            copy_bytes(rest.as_ptr(), other.add(at), self.0 - at);
        }
    }

    #[inline(always)]
    unsafe fn swap_reversed(self, one: *mut u8, other: *mut u8, count: usize) {
        for index in 0..count {
            // SAFETY: the caller's.
            unsafe {
                self.swap(
                    one.add(index * self.0),
                    other.add((count - 1 - index) * self.0),
                );
            }
        }
    }
}
