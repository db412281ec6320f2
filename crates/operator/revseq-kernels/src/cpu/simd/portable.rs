//! 16 bytes, in shuffles that a compiler turns into the target's own.

use super::{LANE, Vector};

/// One lane.
#[derive(Clone, Copy)]
pub(crate) struct V128([u8; LANE]);

impl Vector for V128 {
    const BYTES: usize = LANE;
    type Half = Self;

    #[inline(always)]
    unsafe fn load(from: *const u8) -> Self {
        // SAFETY: `from` is readable for a vector. Arrays of bytes need no alignment.
        Self(unsafe { *from.cast() })
    }

    #[inline(always)]
    unsafe fn store(self, to: *mut u8) {
        // SAFETY: `to` is writable for a vector. Arrays of bytes need no alignment.
        unsafe { *to.cast() = self.0 };
    }

    #[inline(always)]
    unsafe fn reversed<const W: usize>(self) -> Self {
        Self(std::array::from_fn(|at| {
            self.0[LANE - W - at / W * W + at % W]
        }))
    }

    #[inline(always)]
    unsafe fn blend(self, other: Self, mask: Self) -> Self {
        Self(std::array::from_fn(|at| match mask.0[at] {
            0 => other.0[at],
            _ => self.0[at],
        }))
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
