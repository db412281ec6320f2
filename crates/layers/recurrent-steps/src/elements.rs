//! Tensors of the caller's: the elements that a run reads and writes.

use revseq_onnx::model::{BOOL, FLOAT, INT32, INT64};

/// The type of elements.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Kind {
    /// float32.
    Float,
    /// int64.
    Int64,
    /// int32.
    Int32,
    /// Truth values.
    Bool,
}

impl Kind {
    /// The type with this code of ONNX's; `None` if a program has none of it.
    #[must_use]
    pub fn of(code: i32) -> Option<Self> {
        Some(match code {
            FLOAT => Self::Float,
            INT64 => Self::Int64,
            INT32 => Self::Int32,
            BOOL => Self::Bool,
            _ => return None,
        })
    }

    /// ONNX's code of the type.
    #[must_use]
    pub fn code(self) -> i32 {
        match self {
            Self::Float => FLOAT,
            Self::Int64 => INT64,
            Self::Int32 => INT32,
            Self::Bool => BOOL,
        }
    }

    /// The numbers that stand for its elements in a program.
    pub(crate) fn lane(self) -> Lane {
        match self {
            Self::Float | Self::Bool => Lane::Float,
            Self::Int64 | Self::Int32 => Lane::Int,
        }
    }

    pub(crate) fn is_int(self) -> bool {
        self.lane() == Lane::Int
    }
}

/// The numbers of a program: f32, also for truth values as 0 and 1, or i64, also for int32.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Lane {
    Float,
    Int,
}

/// Elements that a run reads.
#[derive(Clone, Copy, Debug)]
pub enum Elements<'a> {
    /// float32.
    Float(&'a [f32]),
    /// int64.
    Int64(&'a [i64]),
    /// int32.
    Int32(&'a [i32]),
    /// Truth values.
    Bool(&'a [bool]),
}

/// Elements that a run writes.
#[derive(Debug)]
pub enum ElementsMut<'a> {
    /// float32.
    Float(&'a mut [f32]),
    /// int64.
    Int64(&'a mut [i64]),
    /// int32.
    Int32(&'a mut [i32]),
    /// Truth values.
    Bool(&'a mut [bool]),
}

impl Elements<'_> {
    /// Their number.
    #[must_use]
    pub fn len(&self) -> usize {
        match self {
            Self::Float(all) => all.len(),
            Self::Int64(all) => all.len(),
            Self::Int32(all) => all.len(),
            Self::Bool(all) => all.len(),
        }
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Their type.
    #[must_use]
    pub fn kind(&self) -> Kind {
        match self {
            Self::Float(_) => Kind::Float,
            Self::Int64(_) => Kind::Int64,
            Self::Int32(_) => Kind::Int32,
            Self::Bool(_) => Kind::Bool,
        }
    }

    /// Integers and truth values as numbers; `None` for floats.
    pub(crate) fn integers(&self) -> Option<Vec<i64>> {
        match self {
            Self::Float(_) => None,
            Self::Int64(all) => Some(all.to_vec()),
            Self::Int32(all) => Some(all.iter().map(|&it| it.into()).collect()),
            Self::Bool(all) => Some(all.iter().map(|&it| it.into()).collect()),
        }
    }
}

/// A tensor that a run reads.
#[derive(Clone, Copy, Debug)]
pub struct Tensor<'a> {
    /// Its sizes.
    pub sizes: &'a [usize],
    /// Its elements, row-major.
    pub elements: Elements<'a>,
}

/// What gives the caller's room for outputs.
pub trait Outputs<'a> {
    /// Returns room for an output of the loop, by its index, with these sizes and elements of this type.
    ///
    /// Each output that [`Steps::outputs`](crate::Steps::outputs) says is read is asked for once.
    ///
    /// # Errors
    /// Why there is none; the run ends with that.
    fn room(
        &mut self,
        index: usize,
        kind: Kind,
        sizes: &[usize],
    ) -> Result<ElementsMut<'a>, String>;
}
