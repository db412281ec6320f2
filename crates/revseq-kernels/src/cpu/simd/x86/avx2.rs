//! AVX2.

use std::arch::x86_64::*;

use super::{Order, V128, plain_methods};
use crate::cpu::simd::{SimdTask, Vector};

/// Two lanes.
#[derive(Clone, Copy)]
pub(crate) struct V256(pub(super) __m256i);

/// Does a task by these vectors.
///
/// # Safety
/// The CPU has the instructions, and the task's condition holds.
#[target_feature(enable = "avx2,bmi1,bmi2")]
pub(crate) unsafe fn run_avx2<T: SimdTask>(task: T) {
    // SAFETY: the task's condition holds.
    unsafe { task.run::<V256>() }
}

impl Vector for V256 {
    const BYTES: usize = 32;
    type Half = V128;
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
        static IN_LANES: [Order<16>; 2] = [Order::reversed(1, 1), Order::reversed(2, 1)];
        static BY_WORDS: [Order<32>; 3] = [
            Order::reversed(4, 4),
            Order::reversed(8, 4),
            Order::reversed(16, 4),
        ];
        // SAFETY: the CPU has the instructions of the vector.
        Self(unsafe {
            let in_lanes = |order: &Order<16>| {
                let order = _mm_load_si128(order.0.as_ptr().cast());
                _mm256_shuffle_epi8(self.0, _mm256_broadcastsi128_si256(order))
            };
            let by_words = |vector: __m256i, order: &Order<32>| {
                let order = _mm256_load_si256(order.0.as_ptr().cast());
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
    unsafe fn blend(self, other: Self, mask: Self) -> Self {
        // SAFETY: the CPU has the instructions of the vector.
        Self(unsafe { _mm256_blendv_epi8(other.0, self.0, mask.0) })
    }

    #[inline(always)]
    unsafe fn shuffle(self, order: Self) -> Self {
        // SAFETY: the CPU has the instructions of the vector.
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
        // SAFETY: every place is readable for a lane.
        Self(unsafe {
            let low = _mm256_castsi128_si256(_mm_loadu_si128(from.cast()));
            _mm256_inserti128_si256::<1>(low, _mm_loadu_si128(from.add(pitch).cast()))
        })
    }

    #[inline(always)]
    unsafe fn store_lanes(self, to: *mut u8, pitch: usize) {
        // SAFETY: every place is writable for a lane.
        unsafe {
            _mm_storeu_si128(to.cast(), _mm256_castsi256_si128(self.0));
            _mm_storeu_si128(to.add(pitch).cast(), _mm256_extracti128_si256::<1>(self.0));
        }
    }
}
