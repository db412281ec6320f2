//! Operators that cannot fail, whatever their inputs hold.
//!
//! Types that do not fit keep a model from loading, wherever the node is. What is left are sizes that do not
//! fit, elements that an operator refuses, such as an index out of range, and divisors of 0. Only numbers
//! prove that sizes fit: equal symbols may be unequal where a value is empty.

use crate::constant::{self, normal_axes, normal_axis};
use crate::model::{BFLOAT16, DOUBLE, FLOAT, FLOAT16, NodeProto};
use crate::operators::{broadcasts, is_elementwise, reduces};
use crate::scope::Scope;
use crate::sizes::{self, Size};
use crate::types;

/// Whether a node of a scope provably cannot fail.
pub(super) fn is_total(scope: &Scope<'_>, node: &NodeProto) -> bool {
    holds(scope, node).unwrap_or(false)
}

/// Whether a node that cannot fail takes no more time than its inputs have elements.
pub(super) fn is_light(node: &NodeProto) -> bool {
    !matches!(node.op(), "Expand" | "Gemm" | "MatMul")
}

fn holds(scope: &Scope<'_>, node: &NodeProto) -> Option<bool> {
    let rank = |input: usize| sizes::rank(scope, node.input(input)?);
    let known = |input: usize| known_sizes(scope, node.input(input)?);
    let is_axis = |axis: i64, rank: usize| normal_axis(axis, rank).is_some();
    Some(match node.op() {
        "Cast" => !types::may_be_strings(scope, node.input(0)?),
        op if is_elementwise(op) => true,
        "Shape" | "Size" => true,
        "LogSoftmax" | "Softmax" => is_axis(node.int("axis").or(1)?, rank(0)?),
        "Transpose" => {
            let rank = rank(0)?;
            let all: Vec<i64> = (0..rank as i64).collect();
            let perm = node.ints("perm").or(&all)?;
            perm.len() == rank
                && perm.iter().all(|axis| *axis >= 0)
                && normal_axes(perm, rank).is_some()
        }
        "Unsqueeze" => sizes::unsqueezed(scope, node).is_some(),
        "Squeeze" => {
            let size = |axis: usize| sizes::axis(scope, node.input(0)?, axis)?.number();
            let removed = sizes::squeezed(scope, node)?;
            removed.into_iter().all(|axis| size(axis) == Some(1))
        }
        "Slice" => {
            let axes: Vec<i64> = constant::ranges(scope, node)?
                .iter()
                .map(|it| it.axis)
                .collect();
            normal_axes(&axes, rank(0)?).is_some()
        }
        "Gather" => {
            let axis = normal_axis(node.int("axis").or(0)?, rank(0)?)?;
            let size = sizes::axis(scope, node.input(0)?, axis)?.number()?;
            let mut places = constant::ints(scope, node.input(1)?)?.into_iter();
            places.all(|place| (-size..size).contains(&place))
        }
        "Concat" => {
            let axis = normal_axis(node.int("axis").value()?, rank(0)?)?;
            let mut parts = node.inputs().map(|part| known_sizes(scope, part));
            let mut first = parts.next()??;
            *first.get_mut(axis)? = None;
            first
                .iter()
                .enumerate()
                .all(|(place, size)| place == axis || size.is_some())
                && parts.all(|part| {
                    part.is_some_and(|mut part| {
                        if let Some(size) = part.get_mut(axis) {
                            *size = None;
                        }
                        part == first
                    })
                })
        }
        "Expand" => {
            let wanted = sizes_in(scope, node.input(1)?)?;
            let wanted: Vec<Option<i64>> = wanted.into_iter().map(Some).collect();
            is_broadcast_to(&known(0)?, &wanted)
        }
        "Reshape" => {
            let count = known(0)?
                .into_iter()
                .try_fold(1, |count: i64, size| count.checked_mul(size?))?;
            let wanted = sizes_in(scope, node.input(1)?)?;
            wanted.iter().all(|&size| size > 0)
                && wanted
                    .iter()
                    .try_fold(1, |count: i64, &size| count.checked_mul(size))?
                    == count
        }
        "MatMul" => {
            let (mut one, mut other) = (known(0)?, known(1)?);
            let inner = one.pop()??;
            // A vector as the second operand has no columns.
            let place = other.len().saturating_sub(2);
            let is_same = other.get(place).copied()?? == inner;
            other.truncate(place);
            one.pop();
            is_same && agree(&[one, other])
        }
        "Gemm" => {
            let is_turned = |attribute: &str| Some(node.int(attribute).or(0)? != 0);
            let (one, other) = (known(0)?, known(1)?);
            let (&[rows, inner], &[same, columns]) = (&one[..], &other[..]) else {
                return None;
            };
            let (rows, inner) = if is_turned("transA")? {
                (inner, rows)
            } else {
                (rows, inner)
            };
            let (same, columns) = if is_turned("transB")? {
                (columns, same)
            } else {
                (same, columns)
            };
            let added = node.input(2).map(|added| known_sizes(scope, added));
            inner? == same?
                && added.is_none_or(|added| {
                    added.is_some_and(|added| is_broadcast_to(&added, &[rows, columns]))
                })
        }
        "Div" | "Mod" if !is_float(scope, node.input(0)?) => false,
        "BitShift" | "PRelu" => false,
        op if broadcasts(op) => {
            let all = node.inputs().map(|input| known_sizes(scope, input));
            agree(&all.collect::<Option<Vec<_>>>()?)
        }
        op if reduces(op) => {
            let rank = rank(0)?;
            let axes = constant::axes(scope, node)?;
            let axes = if axes.is_empty() {
                (0..rank).collect()
            } else {
                normal_axes(&axes, rank)?
            };
            // Some have no result of no elements.
            let known = known(0)?;
            axes.into_iter()
                .all(|axis| known[axis].is_some_and(|size| size > 0))
        }
        _ => false,
    })
}

fn is_float(scope: &Scope<'_>, name: &str) -> bool {
    let floats = [FLOAT, DOUBLE, FLOAT16, BFLOAT16];
    types::of(scope, name).is_some_and(|code| floats.contains(&code))
}

/// The sizes of a value, as far as they are numbers; `None` if their count is not known.
fn known_sizes(scope: &Scope<'_>, name: &str) -> Option<Vec<Option<i64>>> {
    let size = |axis| sizes::axis(scope, name, axis).and_then(Size::number);
    Some((0..sizes::rank(scope, name)?).map(size).collect())
}

/// The numbers in a vector of sizes.
fn sizes_in(scope: &Scope<'_>, name: &str) -> Option<Vec<i64>> {
    let &[Some(length)] = &known_sizes(scope, name)?[..] else {
        return None;
    };
    let length = usize::try_from(length)
        .ok()
        .filter(|&length| length <= sizes::MAXIMUM_RANK)?;
    let element = |place| sizes::element_at(scope, name, &[place])?.number();
    (0..length).map(element).collect()
}

/// Whether operands of these sizes broadcast to those of one of them.
fn agree(operands: &[Vec<Option<i64>>]) -> bool {
    let is_result = |(place, result): (usize, &Vec<Option<i64>>)| {
        let mut others = operands
            .iter()
            .enumerate()
            .filter(|(other, _)| *other != place);
        others.all(|(_, operand)| is_broadcast_to(operand, result))
    };
    operands.iter().enumerate().any(is_result)
}

/// Whether an operand broadcasts to these sizes.
fn is_broadcast_to(operand: &[Option<i64>], sizes: &[Option<i64>]) -> bool {
    let pairs = std::iter::zip(operand.iter().rev(), sizes.iter().rev());
    let mut pairs = pairs.map(|(own, size)| own.is_some() && (*own == Some(1) || own == size));
    operand.len() <= sizes.len() && pairs.all(|fits| fits)
}
