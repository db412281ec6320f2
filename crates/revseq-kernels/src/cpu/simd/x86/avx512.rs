//! AVX-512 F, BW, DQ, VL and VBMI.

use std::arch::x86_64::*;

use super::avx2::concat_shift;
use super::{Order, V128, V256, plain_methods, stream_lanes_by_halves};
use crate::cpu::simd::{SimdTask, Vector, call_outlined};

/// Four lanes.
#[derive(Clone, Copy)]
pub(crate) struct V512(__m512i);

impl Vector for V512 {
    const BYTES: usize = 64;
    type Half = V256;
    const SHUFFLES: bool = true;

    #[inline(always)]
    unsafe fn run_outlined<T: SimdTask>(task: T) {
        #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vbmi,bmi1,bmi2")]
        unsafe fn run<T: SimdTask>(task: T) {
            // SAFETY: the caller's.
            unsafe { task.run::<V512>() }
        }
        // SAFETY: the caller's.
        unsafe { call_outlined::<Self, T>(run, task) }
    }

    plain_methods! {
        _mm512_loadu_si512, _mm512_storeu_si512, _mm512_stream_si512;
        1 => _mm512_unpacklo_epi8, _mm512_unpackhi_epi8;
        2 => _mm512_unpacklo_epi16, _mm512_unpackhi_epi16;
        4 => _mm512_unpacklo_epi32, _mm512_unpackhi_epi32;
        _ => _mm512_unpacklo_epi64, _mm512_unpackhi_epi64;
    }

    stream_lanes_by_halves! {
        V256, _mm512_castsi512_si256, _mm512_extracti64x4_epi64::<1>
    }

    #[inline(always)]
    unsafe fn reversed<const W: usize>(self) -> Self {
        // SAFETY: the caller's.
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
    unsafe fn add_each(self, addend: u8) -> Self {
        // SAFETY: the caller's.
        Self(unsafe { _mm512_add_epi8(self.0, _mm512_set1_epi8(addend as i8)) })
    }

    #[inline(always)]
    unsafe fn blend_up_to(self, other: Self, iota: Self, last: u8) -> Self {
        // SAFETY: the caller's.
        Self(unsafe {
            let mask = _mm512_cmple_epu8_mask(iota.0, _mm512_set1_epi8(last as i8));
            _mm512_mask_blend_epi8(mask, other.0, self.0)
        })
    }

    #[inline(always)]
    unsafe fn blend(self, other: Self, bytes: usize) -> Self {
        // SAFETY: the caller's.
        Self(unsafe { _mm512_mask_blend_epi8(first(bytes.min(64)), other.0, self.0) })
    }

    const MASKS: bool = true;

    #[inline(always)]
    unsafe fn store_up_to(self, to: *mut u8, iota: Self, last: u8) {
        // SAFETY: the caller's.
        unsafe {
            let mask = _mm512_cmple_epu8_mask(iota.0, _mm512_set1_epi8(last as i8));
            _mm512_mask_storeu_epi8(to.cast(), mask, self.0);
        }
    }

    #[inline(always)]
    unsafe fn store_first(self, to: *mut u8, bytes: usize) {
        // SAFETY: the caller's.
        unsafe { _mm512_mask_storeu_epi8(to.cast(), first(bytes.min(64)), self.0) };
    }

    #[inline(always)]
    unsafe fn prefix_reversed<const W: usize>(self, length: usize) -> Self {
        let bytes = length * W;
        // SAFETY: the caller's. An index is modulo 64, so that those which reverse all
        // bytes and as many more reverse so many.
        Self(unsafe {
            let order = _mm512_add_epi8(
                load_order(const { &Order::reversed(W, 1) }),
                _mm512_set1_epi8(bytes as i8),
            );
            _mm512_mask_permutexvar_epi8(self.0, first(bytes), order, self.0)
        })
    }

    const ACROSS: bool = true;

    #[inline(always)]
    unsafe fn reversed_across<const W: usize>(low: Self, high: Self, start: usize) -> Self {
        // SAFETY: the caller's.
        Self(unsafe {
            let order = _mm512_add_epi8(
                load_order(const { &Order::reversed(W, 1) }),
                _mm512_set1_epi8(start as i8),
            );
            _mm512_permutex2var_epi8(low.0, order, high.0)
        })
    }

    #[inline(always)]
    unsafe fn shuffle(self, order: Self) -> Self {
        // SAFETY: the caller's.
        Self(unsafe { _mm512_permutexvar_epi8(order.0, self.0) })
    }

    #[inline(always)]
    unsafe fn concat_shift(one: V128, other: V128, start: usize) -> V128 {
        // SAFETY: the caller's, which has the instructions of this vector.
        unsafe { concat_shift(one, other, start) }
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
    unsafe fn reverse_part<const W: usize>(at: *mut u8, bytes: usize) {
        // SAFETY: the caller's. The elements are loaded as a vector's last, so that
        // reversed they are its first; bytes that are masked out are not touched.
        unsafe {
            let last = !first(64 - bytes);
            let from = at.wrapping_sub(64 - bytes);
            let reversed = Self(_mm512_maskz_loadu_epi8(last, from.cast())).reversed::<W>();
            _mm512_mask_storeu_epi8(at.cast(), first(bytes), reversed.0);
        }
    }
}

/// An order, for AVX-512's shuffles.
///
/// # Safety
/// The CPU has AVX-512.
#[inline(always)]
unsafe fn load_order(order: &Order<64>) -> __m512i {
    // SAFETY: the caller's; an order is a vector.
    unsafe { _mm512_load_si512(order.0.as_ptr().cast()) }
}

/// The mask of the first `bits` bits, at most 64.
///
/// # Safety
/// The CPU has BMI2.
#[inline(always)]
unsafe fn first(bits: usize) -> u64 {
    // SAFETY: the caller's.
    unsafe { _bzhi_u64(u64::MAX, bits as u32) }
}
