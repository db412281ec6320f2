//! The places that outputs are written to.

use std::mem::MaybeUninit;

/// A place of an output: a number, or memory for one that has none yet, a `MaybeUninit`.
pub trait Place<T>: Set<T> {}

impl<T: Copy + Send> Place<T> for T {}
impl<T: Copy + Send> Place<T> for MaybeUninit<T> {}

/// What a number can be written to.
pub trait Set<T>: Send {
    fn set(&mut self, number: T);
}

impl<T: Copy + Send> Set<T> for T {
    #[inline(always)]
    fn set(&mut self, number: T) {
        *self = number;
    }
}

impl<T: Copy + Send> Set<T> for MaybeUninit<T> {
    #[inline(always)]
    fn set(&mut self, number: T) {
        self.write(number);
    }
}

/// Writes numbers to as many places.
#[inline(always)]
pub(crate) fn copy<T: Copy, P: Set<T>>(to: &mut [P], from: &[T]) {
    debug_assert_eq!(to.len(), from.len());
    for (to, from) in std::iter::zip(to, from) {
        to.set(*from);
    }
}

/// Writes a number to all places.
#[inline(always)]
pub(crate) fn fill<T: Copy, P: Set<T>>(to: &mut [P], number: T) {
    for to in to {
        to.set(number);
    }
}
