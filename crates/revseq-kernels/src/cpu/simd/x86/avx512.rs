//! AVX-512 F, BW, DQ, VL and VBMI.

use std::arch::x86_64::*;

use super::{Order, V256, plain_methods};
use crate::cpu::simd::{SimdTask, Vector, prefix_mask};

/// Four lanes.
#[derive(Clone, Copy)]
pub(crate) struct V512(__m512i);

/// Does a task by these vectors.
///
/// # Safety
/// The CPU has the instructions, and the task's condition holds.
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vbmi,bmi1,bmi2")]
pub(crate) unsafe fn run_avx512<T: SimdTask>(task: T) {
    // SAFETY: the task's condition holds.
    unsafe { task.run::<V512>() }
}

impl Vector for V512 {
    const BYTES: usize = 64;
    type Half = V256;
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
        // SAFETY: the CPU has the instructions of the vector.
        Self(unsafe {
            // No shuffle has wider indices.
            let order = load_order(const { &Order::reversed(W, if W < 8 { W } else { 8 }) });
            match W {
                1 => _mm512_permutexvar_epi8(order, self.0),
                2 => _mm512_permutexvar_epi16(order, self.0),
                4 => _mm512_permutexvar_epi32(order, self.0),
                _ => _mm512_permutexvar_epi64(order, self.0),
            }
        })
    }

    #[inline(always)]
    unsafe fn blend(self, other: Self, mask: Self) -> Self {
        /// The second operand where the first has ones, or else the third.
        const SELECT: i32 = 0b1100_1010;
        // SAFETY: the CPU has the instructions of the vector.
        Self(unsafe { _mm512_ternarylogic_epi64::<SELECT>(mask.0, self.0, other.0) })
    }

    const MASKS: bool = true;

    #[inline(always)]
    unsafe fn store_prefix<const W: usize, const MOST: usize>(
        self,
        to: *mut u8,
        at: usize,
        prefix: usize,
    ) {
        // SAFETY: `to` is writable for a vector, and so is the mask readable.
        unsafe {
            let mask = if MOST / W <= 256 {
                // Each byte has the number of its element, which a loop over lines keeps.
                let first = _mm512_set1_epi8((at / W) as i8);
                let numbers = _mm512_add_epi8(load_order(const { &Order::numbers(W) }), first);
                let last = _mm512_set1_epi8((prefix / W - 1) as i8);
                _mm512_cmple_epu8_mask(numbers, last)
            } else {
                _mm512_movepi8_mask(Self::load(prefix_mask(prefix.saturating_sub(at))).0)
            };
            _mm512_mask_storeu_epi8(to.cast(), mask, self.0);
        }
    }

    #[inline(always)]
    unsafe fn shuffle(self, order: Self) -> Self {
        // SAFETY: the CPU has the instructions of the vector.
        Self(unsafe { _mm512_permutexvar_epi8(order.0, self.0) })
    }

    #[inline(always)]
    unsafe fn load_lanes(from: *const u8, pitch: usize) -> Self {
        // SAFETY: every place is readable for a lane.
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
        // SAFETY: every place is writable for a lane.
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
}

/// An order, for AVX-512's shuffles.
///
/// # Safety
/// The CPU has AVX-512.
#[inline(always)]
unsafe fn load_order(order: &Order<64>) -> __m512i {
    // SAFETY: an order is a vector, aligned as one.
    unsafe { _mm512_load_si512(order.0.as_ptr().cast()) }
}
