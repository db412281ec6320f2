//! SSE2, AVX2 and AVX-512.

use std::arch::x86_64::*;

use super::Vector;

/// One lane: SSE2, which every x86-64 CPU has.
#[derive(Clone, Copy)]
pub(in crate::cpu) struct V128(__m128i);

/// Two lanes: AVX2.
#[derive(Clone, Copy)]
pub(in crate::cpu) struct V256(__m256i);

/// Four lanes: AVX-512 F, BW, VL and VBMI.
#[derive(Clone, Copy)]
pub(in crate::cpu) struct V512(__m512i);

impl Vector for V128 {
    const BYTES: usize = 16;

    type Half = Self;

    #[inline(always)]
    unsafe fn load(from: *const u8) -> Self {
        // SAFETY: the caller's.
        Self(unsafe { _mm_loadu_si128(from.cast()) })
    }

    #[inline(always)]
    unsafe fn store(self, to: *mut u8) {
        // SAFETY: the caller's.
        unsafe { _mm_storeu_si128(to.cast(), self.0) };
    }

    #[inline(always)]
    unsafe fn stream(self, to: *mut u8) {
        // SAFETY: the caller's.
        unsafe { _mm_stream_si128(to.cast(), self.0) };
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
    unsafe fn or(self, other: Self, other_instead: bool) -> Self {
        // SAFETY: the caller's.
        Self(unsafe {
            let mask = _mm_set1_epi8(-i8::from(other_instead));
            _mm_or_si128(_mm_and_si128(mask, other.0), _mm_andnot_si128(mask, self.0))
        })
    }

    #[inline(always)]
    unsafe fn zip<const W: usize>(self, other: Self) -> (Self, Self) {
        let (one, other) = (self.0, other.0);
        // SAFETY: the caller's.
        let (low, high) = unsafe {
            match W {
                1 => (_mm_unpacklo_epi8(one, other), _mm_unpackhi_epi8(one, other)),
                2 => (
                    _mm_unpacklo_epi16(one, other),
                    _mm_unpackhi_epi16(one, other),
                ),
                4 => (
                    _mm_unpacklo_epi32(one, other),
                    _mm_unpackhi_epi32(one, other),
                ),
                _ => (
                    _mm_unpacklo_epi64(one, other),
                    _mm_unpackhi_epi64(one, other),
                ),
            }
        };
        (Self(low), Self(high))
    }

    #[inline(always)]
    unsafe fn load_lanes(from: *const u8, _: usize) -> Self {
        // SAFETY: the caller's.
        unsafe { Self::load(from) }
    }

    #[inline(always)]
    unsafe fn store_lanes(self, to: *mut u8, _: usize) {
        // SAFETY: the caller's.
        unsafe { self.store(to) };
    }
}

impl Vector for V256 {
    const BYTES: usize = 32;

    type Half = V128;

    #[inline(always)]
    unsafe fn load(from: *const u8) -> Self {
        // SAFETY: the caller's.
        Self(unsafe { _mm256_loadu_si256(from.cast()) })
    }

    #[inline(always)]
    unsafe fn store(self, to: *mut u8) {
        // SAFETY: the caller's.
        unsafe { _mm256_storeu_si256(to.cast(), self.0) };
    }

    #[inline(always)]
    unsafe fn stream(self, to: *mut u8) {
        // SAFETY: the caller's.
        unsafe { _mm256_stream_si256(to.cast(), self.0) };
    }

    #[inline(always)]
    unsafe fn reversed<const W: usize>(self) -> Self {
        const LANES: i32 = 0b01_00_11_10;
        // SAFETY: the caller's.
        Self(unsafe {
            match W {
                1 => {
                    let bytes = _mm_set_epi8(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
                    let lanes = _mm256_shuffle_epi8(self.0, _mm256_broadcastsi128_si256(bytes));
                    _mm256_permute4x64_epi64::<LANES>(lanes)
                }
                2 => {
                    let bytes = _mm_set_epi8(1, 0, 3, 2, 5, 4, 7, 6, 9, 8, 11, 10, 13, 12, 15, 14);
                    let lanes = _mm256_shuffle_epi8(self.0, _mm256_broadcastsi128_si256(bytes));
                    _mm256_permute4x64_epi64::<LANES>(lanes)
                }
                4 => {
                    let elements = _mm256_set_epi32(0, 1, 2, 3, 4, 5, 6, 7);
                    _mm256_permutevar8x32_epi32(self.0, elements)
                }
                8 => _mm256_permute4x64_epi64::<0b00_01_10_11>(self.0),
                _ => _mm256_permute4x64_epi64::<LANES>(self.0),
            }
        })
    }

    #[inline(always)]
    unsafe fn or(self, other: Self, other_instead: bool) -> Self {
        // SAFETY: the caller's.
        Self(unsafe {
            let mask = _mm256_set1_epi8(-i8::from(other_instead));
            _mm256_blendv_epi8(self.0, other.0, mask)
        })
    }

    #[inline(always)]
    unsafe fn zip<const W: usize>(self, other: Self) -> (Self, Self) {
        let (one, other) = (self.0, other.0);
        // SAFETY: the caller's.
        let (low, high) = unsafe {
            match W {
                1 => (
                    _mm256_unpacklo_epi8(one, other),
                    _mm256_unpackhi_epi8(one, other),
                ),
                2 => (
                    _mm256_unpacklo_epi16(one, other),
                    _mm256_unpackhi_epi16(one, other),
                ),
                4 => (
                    _mm256_unpacklo_epi32(one, other),
                    _mm256_unpackhi_epi32(one, other),
                ),
                _ => (
                    _mm256_unpacklo_epi64(one, other),
                    _mm256_unpackhi_epi64(one, other),
                ),
            }
        };
        (Self(low), Self(high))
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

    type Half = V256;

    #[inline(always)]
    unsafe fn load(from: *const u8) -> Self {
        // SAFETY: the caller's.
        Self(unsafe { _mm512_loadu_si512(from.cast()) })
    }

    #[inline(always)]
    unsafe fn store(self, to: *mut u8) {
        // SAFETY: the caller's.
        unsafe { _mm512_storeu_si512(to.cast(), self.0) };
    }

    #[inline(always)]
    unsafe fn stream(self, to: *mut u8) {
        // SAFETY: the caller's.
        unsafe { _mm512_stream_si512(to.cast(), self.0) };
    }

    #[inline(always)]
    unsafe fn reversed<const W: usize>(self) -> Self {
        // SAFETY: the caller's.
        Self(unsafe {
            match W {
                1 => {
                    let index: [u8; 64] = const { reversed_index() };
                    _mm512_permutexvar_epi8(_mm512_loadu_si512(index.as_ptr().cast()), self.0)
                }
                2 => {
                    let index: [u16; 32] = const {
                        let mut index = [0; 32];
                        let mut at = 0;
                        while at < 32 {
                            index[at] = 31 - at as u16;
                            at += 1;
                        }
                        index
                    };
                    _mm512_permutexvar_epi16(_mm512_loadu_si512(index.as_ptr().cast()), self.0)
                }
                4 => {
                    let index =
                        _mm512_set_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
                    _mm512_permutexvar_epi32(index, self.0)
                }
                8 => {
                    let index = _mm512_set_epi64(0, 1, 2, 3, 4, 5, 6, 7);
                    _mm512_permutexvar_epi64(index, self.0)
                }
                _ => _mm512_shuffle_i64x2::<0b00_01_10_11>(self.0, self.0),
            }
        })
    }

    #[inline(always)]
    unsafe fn or(self, other: Self, other_instead: bool) -> Self {
        let mask = u8::from(other_instead).wrapping_neg();
        // SAFETY: the caller's.
        Self(unsafe { _mm512_mask_blend_epi64(mask, self.0, other.0) })
    }

    #[inline(always)]
    unsafe fn zip<const W: usize>(self, other: Self) -> (Self, Self) {
        let (one, other) = (self.0, other.0);
        // SAFETY: the caller's.
        let (low, high) = unsafe {
            match W {
                1 => (
                    _mm512_unpacklo_epi8(one, other),
                    _mm512_unpackhi_epi8(one, other),
                ),
                2 => (
                    _mm512_unpacklo_epi16(one, other),
                    _mm512_unpackhi_epi16(one, other),
                ),
                4 => (
                    _mm512_unpacklo_epi32(one, other),
                    _mm512_unpackhi_epi32(one, other),
                ),
                _ => (
                    _mm512_unpacklo_epi64(one, other),
                    _mm512_unpackhi_epi64(one, other),
                ),
            }
        };
        (Self(low), Self(high))
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

const fn reversed_index() -> [u8; 64] {
    let mut index = [0; 64];
    let mut at = 0;
    while at < 64 {
        index[at] = 63 - at as u8;
        at += 1;
    }
    index
}
