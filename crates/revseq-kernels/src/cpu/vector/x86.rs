//! SSE2, AVX2 and AVX-512.

use std::arch::x86_64::*;

use super::Vector;

/// One lane: SSE2, which every x86-64 CPU has.
#[derive(Clone, Copy)]
pub(in crate::cpu) struct V128(__m128i);

/// Two lanes: AVX2.
#[derive(Clone, Copy)]
pub(in crate::cpu) struct V256(__m256i);

/// Four lanes: AVX-512 F, BW, DQ, VL and VBMI.
#[derive(Clone, Copy)]
pub(in crate::cpu) struct V512(__m512i);

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
            unsafe { $stream(to.cast(), self.0) };
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

impl Vector for V128 {
    const BYTES: usize = 16;
    // SSE2 has no instruction for it.
    const SHUFFLES: bool = false;

    plain_methods! {
        _mm_loadu_si128, _mm_storeu_si128, _mm_stream_si128;
        1 => _mm_unpacklo_epi8, _mm_unpackhi_epi8;
        2 => _mm_unpacklo_epi16, _mm_unpackhi_epi16;
        4 => _mm_unpacklo_epi32, _mm_unpackhi_epi32;
        _ => _mm_unpacklo_epi64, _mm_unpackhi_epi64;
    }

    #[inline(always)]
    unsafe fn reversed<const W: usize>(self) -> Self {
        const HALVES: i32 = 0b01_00_11_10;
        const ALL: i32 = 0b00_01_10_11;
        // SAFETY: the caller's.
        Self(unsafe {
            let words = |vector| {
                let halves = _mm_shufflehi_epi16::<ALL>(_mm_shufflelo_epi16::<ALL>(vector));
                _mm_shuffle_epi32::<HALVES>(halves)
            };
            match W {
                1 => {
                    let words = words(self.0);
                    _mm_or_si128(_mm_slli_epi16::<8>(words), _mm_srli_epi16::<8>(words))
                }
                2 => words(self.0),
                4 => _mm_shuffle_epi32::<ALL>(self.0),
                8 => _mm_shuffle_epi32::<HALVES>(self.0),
                _ => self.0,
            }
        })
    }

    #[inline(always)]
    unsafe fn reversed_if<const W: usize>(self, reversed: bool) -> Self {
        // SAFETY: the caller's.
        Self(unsafe {
            let mask = _mm_set1_epi8(-i8::from(reversed));
            let other = self.reversed::<W>();
            _mm_or_si128(_mm_and_si128(mask, other.0), _mm_andnot_si128(mask, self.0))
        })
    }
}

impl Vector for V256 {
    const BYTES: usize = 32;
    const SHUFFLES: bool = true;

    plain_methods! {
        _mm256_loadu_si256, _mm256_storeu_si256, _mm256_stream_si256;
        1 => _mm256_unpacklo_epi8, _mm256_unpackhi_epi8;
        2 => _mm256_unpacklo_epi16, _mm256_unpackhi_epi16;
        4 => _mm256_unpacklo_epi32, _mm256_unpackhi_epi32;
        _ => _mm256_unpacklo_epi64, _mm256_unpackhi_epi64;
    }

    #[inline(always)]
    unsafe fn reversed<const W: usize>(self) -> Self {
        // SAFETY: the caller's.
        unsafe { self.reversed_if::<W>(true) }
    }

    #[inline(always)]
    unsafe fn reversed_if<const W: usize>(self, reversed: bool) -> Self {
        static IN_LANES: [Orders<16>; 2] = [Orders::new(1, 1), Orders::new(2, 1)];
        static BY_WORDS: [Orders<32>; 3] =
            [Orders::new(4, 4), Orders::new(8, 4), Orders::new(16, 4)];
        // SAFETY: the caller's.
        Self(unsafe {
            let in_lanes = |order: &Orders<16>| {
                let order = _mm_loadu_si128(order.0[usize::from(reversed)].as_ptr().cast());
                _mm256_shuffle_epi8(self.0, _mm256_broadcastsi128_si256(order))
            };
            let by_words = |vector: __m256i, order: &Orders<32>| {
                let order = _mm256_loadu_si256(order.0[usize::from(reversed)].as_ptr().cast());
                _mm256_permutevar8x32_epi32(vector, order)
            };
            match W {
                1 => by_words(in_lanes(&IN_LANES[0]), &BY_WORDS[2]),
                2 => by_words(in_lanes(&IN_LANES[1]), &BY_WORDS[2]),
                4 => by_words(self.0, &BY_WORDS[0]),
                8 => by_words(self.0, &BY_WORDS[1]),
                _ => by_words(self.0, &BY_WORDS[2]),
            }
        })
    }

    #[inline(always)]
    unsafe fn shuffled(self, order: Self) -> Self {
        // SAFETY: the caller's.
        Self(unsafe {
            let low = _mm256_permute2x128_si256::<0x00>(self.0, self.0);
            let high = _mm256_permute2x128_si256::<0x11>(self.0, self.0);
            // The bit of 16 in an index becomes the highest of its byte, which chooses.
            _mm256_blendv_epi8(
                _mm256_shuffle_epi8(low, order.0),
                _mm256_shuffle_epi8(high, order.0),
                _mm256_slli_epi16::<3>(order.0),
            )
        })
    }

    #[inline(always)]
    unsafe fn load_lanes(from: *const u8, pitch: usize) -> Self {
        // SAFETY: the caller's.
        Self(unsafe {
            let low = _mm256_castsi128_si256(_mm_loadu_si128(from.cast()));
            _mm256_inserti128_si256::<1>(low, _mm_loadu_si128(from.add(pitch).cast()))
        })
    }

    #[inline(always)]
    unsafe fn store_lanes(self, to: *mut u8, pitch: usize) {
        // SAFETY: the caller's.
        unsafe {
            _mm_storeu_si128(to.cast(), _mm256_castsi256_si128(self.0));
            _mm_storeu_si128(to.add(pitch).cast(), _mm256_extracti128_si256::<1>(self.0));
        }
    }
}

impl Vector for V512 {
    const BYTES: usize = 64;
    const SHUFFLES: bool = true;

    plain_methods! {
        _mm512_loadu_si512, _mm512_storeu_si512, _mm512_stream_si512;
        1 => _mm512_unpacklo_epi8, _mm512_unpackhi_epi8;
        2 => _mm512_unpacklo_epi16, _mm512_unpackhi_epi16;
        4 => _mm512_unpacklo_epi32, _mm512_unpackhi_epi32;
        _ => _mm512_unpacklo_epi64, _mm512_unpackhi_epi64;
    }

    #[inline(always)]
    unsafe fn reversed<const W: usize>(self) -> Self {
        // SAFETY: the caller's.
        unsafe { self.reversed_if::<W>(true) }
    }

    #[inline(always)]
    unsafe fn reversed_if<const W: usize>(self, reversed: bool) -> Self {
        static ORDERS: [Orders<64>; 5] = [
            Orders::new(1, 1),
            Orders::new(2, 2),
            Orders::new(4, 4),
            Orders::new(8, 8),
            Orders::new(16, 8),
        ];
        // SAFETY: the caller's.
        Self(unsafe {
            let order = &ORDERS[W.ilog2() as usize].0[usize::from(reversed)];
            let order = _mm512_loadu_si512(order.as_ptr().cast());
            match W {
                1 => _mm512_permutexvar_epi8(order, self.0),
                2 => _mm512_permutexvar_epi16(order, self.0),
                4 => _mm512_permutexvar_epi32(order, self.0),
                _ => _mm512_permutexvar_epi64(order, self.0),
            }
        })
    }

    #[inline(always)]
    unsafe fn shuffled(self, order: Self) -> Self {
        // SAFETY: the caller's.
        Self(unsafe { _mm512_permutexvar_epi8(order.0, self.0) })
    }

    #[inline(always)]
    unsafe fn load_lanes(from: *const u8, pitch: usize) -> Self {
        // SAFETY: the caller's.
        Self(unsafe {
            let lane = |index: usize| _mm_loadu_si128(from.add(index * pitch).cast());
            let vector = _mm512_castsi128_si512(lane(0));
            let vector = _mm512_inserti32x4::<1>(vector, lane(1));
            let vector = _mm512_inserti32x4::<2>(vector, lane(2));
            _mm512_inserti32x4::<3>(vector, lane(3))
        })
    }

    #[inline(always)]
    unsafe fn store_lanes(self, to: *mut u8, pitch: usize) {
        // SAFETY: the caller's.
        unsafe {
            let vector = self.0;
            _mm_storeu_si128(to.cast(), _mm512_castsi512_si128(vector));
            _mm_storeu_si128(to.add(pitch).cast(), _mm512_extracti32x4_epi32::<1>(vector));
            _mm_storeu_si128(
                to.add(2 * pitch).cast(),
                _mm512_extracti32x4_epi32::<2>(vector),
            );
            _mm_storeu_si128(
                to.add(3 * pitch).cast(),
                _mm512_extracti32x4_epi32::<3>(vector),
            );
        }
    }

    #[inline(always)]
    unsafe fn copy_reversed<const W: usize>(from: *const u8, to: *mut u8, bytes: usize) {
        // SAFETY: the caller's. The elements are loaded as a vector's last, so that
        // reversed they are its first; bytes that are masked out are not touched.
        unsafe {
            let last = !first(64 - bytes);
            let from = from.wrapping_sub(64 - bytes);
            Self(_mm512_maskz_loadu_epi8(last, from.cast()))
                .reversed::<W>()
                .store_part(to, bytes);
        }
    }

    #[inline(always)]
    unsafe fn reverse_part<const W: usize>(at: *mut u8, bytes: usize) {
        // SAFETY: the caller's; all is loaded before any is stored.
        unsafe { Self::copy_reversed::<W>(at, at, bytes) };
    }

    #[inline(always)]
    unsafe fn load_part(from: *const u8, bytes: usize) -> Self {
        // SAFETY: the caller's; bytes that are masked out are not read.
        Self(unsafe { _mm512_maskz_loadu_epi8(first(bytes), from.cast()) })
    }

    #[inline(always)]
    unsafe fn store_part(self, to: *mut u8, bytes: usize) {
        // SAFETY: the caller's; bytes that are masked out are not written.
        unsafe { _mm512_mask_storeu_epi8(to.cast(), first(bytes), self.0) };
    }
}

/// The mask of the first `bytes` bytes, at most 64.
#[inline(always)]
fn first(bytes: usize) -> u64 {
    u64::MAX.checked_shr(64 - bytes as u32).unwrap_or(0)
}

/// The order of the elements of a vector of `N` bytes, as they are and
/// reversed, for shuffles by an index as wide as the piece that it moves.
#[repr(align(64))]
struct Orders<const N: usize>([[u8; N]; 2]);

impl<const N: usize> Orders<N> {
    /// Of elements of `element` bytes, moved in pieces of `piece` bytes.
    const fn new(element: usize, piece: usize) -> Self {
        let mut orders = [[0; N]; 2];
        let mut at = 0;
        while at < N {
            // Little-endian: the lowest byte of an index is the first.
            let reversed = N - element - at / element * element + at % element;
            orders[0][at] = (at / piece) as u8;
            orders[1][at] = (reversed / piece) as u8;
            at += piece;
        }
        Self(orders)
    }
}
