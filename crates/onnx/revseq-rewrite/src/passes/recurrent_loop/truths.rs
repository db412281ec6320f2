//! Proves that the numbers of a mask are 0 or 1.

use crate::constant;
use crate::model::{Attribute, BOOL, STRING, TensorProto};
use crate::scope::Scope;
use crate::types;

use super::body::MAXIMUM_STEPS;

/// Facts about values that all are 0 or 1, or truth values.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Truths {
    Any,
    AllTrue,
}

impl Truths {
    fn of(tensor: &TensorProto) -> Option<Self> {
        let truths = constant::truths(tensor)?;
        let is_true = !truths.is_empty() && truths.iter().all(|&it| it);
        Some(if is_true { Self::AllTrue } else { Self::Any })
    }

    fn if_both(self, other: Self) -> Self {
        if self == other { self } else { Self::Any }
    }
}

/// The truths of a value; `None` if it may hold other numbers.
pub(super) fn truths(scope: &Scope<'_>, name: &str) -> Option<Truths> {
    within(scope, name, MAXIMUM_STEPS)
}

fn within(scope: &Scope<'_>, name: &str, steps: usize) -> Option<Truths> {
    let steps = steps.checked_sub(1)?;
    if let Some(tensor) = constant::tensor(scope, name) {
        return Truths::of(tensor);
    }
    computed(scope, name, steps)
        .or_else(|| (types::of(scope, name) == Some(BOOL)).then_some(Truths::Any))
}

fn computed(scope: &Scope<'_>, name: &str, steps: usize) -> Option<Truths> {
    let (scope, node, output) = scope.producer(name)?;
    let is_known = node.domain().is_empty() && (output == 0 || node.is("Split"));
    if !is_known {
        return None;
    }
    let operand = |index: usize| within(scope, node.input(index)?, steps / 2);
    let of_first = || within(scope, node.input(0)?, steps);
    match node.op() {
        "Expand" | "Flatten" | "Gather" | "Identity" | "Reshape" | "ReverseSequence" | "Slice"
        | "Split" | "Squeeze" | "Tile" | "Transpose" | "Unsqueeze" => of_first(),
        // Every type of numbers has 0 and 1.
        "Cast" if node.int("to").value()? != i64::from(STRING) => of_first(),
        "ConstantOfShape" => match node.tensor("value") {
            Attribute::Absent => Some(Truths::Any),
            Attribute::Value(tensor) => Truths::of(tensor),
            Attribute::Reference => None,
        },
        "And" | "Mul" => Some(operand(0)?.if_both(operand(1)?)),
        "Where" => Some(operand(1)?.if_both(operand(2)?)),
        // 1 less any of them is the other.
        "Sub" if operand(0)? == Truths::AllTrue => operand(1).map(|_| Truths::Any),
        "Concat" | "Max" | "Min" => {
            let steps = steps / node.input.len().max(1);
            let mut parts = node.inputs().map(|part| within(scope, part, steps));
            let first = parts.next()??;
            parts.try_fold(first, |all, part| Some(all.if_both(part?)))
        }
        _ => None,
    }
}
