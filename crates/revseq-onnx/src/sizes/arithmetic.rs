//! Elements of integer tensors after arithmetic, comparisons and choices.

use super::element::element;
use super::{Size, Steps, axis_within, rank_within};
use crate::constant;
use crate::model::{Attribute, INT64, NodeProto};
use crate::scope::Scope;
use crate::types;

/// An element of an operator's output, at an index along each of its axes.
pub(super) fn element_of<'a>(
    scope: &'a Scope<'a>,
    node: &'a NodeProto,
    place: &[usize],
    steps: Steps<'_>,
) -> Option<Size<'a>> {
    let at = |input: usize| operand(scope, node.input(input)?, place, steps);
    match node.op() {
        "ConstantOfShape" => match node.tensor("value") {
            Attribute::Value(tensor) => {
                let value = constant::tensor_ints(tensor)?;
                value.elements.first().copied().map(Size::Known)
            }
            Attribute::Absent | Attribute::Reference => None,
        },
        "Where" => {
            let (inner, condition, output) = scope.producer(node.input(0)?)?;
            let is_comparison = condition.is("Equal") && output == 0;
            let chosen = is_comparison.then(|| equal(inner, condition, place, steps));
            at(if chosen?? { 1 } else { 2 })
        }
        "Add" | "Sub" | "Mul" | "Div" => {
            // The runtime decides what becomes of a number that int32 does not hold.
            let is_long = types::of(scope, node.input(0)?) == Some(INT64);
            let (Size::Known(one), Size::Known(other)) = (at(0)?, at(1)?) else {
                return None;
            };
            let number = match node.op() {
                "Add" => one.checked_add(other),
                "Sub" => one.checked_sub(other),
                "Mul" => one.checked_mul(other),
                _ => one.checked_div(other),
            };
            number.filter(|_| is_long).map(Size::Known)
        }
        _ => None,
    }
}

/// Whether the operands of an Equal are the same at a place, if that is the same in every run.
fn equal(scope: &Scope<'_>, node: &NodeProto, place: &[usize], steps: Steps<'_>) -> Option<bool> {
    let at = |input: usize| operand(scope, node.input(input)?, place, steps);
    match (at(0)?, at(1)?) {
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

/// An element of an operand that is broadcast.
fn operand<'a>(
    scope: &'a Scope<'a>,
    name: &str,
    place: &[usize],
    steps: Steps<'_>,
) -> Option<Size<'a>> {
    let rank = rank_within(scope, name, steps)?;
    let skipped = place.len().checked_sub(rank)?;
    let mut own = Vec::new();
    for (axis, &place) in place[skipped..].iter().enumerate() {
        let is_one = place == 0 || axis_within(scope, name, axis, steps)? == Size::Known(1);
        own.push(if is_one { 0 } else { place });
    }
    element(scope, name, &own, steps)
}
