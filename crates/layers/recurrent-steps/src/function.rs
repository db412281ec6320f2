//! The functions of elements.

use recurrent_layers::Activation;

use crate::elements::Lane;
use crate::known::{Comparison, Fold};

/// A function of one float.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Float1 {
    Abs,
    Activation(Activation),
    Ceil,
    Cos,
    Erf,
    Exp,
    Floor,
    IsNan,
    Log,
    Neg,
    Not,
    Reciprocal,
    Round,
    Sign,
    Sin,
    Sqrt,
}

/// A function of two floats.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Float2 {
    Add,
    Sub,
    Mul,
    Div,
    /// NaN if one is.
    Max,
    /// NaN if one is.
    Min,
    Pow,
    /// The remainder with the sign of the dividend.
    Rest,
}

/// A function of one integer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Int1 {
    Abs,
    Neg,
    Sign,
    /// The lowest 32 bits.
    Wrap,
}

/// A function of elements.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Function {
    Move(Lane),
    Float1(Float1),
    Float2(Float2),
    CompareFloats(Comparison),
    Int1(Int1),
    /// Addition and the like wrap; a quotient by 0 is 0.
    Int2(Fold),
    CompareInts(Comparison),
    /// The second operand where the first is true, the third elsewhere.
    Select(Lane),
    FloatOfInt,
    IntOfFloat,
    TruthOfFloat,
    TruthOfInt,
}

impl Function {
    /// The numbers of its operands and of its result.
    pub(crate) fn lanes(self) -> ([Option<Lane>; 3], Lane) {
        use Lane::{Float, Int};
        match self {
            Self::Move(lane) => ([Some(lane), None, None], lane),
            Self::Float1(_) | Self::TruthOfFloat => ([Some(Float), None, None], Float),
            Self::Float2(_) | Self::CompareFloats(_) => ([Some(Float), Some(Float), None], Float),
            Self::Int1(_) => ([Some(Int), None, None], Int),
            Self::Int2(_) => ([Some(Int), Some(Int), None], Int),
            Self::CompareInts(_) => ([Some(Int), Some(Int), None], Float),
            Self::Select(lane) => ([Some(Float), Some(lane), Some(lane)], lane),
            Self::FloatOfInt | Self::TruthOfInt => ([Some(Int), None, None], Float),
            Self::IntOfFloat => ([Some(Float), None, None], Int),
        }
    }

    /// Whether computing it again costs less than keeping its result.
    pub(crate) fn is_cheap(self) -> bool {
        matches!(
            self,
            Self::Move(_) | Self::Float2(Float2::Add | Float2::Sub | Float2::Mul)
        )
    }
}

/// What a reduction makes of its elements.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reduction {
    Sum,
    Product,
    /// NaN if one is.
    Max,
    /// NaN if one is.
    Min,
}

impl Reduction {
    /// The result of no elements.
    pub(crate) fn neutral(self) -> f32 {
        match self {
            Self::Sum => 0.0,
            Self::Product => 1.0,
            Self::Max => f32::NEG_INFINITY,
            Self::Min => f32::INFINITY,
        }
    }

    /// The same for integers.
    pub(crate) fn neutral_int(self) -> i64 {
        match self {
            Self::Sum => 0,
            Self::Product => 1,
            Self::Max => i64::MIN,
            Self::Min => i64::MAX,
        }
    }
}
