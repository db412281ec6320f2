//! Sizes and strides.

use std::fmt;
use std::ops::{Deref, DerefMut};

use smallvec::SmallVec;

/// A number for each dimension, outermost first: sizes or strides.
///
/// Up to eight, as many as DirectML allows, take no allocation. Dereferences to a
/// slice; converts from a slice, an array or an iterator.
#[derive(Clone, Default, PartialEq, Eq, Hash)]
pub struct Dims(SmallVec<[u64; 8]>);

impl Deref for Dims {
    type Target = [u64];

    fn deref(&self) -> &[u64] {
        &self.0
    }
}

impl DerefMut for Dims {
    fn deref_mut(&mut self) -> &mut [u64] {
        &mut self.0
    }
}

impl FromIterator<u64> for Dims {
    fn from_iter<I: IntoIterator<Item = u64>>(numbers: I) -> Self {
        Self(numbers.into_iter().collect())
    }
}

impl From<&[u64]> for Dims {
    fn from(numbers: &[u64]) -> Self {
        Self(numbers.into())
    }
}

impl<const N: usize> From<[u64; N]> for Dims {
    fn from(numbers: [u64; N]) -> Self {
        Self(numbers.as_slice().into())
    }
}

impl From<Vec<u64>> for Dims {
    fn from(numbers: Vec<u64>) -> Self {
        Self(numbers.into())
    }
}

impl<'a> IntoIterator for &'a Dims {
    type Item = &'a u64;
    type IntoIter = std::slice::Iter<'a, u64>;

    fn into_iter(self) -> Self::IntoIter {
        self.iter()
    }
}

impl fmt::Debug for Dims {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}
