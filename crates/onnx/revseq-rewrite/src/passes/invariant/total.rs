//! Operators that cannot fail, whatever their inputs hold.
//!
//! Types that do not fit keep a model from loading, wherever the node is. What is left are sizes that do not
//! fit, elements that an operator refuses, such as an index out of range, and divisors of 0. Only numbers
//! prove that sizes fit: equal symbols may be unequal where a value is empty.

use crate::constant::{self, normal_axes, normal_axis};
use crate::model::{BFLOAT16, DOUBLE, FLOAT, FLOAT16, NodeProto};
use crate::operators::{broadcasts, is_elementwise, reduces};
use crate::passes::known_sizes;
use crate::scope::Scope;
use crate::sizes;
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
            let (removed, known) = (sizes::squeezed(scope, node)?, known(0)?);
            removed.into_iter().all(|axis| known[axis] == Some(1))
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
            let size = known(0)?[axis]?;
            let mut places = constant::ints(scope, node.input(1)?)?.into_iter();
            places.all(|place| (-size..size).contains(&place))
        }
        "Concat" => {
            let axis = normal_axis(node.int("axis").value()?, rank(0)?)?;
            let others = |part: &str| {
                let mut sizes = known_sizes(scope, part)?;
                (axis < sizes.len()).then(|| sizes.remove(axis))?;
                sizes.into_iter().collect::<Option<Vec<i64>>>()
            };
            let mut parts = node.inputs().map(others);
            let first = parts.next()??;
            parts.all(|part| part.as_ref() == Some(&first))
        }
        "Expand" => {
            let wanted = sizes_in(scope, node.input(1)?)?;
            let wanted: Vec<Option<i64>> = wanted.into_iter().map(Some).collect();
            is_broadcast_to(&known(0)?, &wanted)
        }
        "Reshape" => {
            let product = |sizes: Vec<i64>| sizes.into_iter().try_fold(1, i64::checked_mul);
            let own: Vec<i64> = known(0)?.into_iter().collect::<Option<_>>()?;
            let wanted = sizes_in(scope, node.input(1)?)?;
            wanted.iter().all(|&size| size > 0) && product(wanted)? == product(own)?
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
            let matrix = |input: usize, attribute: &str| {
                let mut sizes: [Option<i64>; 2] = known(input)?.try_into().ok()?;
                if node.int(attribute).or(0)? != 0 {
                    sizes.reverse();
                }
                Some(sizes)
            };
            let ([rows, inner], [same, columns]) = (matrix(0, "transA")?, matrix(1, "transB")?);
            let added = match node.input(2) {
                Some(_) => known(2)?,
                None => Vec::new(),
            };
            inner? == same? && is_broadcast_to(&added, &[rows, columns])
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
