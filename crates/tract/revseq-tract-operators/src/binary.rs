//! Functions of two floats, by tract's operators.

use tract_onnx::tract_core::ops::binary::BinMiniOp;
use tract_onnx::tract_core::ops::{logic, math};

use crate::operators::div::Quotient;

/// A function of two floats. A truth value is 0 or 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Binary {
    Add,
    Sub,
    /// The second minus the first.
    SubFrom,
    Mul,
    Div,
    Min,
    Max,
    And,
    Or,
    Equal,
    NotEqual,
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
}

/// What applies a function to pairs of floats. It is compiled for each function, so that its loops
/// are vectorised.
pub(crate) trait Pairs {
    fn each(self, function: impl Fn(f32, f32) -> f32 + Copy);
}

impl Binary {
    /// The function of an operator.
    pub(crate) fn of(op: &dyn BinMiniOp) -> Option<Self> {
        Some(match () {
            () if op.is::<math::Add>() => Self::Add,
            () if op.is::<math::Sub>() => Self::Sub,
            () if op.is::<math::SubF>() => Self::SubFrom,
            () if op.is::<math::Mul>() => Self::Mul,
            () if op.is::<math::Div>() || op.is::<Quotient>() => Self::Div,
            () if op.is::<math::Min>() => Self::Min,
            () if op.is::<math::Max>() => Self::Max,
            () if op.is::<logic::And>() => Self::And,
            () if op.is::<logic::Or>() => Self::Or,
            () if op.is::<logic::CompEq>() => Self::Equal,
            () if op.is::<logic::CompNE>() => Self::NotEqual,
            () if op.is::<logic::CompLT>() => Self::Less,
            () if op.is::<logic::CompLTE>() => Self::LessOrEqual,
            () if op.is::<logic::CompGT>() => Self::Greater,
            () if op.is::<logic::CompGTE>() => Self::GreaterOrEqual,
            () => return None,
        })
    }

    /// Applies the function to pairs.
    #[expect(clippy::float_cmp, reason = "ONNX's Equal")]
    #[inline(always)]
    pub(crate) fn apply(self, pairs: impl Pairs) {
        match self {
            Self::Add => pairs.each(|a, b| a + b),
            Self::Sub => pairs.each(|a, b| a - b),
            Self::SubFrom => pairs.each(|a, b| b - a),
            Self::Mul => pairs.each(|a, b| a * b),
            Self::Div => pairs.each(|a, b| a / b),
            // A NaN in either operand stays.
            Self::Min => pairs.each(|a, b| if a.is_nan() || a < b { a } else { b }),
            Self::Max => pairs.each(|a, b| if a.is_nan() || a > b { a } else { b }),
            Self::And => pairs.each(|a, b| truth(a != 0.0 && b != 0.0)),
            Self::Or => pairs.each(|a, b| truth(a != 0.0 || b != 0.0)),
            Self::Equal => pairs.each(|a, b| truth(a == b)),
            Self::NotEqual => pairs.each(|a, b| truth(a != b)),
            Self::Less => pairs.each(|a, b| truth(a < b)),
            Self::LessOrEqual => pairs.each(|a, b| truth(a <= b)),
            Self::Greater => pairs.each(|a, b| truth(a > b)),
            Self::GreaterOrEqual => pairs.each(|a, b| truth(a >= b)),
        }
    }
}

/// A truth value as a number.
pub(crate) fn truth(is_true: bool) -> f32 {
    f32::from(u8::from(is_true))
}
