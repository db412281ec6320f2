//! SSE2, which every x86-64 CPU has.

use std::arch::x86_64::*;

use super::plain_methods;
use crate::cpu::simd::Vector;

/// One lane.
#[derive(Clone, Copy)]
pub(crate) struct V128(pub(super) __m128i);

impl Vector for V128 {
    const BYTES: usize = 16;
    type Half = Self;

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
        // SAFETY: the CPU has the instructions of the vector.
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
    unsafe fn blend(self, other: Self, mask: Self) -> Self {
        // SAFETY: the CPU has the instructions of the vector.
        Self(unsafe {
            let (first, rest) = (
                _mm_and_si128(mask.0, self.0),
                _mm_andnot_si128(mask.0, other.0),
            );
            _mm_or_si128(first, rest)
        })
    }
}
