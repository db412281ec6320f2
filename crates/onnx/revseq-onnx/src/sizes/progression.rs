//! Proves that integers count up by 1 along an axis.

use super::element::known_size;
use super::{Size, axis_of_input};
use crate::constant;
use crate::model::{DOUBLE, FLOAT, INT32, INT64, NodeProto};
use crate::numbers;
use crate::scope::Scope;
use crate::{sizes, types};

/// Integers that grow by 1 along one axis, and are the same along all others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Progression {
    /// The first of them.
    pub first: i64,
    /// The axis.
    pub axis: usize,
}

/// The progression that the elements of a tensor are.
#[must_use]
pub fn progression(scope: &Scope<'_>, name: &str) -> Option<Progression> {
    // Every type holds the numbers behind a smaller one.
    let progression = scope.visit(|| unbounded(scope, name))?;
    (progression.first.unsigned_abs() < 1 << 30).then_some(progression)
}

fn unbounded(scope: &Scope<'_>, name: &str) -> Option<Progression> {
    if let Some(value) = constant::integers(scope, name) {
        let mut pairs = value.elements.windows(2);
        let counts = pairs.all(|pair| pair[0].checked_add(1) == Some(pair[1]));
        return (counts && value.sizes.len() == 1).then_some(Progression {
            first: *value.elements.first()?,
            axis: 0,
        });
    }
    let (scope, node, output) = scope.producer(name)?;
    if !node.domain().is_empty() || output != 0 {
        return None;
    }
    let of_input = |index: usize| sizes::progression(scope, node.input(index)?);
    match node.op() {
        "Range" => {
            let is_whole = [INT32, INT64].contains(&types::of(scope, node.input(0)?)?);
            let number = |index| sizes::scalar(scope, node.input(index)?)?.number();
            let first = number(0)?;
            (is_whole && number(2)? == 1).then_some(Progression { first, axis: 0 })
        }
        "Identity" => of_input(0),
        "Cast" => {
            let is_whole = is_cast(node, &[INT32, INT64]);
            of_input(0).filter(|_| is_whole)
        }
        "Squeeze" | "Transpose" | "Unsqueeze" => {
            let own = of_input(0)?;
            let mut axes = 0..sizes::rank(scope, node.output.first()?)?;
            let axis = axes.find(|&it| axis_of_input(scope, node, it) == Some(own.axis))?;
            Some(Progression { axis, ..own })
        }
        "Add" | "Mul" => of_either(scope, node),
        "Where" => {
            let own = of_input(1).filter(|own| own.first == 0)?;
            let is_zero = sizes::every_element(scope, node.input(2)?)? == Size::Known(0);
            let names = [1, 0, 2].map(|input| node.input(input));
            let [values, condition, other] = names.map(Option::unwrap_or_default);
            let is_one = is_one_place(scope, other)?;
            let holds = holds_beyond_one(scope, condition, (values, own.axis))?;
            let axis = own.axis + added_axes(scope, node, values)?;
            (is_zero && is_one && holds).then_some(Progression { axis, ..own })
        }
        // A list of numbers by a list of places.
        "Gather" => {
            let (data, own) = (of_input(0)?, of_input(1)?);
            let is_list = sizes::rank(scope, node.input(0)?) == Some(1) && own.first >= 0;
            let first = data.first.checked_add(own.first)?;
            is_list.then_some(Progression { first, ..own })
        }
        _ => None,
    }
}

/// A progression after a sum with a number, or a product with 1 or with whether it is longer than 1.
fn of_either(scope: &Scope<'_>, node: &NodeProto) -> Option<Progression> {
    let [one, other] = [node.input(0)?, node.input(1)?];
    let (values, own, factor) = match sizes::progression(scope, one) {
        Some(own) => (one, own, other),
        None => (other, sizes::progression(scope, other)?, one),
    };
    // It would be repeated along another axis, and may be of one element.
    if !is_one_place(scope, factor)? {
        return None;
    }
    let axis = own.axis + added_axes(scope, node, values)?;
    let first = match (sizes::every_element(scope, factor), node.op()) {
        (Some(Size::Known(number)), "Add") => own.first.checked_add(number)?,
        (Some(Size::Known(1)), _) => own.first,
        (None, "Mul") if own.first == 0 => {
            let (scope, cast, _) = scope.producer(factor).filter(|it| it.1.is("Cast"))?;
            holds_beyond_one(scope, cast.input(0)?, (values, own.axis))?.then_some(0)?
        }
        _ => return None,
    };
    Some(Progression { first, axis })
}

/// The number of axes that a node's output has before those of an operand.
fn added_axes(scope: &Scope<'_>, node: &NodeProto, name: &str) -> Option<usize> {
    let rank = sizes::rank(scope, node.output.first()?)?;
    rank.checked_sub(sizes::rank(scope, name)?)
}

/// Whether a node casts to one of some types.
fn is_cast(node: &NodeProto, types: &[i32]) -> bool {
    let to = node.int("to").value();
    node.is("Cast") && types.iter().any(|&code| to == Some(code.into()))
}

/// Whether a value has one element.
fn is_one_place(scope: &Scope<'_>, name: &str) -> Option<bool> {
    let mut axes = 0..sizes::rank(scope, name)?;
    Some(axes.all(|axis| known_size(scope, name, axis) == Some(1)))
}

/// Whether a condition of one element holds if an axis is longer than 1: `length > 1`. A progression
/// from 0 is the same behind it, as a shorter one is 0 in any case.
fn holds_beyond_one(
    scope: &Scope<'_>,
    condition: &str,
    (values, axis): (&str, usize),
) -> Option<bool> {
    let length = sizes::axis(scope, values, axis)?;
    let is_one = is_one_place(scope, condition)?;
    let (scope, greater, _) = scope.producer(condition).filter(|it| it.1.is("Greater"))?;
    let [mut one, other] = [greater.input(0)?, greater.input(1)?];
    let least = numbers::constant(scope, other)?.elements;
    let mut scope = scope;
    // These hold every length, or round a large one.
    let is_kept = |node: &NodeProto| is_cast(node, &[FLOAT, DOUBLE, INT32, INT64]);
    while let Some((inner, cast, _)) = scope.producer(one).filter(|it| is_kept(it.1)) {
        (scope, one) = (inner, cast.input(0)?);
    }
    let is_length = sizes::scalar(scope, one)? == length;
    Some(is_one && is_length && least == [1])
}
