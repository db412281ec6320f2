//! Elements of integer tensors after arithmetic, comparisons and choices.

use super::Size;
use crate::constant;
use crate::model::{Attribute, INT32, INT64, NodeProto};
use crate::numbers::Operation;
use crate::scope::Scope;
use crate::types;

/// An element of an operator's output, of those of its inputs that are broadcast there.
pub(super) fn element_of<'a>(
    scope: &'a Scope<'a>,
    node: &'a NodeProto,
    at: impl Fn(usize) -> Option<Size<'a>>,
) -> Option<Size<'a>> {
    match node.op() {
        "ConstantOfShape" => match node.tensor("value") {
            Attribute::Value(tensor) => {
                let value = constant::tensor_ints(tensor)?;
                value.elements.first().copied().map(Size::Known)
            }
            Attribute::Absent | Attribute::Reference => None,
        },
        "Equal" => equal(at(0)?, at(1)?).map(|same| Size::Known(same.into())),
        op => {
            let code = types::of(scope, node.input(0)?)?;
            let operands = (0..node.input.len()).map(|input| at(input).and_then(Size::number));
            let operands: Vec<Option<i64>> = operands.collect();
            // Some numbers decide, whatever the other operand is; 0 times a float may be NaN.
            let deciding = match op {
                "And" => Some(0),
                "Mul" => Some(0).filter(|_| [INT32, INT64].contains(&code)),
                "Or" => Some(1),
                _ => None,
            };
            if deciding.is_some() && operands.contains(&deciding) {
                return deciding.map(Size::Known);
            }
            let mut operands = operands.into_iter();
            let first = operands.next()??;
            let number = match op {
                "Not" => Some(i64::from(first == 0)),
                _ => {
                    let operation = Operation::of(op, node)?;
                    operands.try_fold(first, |number, next| operation.on(code, number, next?))
                }
            };
            number.map(Size::Known)
        }
    }
}

/// Whether two numbers are the same, if that is the same in every run.
fn equal(one: Size<'_>, other: Size<'_>) -> Option<bool> {
    match (one, other) {
        (Size::Known(one), Size::Known(other)) => Some(one == other),
        // No axis has a negative length.
        (Size::Known(number), Size::Axis { .. }) | (Size::Axis { .. }, Size::Known(number))
            if number < 0 =>
        {
            Some(false)
        }
        (one, other) => (one == other).then_some(true),
    }
}
