//! 16 bytes, in shuffles that a compiler turns into the target's own.

use super::{LANE, Vector};

/// One lane.
#[derive(Clone, Copy)]
pub(in crate::cpu) struct V128([u8; LANE]);

impl Vector for V128 {
    const BYTES: usize = LANE;
    const SHUFFLES: bool = false;

    #[inline(always)]
    unsafe fn load(from: *const u8) -> Self {
        // SAFETY: the caller's; arrays of bytes need no alignment.
        Self(unsafe { *from.cast() })
    }

    #[inline(always)]
    unsafe fn store(self, to: *mut u8) {
        // SAFETY: the caller's; arrays of bytes need no alignment.
        unsafe { *to.cast() = self.0 };
    }

    #[inline(always)]
    unsafe fn stream(self, to: *mut u8) {
        // SAFETY: the caller's.
        unsafe { self.store(to) };
    }

    #[inline(always)]
    unsafe fn reversed<const W: usize>(self) -> Self {
        Self(std::array::from_fn(|at| {
            self.0[LANE - W - at / W * W + at % W]
        }))
    }

    #[inline(always)]
    unsafe fn reversed_if<const W: usize>(self, reversed: bool) -> Self {
        // SAFETY: the caller's.
        let other = unsafe { self.reversed::<W>() };
        if reversed { other } else { self }
    }

    #[inline(always)]
    unsafe fn zip<const W: usize>(self, other: Self) -> (Self, Self) {
        let half = |start: usize| {
            Self(std::array::from_fn(|at| {
                let from = if (at / W).is_multiple_of(2) {
                    &self.0
                } else {
                    &other.0
                };
                from[start + at / (2 * W) * W + at % W]
            }))
        };
        (half(0), half(LANE / 2))
    }
}
