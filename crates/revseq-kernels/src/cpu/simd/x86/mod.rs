//! SSE2, AVX2 and AVX-512, a file each; here is what they share.

mod avx2;
mod avx512;
mod sse2;

pub(crate) use avx2::V256;
pub(crate) use avx512::V512;
pub(crate) use sse2::V128;

/// The methods that are one instruction, or two, of any set.
macro_rules! plain_methods {
    (
        $load:ident, $store:ident, $stream:ident;
        $($width:pat => $low:ident, $high:ident;)*
    ) => {
        #[inline(always)]
        unsafe fn load(from: *const u8) -> Self {
            // SAFETY: the caller's.
            Self(unsafe { $load(from.cast()) })
        }

        #[inline(always)]
        unsafe fn store(self, to: *mut u8) {
            // SAFETY: the caller's.
            unsafe { $store(to.cast(), self.0) };
        }

        #[inline(always)]
        unsafe fn stream(self, to: *mut u8) {
            // SAFETY: the caller's.
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
            // SAFETY: the caller's.
            unsafe {
                match W {
                    $($width => (Self($low(self.0, other.0)), Self($high(self.0, other.0))),)*
                }
            }
        }
    };
}
use plain_methods;

/// The methods of a vector of several lanes, by what takes its lower and its upper half.
macro_rules! stream_lanes_by_halves {
    ($Half:ident, $low:expr, $high:expr) => {
        #[inline(always)]
        unsafe fn stream_lanes(self, to: *mut u8) {
            // SAFETY: the caller's.
            unsafe {
                if to.addr().is_multiple_of(Self::BYTES) {
                    self.stream(to);
                } else {
                    $Half($low(self.0)).stream_lanes(to);
                    $Half($high(self.0)).stream_lanes(to.add($Half::BYTES));
                }
            }
        }

        #[inline(always)]
        unsafe fn stream_last_lanes(self, to: *mut u8, bytes: usize) {
            // SAFETY: the caller's.
            unsafe {
                if bytes >= Self::BYTES {
                    return self.stream_lanes(to);
                }
                if bytes > $Half::BYTES {
                    $Half($low(self.0)).stream_last_lanes(to, bytes - $Half::BYTES);
                }
                $Half($high(self.0)).stream_last_lanes(to.add($Half::BYTES), bytes);
            }
        }
    };
}
use stream_lanes_by_halves;

/// Where `N` bytes lie of which the first `bytes` are ones, or all if those are more.
#[inline(always)]
fn first_bytes<const N: usize>(bytes: usize) -> *const u8 {
    static MASKS: [[u8; 32]; 2] = [[0xff; 32], [0; 32]];
    MASKS.as_ptr().cast::<u8>().wrapping_add(32 - bytes.min(N))
}

/// An order of the elements of a vector of `N` bytes, for shuffles by an index
/// as wide as the piece that it moves.
#[repr(align(64))]
struct Order<const N: usize>([u8; N]);

impl<const N: usize> Order<N> {
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
