//! SSE2, AVX2 and AVX-512, a file each; here is what they share.

mod avx2;
mod avx512;
mod sse2;

pub(crate) use avx2::{V256, run_avx2};
#[cfg(test)]
pub(crate) use avx512::V512;
pub(crate) use avx512::run_avx512;
pub(crate) use sse2::V128;

/// The methods that are one instruction, or two, of any set.
macro_rules! plain_methods {
    (
        $load:ident, $store:ident, $stream:ident;
        $($width:pat => $low:ident, $high:ident;)*
    ) => {
        #[inline(always)]
        unsafe fn load(from: *const u8) -> Self {
            // SAFETY: `from` is readable for a vector.
            Self(unsafe { $load(from.cast()) })
        }

        #[inline(always)]
        unsafe fn store(self, to: *mut u8) {
            // SAFETY: `to` is writable for a vector.
            unsafe { $store(to.cast(), self.0) };
        }

        #[inline(always)]
        unsafe fn stream(self, to: *mut u8) {
            // SAFETY: `to` is writable for a vector and a multiple of its bytes.
            unsafe {
                // Sanitizers do not see what these instructions store.
                if cfg!(revseq_sanitize) {
                    assert!(to.addr().is_multiple_of(Self::BYTES));
                    return self.store(to);
                }
                $stream(to.cast(), self.0);
            }
        }

        #[inline(always)]
        unsafe fn zip<const W: usize>(self, other: Self) -> (Self, Self) {
            // SAFETY: the CPU has the instructions of the vector.
            unsafe {
                match W {
                    $($width => (Self($low(self.0, other.0)), Self($high(self.0, other.0))),)*
                }
            }
        }
    };
}
use plain_methods;

/// An order of the elements of a vector of `N` bytes, for shuffles by an index
/// as wide as the piece that it moves.
#[repr(align(64))]
struct Order<const N: usize>([u8; N]);

impl<const N: usize> Order<N> {
    /// For each byte the number of its element of `element` bytes.
    const fn numbers(element: usize) -> Self {
        let mut numbers = [0; N];
        let mut at = 0;
        while at < N {
            numbers[at] = (at / element) as u8;
            at += 1;
        }
        Self(numbers)
    }

    /// Reversed elements of `element` bytes, moved in pieces of `piece` bytes.
    const fn reversed(element: usize, piece: usize) -> Self {
        let mut order = [0; N];
        let mut at = 0;
        while at < N {
            // Little-endian: the lowest byte of an index is the first.
            let from = N - element - at / element * element + at % element;
            order[at] = (from / piece) as u8;
            at += piece;
        }
        Self(order)
    }
}
