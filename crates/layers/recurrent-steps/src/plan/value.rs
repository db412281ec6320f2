//! A value of a body.

use std::sync::Arc;

use crate::elements::Kind;
use crate::error::{Error, values};
use crate::known::Scalar;
use crate::view::{Base, View};

/// A value of the body, with the elements of a type.
#[derive(Clone, Debug)]
pub(crate) struct Value {
    pub(crate) kind: Kind,
    pub(crate) view: View,
}

impl Value {
    pub(crate) fn new(kind: Kind, view: View) -> Self {
        Self { kind, view }
    }

    /// Numbers that are known.
    pub(crate) fn known(kind: Kind, sizes: &[usize], scalars: Vec<Scalar>) -> Self {
        Self::new(kind, View::whole(Base::Known(Arc::from(scalars)), sizes))
    }

    pub(crate) fn sizes(&self) -> Vec<usize> {
        self.view.sizes()
    }

    pub(crate) fn rank(&self) -> usize {
        self.view.rank()
    }

    /// The numbers, if they are known.
    pub(crate) fn scalars(&self) -> Option<Vec<Scalar>> {
        match &self.view.base {
            Base::Known(all) => Some(self.view.places().map(|place| all[place]).collect()),
            Base::Buffer(_) => None,
        }
    }

    /// The same elements seen otherwise.
    pub(crate) fn with(&self, view: View) -> Self {
        Self::new(self.kind, view)
    }
}

/// The number of elements.
pub(crate) fn count(sizes: &[usize]) -> Result<usize, Error> {
    if sizes.contains(&0) {
        return Ok(0);
    }
    let mut all = sizes.iter();
    let count = all.try_fold(1_usize, |count, &size| count.checked_mul(size));
    let count = count.filter(|&count| count <= isize::MAX as usize / 8);
    count.ok_or(Error::OutOfMemory { bytes: usize::MAX })
}

/// The sizes that these broadcast to.
pub(crate) fn broadcast<'a>(
    all: impl IntoIterator<Item = &'a [usize]>,
) -> Result<Vec<usize>, Error> {
    let mut made: Vec<usize> = vec![];
    for sizes in all {
        let before = made.clone();
        while made.len() < sizes.len() {
            made.insert(0, 1);
        }
        let offset = made.len() - sizes.len();
        for (own, &size) in std::iter::zip(&mut made[offset..], sizes) {
            if *own == 1 {
                *own = size;
            } else if size != 1 && size != *own {
                return values(format!("sizes {before:?} and {sizes:?} do not broadcast"));
            }
        }
    }
    Ok(made)
}
