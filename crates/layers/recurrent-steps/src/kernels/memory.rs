//! The memory of a run.

use crate::elements::Lane;
use crate::error::Error;

/// A buffer: the program's own, or the caller's.
#[derive(Debug)]
pub(crate) enum Memory<'a> {
    Floats(Vec<f32>),
    Ints(Vec<i64>),
    FloatsIn(&'a [f32]),
    IntsIn(&'a [i64]),
    FloatsOut(&'a mut [f32]),
    IntsOut(&'a mut [i64]),
}

impl Memory<'_> {
    /// Makes a buffer of zeros.
    pub(crate) fn zeros(lane: Lane, len: usize) -> Result<Self, Error> {
        Ok(match lane {
            Lane::Float => Self::Floats(zeros(len)?),
            Lane::Int => Self::Ints(zeros(len)?),
        })
    }

    /// The numbers that it has.
    pub(crate) fn lane(&self) -> Lane {
        match self {
            Self::Floats(_) | Self::FloatsIn(_) | Self::FloatsOut(_) => Lane::Float,
            Self::Ints(_) | Self::IntsIn(_) | Self::IntsOut(_) => Lane::Int,
        }
    }

    #[inline(always)]
    pub(crate) fn floats(&self) -> &[f32] {
        match self {
            Self::Floats(all) => all,
            Self::FloatsIn(all) => all,
            Self::FloatsOut(all) => all,
            Self::Ints(_) | Self::IntsIn(_) | Self::IntsOut(_) => &[],
        }
    }

    #[inline(always)]
    pub(crate) fn ints(&self) -> &[i64] {
        match self {
            Self::Ints(all) => all,
            Self::IntsIn(all) => all,
            Self::IntsOut(all) => all,
            Self::Floats(_) | Self::FloatsIn(_) | Self::FloatsOut(_) => &[],
        }
    }

    #[inline(always)]
    pub(crate) fn floats_mut(&mut self) -> &mut [f32] {
        match self {
            Self::Floats(all) => all,
            Self::FloatsOut(all) => all,
            _ => &mut [],
        }
    }

    #[inline(always)]
    pub(crate) fn ints_mut(&mut self) -> &mut [i64] {
        match self {
            Self::Ints(all) => all,
            Self::IntsOut(all) => all,
            _ => &mut [],
        }
    }

    /// Makes an own buffer longer by zeros.
    pub(crate) fn grow(&mut self, len: usize) -> Result<(), Error> {
        match self {
            Self::Floats(all) => grow(all, len),
            Self::Ints(all) => grow(all, len),
            _ => Ok(()),
        }
    }
}

fn lacking<T>(len: usize) -> Error {
    Error::OutOfMemory {
        bytes: len.saturating_mul(size_of::<T>()),
    }
}

/// Returns zeros in a vector.
pub(crate) fn zeros<T: Default + Clone>(len: usize) -> Result<Vec<T>, Error> {
    let mut made = vec![];
    made.try_reserve_exact(len).map_err(|_| lacking::<T>(len))?;
    made.resize(len, T::default());
    Ok(made)
}

fn grow<T: Default + Clone>(all: &mut Vec<T>, len: usize) -> Result<(), Error> {
    let more = len.saturating_sub(all.len());
    all.try_reserve(more).map_err(|_| lacking::<T>(len))?;
    all.resize(all.len().max(len), T::default());
    Ok(())
}
