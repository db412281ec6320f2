//! The places that outputs are written to.

use std::mem::MaybeUninit;

use rten_simd::Elem;
use rten_simd::ops::BitOps;

/// A place of an output: a number, or memory for one that has none yet, a `MaybeUninit`.
pub trait Place<T: Copy>: Set<T> {}

impl<T: Copy + Send> Place<T> for T {}
impl<T: Copy + Send> Place<T> for MaybeUninit<T> {}

/// What a number can be written to.
pub trait Set<T: Copy>: Send + Sized {
    fn set(&mut self, number: T);

    /// Writes a vector to the first places.
    fn store<O: BitOps<T>>(ops: O, vector: O::Simd, to: &mut [Self])
    where
        T: Elem;
}

impl<T: Copy + Send> Set<T> for T {
    #[inline(always)]
    fn set(&mut self, number: T) {
        *self = number;
    }

    #[inline(always)]
    fn store<O: BitOps<T>>(ops: O, vector: O::Simd, to: &mut [Self])
    where
        T: Elem,
    {
        ops.store(vector, to);
    }
}

impl<T: Copy + Send> Set<T> for MaybeUninit<T> {
    #[inline(always)]
    fn set(&mut self, number: T) {
        self.write(number);
    }

    #[inline(always)]
    fn store<O: BitOps<T>>(ops: O, vector: O::Simd, to: &mut [Self])
    where
        T: Elem,
    {
        ops.store_uninit(vector, to);
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
