//! Arithmetic of whole numbers and truth values, as ONNX defines it for their types.

use crate::constant::{self, Integers};
use crate::model::{BOOL, FLOAT, INT32, INT64, NodeProto, TensorProto};
use crate::scope::Scope;

/// The most elements that are followed: conditions are small.
pub(crate) const MAXIMUM_ELEMENTS: usize = 64;

/// The whole numbers and truth values of a constant.
pub(crate) fn constant(scope: &Scope<'_>, name: &str) -> Option<Integers> {
    if let Some(integers) = constant::integers(scope, name) {
        return Some(integers);
    }
    let tensor = constant::tensor(scope, name)?;
    let sizes = constant::sizes(tensor)?;
    let count = sizes
        .iter()
        .try_fold(1_usize, |all, &size| all.checked_mul(size));
    count.filter(|&count| count <= MAXIMUM_ELEMENTS)?;
    let elements = of_tensor(tensor)?;
    Some(Integers { sizes, elements })
}

/// The elements of a tensor that holds whole numbers or truth values.
pub(crate) fn of_tensor(tensor: &TensorProto) -> Option<Vec<i64>> {
    match tensor.data_type? {
        BOOL => {
            let truths = constant::truths(tensor)?;
            Some(truths.into_iter().map(i64::from).collect())
        }
        FLOAT => {
            let elements = constant::tensor_floats(tensor)?.elements.into_iter();
            let whole = elements.map(|it| (it as i64 as f32 == it).then_some(it as i64));
            whole.map(|it| fitting(FLOAT, it?)).collect()
        }
        _ => Some(constant::tensor_ints(tensor)?.elements),
    }
}

/// A binary elementwise operator.
#[derive(Clone, Copy)]
pub(crate) enum Operation {
    /// A function of numbers; `None` for a result that is not defined.
    Numbers(fn(i64, i64) -> Option<i64>),
    /// One that is another for integers than for floats.
    Integers(fn(i64, i64) -> Option<i64>),
    /// A comparison of the order of numbers.
    Order(fn(&i64, &i64) -> bool),
    Equal,
    /// A function of truth values.
    Truths(fn(bool, bool) -> bool),
}

impl Operation {
    pub(crate) fn of(op: &str, node: &NodeProto) -> Option<Self> {
        // Before opset 7, `axis` said where the smaller operand lies.
        let is_read = matches!(op, "Max" | "Min") || node.input.len() == 2;
        if !is_read || node.attribute("axis").is_some() {
            return None;
        }
        Some(match op {
            "Add" => Self::Numbers(i64::checked_add),
            "Sub" => Self::Numbers(i64::checked_sub),
            "Mul" => Self::Numbers(i64::checked_mul),
            "Div" => Self::Integers(i64::checked_div),
            "Mod" if node.int("fmod").or(0)? != 0 => Self::Integers(i64::checked_rem),
            "Mod" => Self::Integers(modulo),
            "Min" => Self::Numbers(|one, other| Some(one.min(other))),
            "Max" => Self::Numbers(|one, other| Some(one.max(other))),
            "Greater" => Self::Order(i64::gt),
            "GreaterOrEqual" => Self::Order(i64::ge),
            "Less" => Self::Order(i64::lt),
            "LessOrEqual" => Self::Order(i64::le),
            "Equal" => Self::Equal,
            "And" => Self::Truths(|one, other| one && other),
            "Or" => Self::Truths(|one, other| one || other),
            "Xor" => Self::Truths(|one, other| one != other),
            _ => return None,
        })
    }

    /// The result, for operands of one type; `None` if the runtime decides or refuses.
    pub(crate) fn on(self, code: i32, one: i64, other: i64) -> Option<i64> {
        match self {
            Self::Numbers(of) if code != BOOL => fitting(code, of(one, other)?),
            Self::Integers(of) if [INT32, INT64].contains(&code) => fitting(code, of(one, other)?),
            Self::Order(of) if code != BOOL => Some(of(&one, &other).into()),
            Self::Equal => Some((one == other).into()),
            Self::Truths(of) if code == BOOL => Some(of(one != 0, other != 0).into()),
            _ => None,
        }
    }
}

/// The remainder with the sign of the divisor.
fn modulo(one: i64, other: i64) -> Option<i64> {
    let rest = one.checked_rem(other)?;
    let is_other_side = rest != 0 && (rest < 0) != (other < 0);
    Some(if is_other_side { rest + other } else { rest })
}

/// A number, if the type holds it.
pub(crate) fn fitting(code: i32, number: i64) -> Option<i64> {
    let fits = match code {
        INT64 => true,
        INT32 => i32::try_from(number).is_ok(),
        FLOAT => number as f32 as i128 == i128::from(number),
        _ => false,
    };
    fits.then_some(number)
}

/// A number after a Cast. What becomes of one that the type does not hold is left to the runtime.
pub(crate) fn cast(code: i32, number: i64) -> Option<i64> {
    match code {
        BOOL => Some(i64::from(number != 0)),
        _ => fitting(code, number),
    }
}
