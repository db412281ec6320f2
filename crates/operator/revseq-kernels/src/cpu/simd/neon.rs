//! NEON, which every aarch64 CPU has. Stores go through the caches: these CPUs do not read the lines that
//! stores in order fill.

use std::arch::aarch64::*;

use super::{LANE, SimdTask, Vector};

/// 16 bytes, by NEON.
#[derive(Clone, Copy)]
pub(crate) struct V128(uint8x16_t);

/// Does a task by these vectors.
///
/// # Safety
/// The task's condition holds.
#[inline(never)]
pub(crate) unsafe fn run<T: SimdTask>(task: T) {
    // SAFETY: the task's condition holds.
    unsafe { task.run::<V128>() }
}

impl Vector for V128 {
    const BYTES: usize = LANE;
    type Half = Self;
    const SHUFFLES: bool = true;

    #[inline(always)]
    unsafe fn load(from: *const u8) -> Self {
        // SAFETY: `from` is readable for a vector.
        Self(unsafe { vld1q_u8(from) })
    }

    #[inline(always)]
    unsafe fn store(self, to: *mut u8) {
        // SAFETY: `to` is writable for a vector.
        unsafe { vst1q_u8(to, self.0) };
    }

    #[inline(always)]
    unsafe fn reversed<const W: usize>(self) -> Self {
        // SAFETY: NEON is part of the target.
        Self(unsafe {
            let halves = match W {
                1 => vrev64q_u8(self.0),
                2 => vreinterpretq_u8_u16(vrev64q_u16(vreinterpretq_u16_u8(self.0))),
                4 => vreinterpretq_u8_u32(vrev64q_u32(vreinterpretq_u32_u8(self.0))),
                8 => self.0,
                _ => return self,
            };
            vextq_u8::<8>(halves, halves)
        })
    }

    #[inline(always)]
    unsafe fn blend(self, other: Self, mask: Self) -> Self {
        // SAFETY: NEON is part of the target.
        Self(unsafe { vbslq_u8(mask.0, self.0, other.0) })
    }

    #[inline(always)]
    unsafe fn shuffle(self, order: Self) -> Self {
        // SAFETY: NEON is part of the target.
        Self(unsafe { vqtbl1q_u8(self.0, order.0) })
    }

    #[inline(always)]
    unsafe fn zip<const W: usize>(self, other: Self) -> (Self, Self) {
        /// Interleaves both halves, as elements of another type.
        macro_rules! zip {
            ($to:ident, $back:ident, $low:ident, $high:ident) => {{
                let (one, other) = ($to(self.0), $to(other.0));
                (
                    Self($back($low(one, other))),
                    Self($back($high(one, other))),
                )
            }};
        }
        // SAFETY: NEON is part of the target.
        unsafe {
            match W {
                1 => (
                    Self(vzip1q_u8(self.0, other.0)),
                    Self(vzip2q_u8(self.0, other.0)),
                ),
                2 => zip!(
                    vreinterpretq_u16_u8,
                    vreinterpretq_u8_u16,
                    vzip1q_u16,
                    vzip2q_u16
                ),
                4 => zip!(
                    vreinterpretq_u32_u8,
                    vreinterpretq_u8_u32,
                    vzip1q_u32,
                    vzip2q_u32
                ),
                _ => zip!(
                    vreinterpretq_u64_u8,
                    vreinterpretq_u8_u64,
                    vzip1q_u64,
                    vzip2q_u64
                ),
            }
        }
    }
}
