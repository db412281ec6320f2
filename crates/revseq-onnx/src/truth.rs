//! Conditions that are the same in every run: computed from ranks, declared sizes and constants.

use crate::constant;
use crate::model::{Attribute, BOOL, INT32, INT64, NodeProto, TensorProto};
use crate::scope::{Scope, Source};
use crate::sizes::{self, Size};

/// How deep values are followed, and how many are visited per query.
const MAXIMUM_DEPTH: usize = 64;
const MAXIMUM_VALUES: usize = 1024;

/// The most elements that are followed: conditions are small.
const MAXIMUM_ELEMENTS: usize = 64;

/// The truth value of a condition, if it is the same in every run.
#[must_use]
pub fn of(scope: &Scope<'_>, name: &str) -> Option<bool> {
    let mut left = MAXIMUM_VALUES;
    match elements(scope, name, MAXIMUM_DEPTH, &mut left)?.as_slice() {
        &[value] => Some(value != 0),
        _ => None,
    }
}

/// The elements of a tensor of integers or truth values, in order. The shape does not matter as
/// long as tensors are compared elementwise or with a single element.
fn elements(scope: &Scope<'_>, name: &str, depth: usize, left: &mut usize) -> Option<Vec<i64>> {
    let depth = depth.checked_sub(1)?;
    *left = left.checked_sub(1)?;
    let found = match scope.source(name)? {
        (_, Source::Input(_)) => None,
        (_, Source::Initializer(tensor)) => of_tensor(tensor),
        (scope, Source::Node { node, output: 0 }) if node.domain().is_empty() => {
            of_node(scope, node, depth, left)
        }
        _ => None,
    };
    let found = found.or_else(|| match sizes::scalar(scope, name)? {
        Size::Known(size) => Some(vec![size]),
        Size::Axis { .. } => None,
    })?;
    (found.len() <= MAXIMUM_ELEMENTS).then_some(found)
}

fn of_node(
    scope: &Scope<'_>,
    node: &NodeProto,
    depth: usize,
    left: &mut usize,
) -> Option<Vec<i64>> {
    let mut input = |index: usize| elements(scope, node.input(index)?, depth, left);
    match node.op() {
        "Constant" => match node.tensor("value") {
            Attribute::Value(tensor) => of_tensor(tensor),
            _ => constant::ints(scope, node.output.first()?),
        },
        "Identity" | "Squeeze" | "Unsqueeze" | "Reshape" | "Flatten" => input(0),
        "Cast" => cast(node, input(0)?),
        "Shape" => shape(scope, node),
        "Size" => {
            let sizes = sizes_of(scope, node.input(0)?)?;
            let product = sizes
                .iter()
                .try_fold(1_i64, |all, &it| all.checked_mul(it))?;
            Some(vec![product])
        }
        "Gather" if is_vector(scope, node.input(0)?) => {
            let (data, indices) = (input(0)?, input(1)?);
            let at = |&index: &i64| {
                let index = constant::normal_axis(index, data.len())?;
                data.get(index).copied()
            };
            indices.iter().map(at).collect()
        }
        "Slice" if is_vector(scope, node.input(0)?) => {
            let mut values = input(0)?;
            let ranges = constant::slice_ranges(scope, node, &[values.len()])?;
            for (_, start, end) in ranges {
                values = values.get(start..end.max(start))?.to_vec();
            }
            Some(values)
        }
        "Concat" if is_vector(scope, node.input(0)?) => {
            let parts = (0..node.input.len()).map(&mut input);
            Some(parts.collect::<Option<Vec<_>>>()?.concat())
        }
        "Not" => Some(input(0)?.iter().map(|&it| i64::from(it == 0)).collect()),
        "ReduceMin" => Some(vec![input(0)?.into_iter().min()?]),
        "ReduceMax" => Some(vec![input(0)?.into_iter().max()?]),
        op => {
            let operation = binary(op)?;
            let (one, other) = (input(0)?, input(1)?);
            broadcast(&one, &other, operation)
        }
    }
}

fn of_tensor(tensor: &TensorProto) -> Option<Vec<i64>> {
    if tensor.data_type != Some(BOOL) {
        return Some(constant::tensor_ints(tensor)?.elements);
    }
    let truths = constant::truths(tensor)?;
    Some(truths.into_iter().map(i64::from).collect())
}

/// A binary elementwise operator on integers; `None` if the result overflows.
fn binary(op: &str) -> Option<fn(i64, i64) -> Option<i64>> {
    Some(match op {
        "Equal" => |one, other| Some(i64::from(one == other)),
        "Greater" => |one, other| Some(i64::from(one > other)),
        "GreaterOrEqual" => |one, other| Some(i64::from(one >= other)),
        "Less" => |one, other| Some(i64::from(one < other)),
        "LessOrEqual" => |one, other| Some(i64::from(one <= other)),
        "And" => |one, other| Some(i64::from(one != 0 && other != 0)),
        "Or" => |one, other| Some(i64::from(one != 0 || other != 0)),
        "Xor" => |one, other| Some(i64::from((one != 0) != (other != 0))),
        "Add" => |one, other| fitting(one.checked_add(other)?),
        "Sub" => |one, other| fitting(one.checked_sub(other)?),
        "Mul" => |one, other| fitting(one.checked_mul(other)?),
        "Min" => |one, other| Some(one.min(other)),
        "Max" => |one, other| Some(one.max(other)),
        _ => return None,
    })
}

/// Accepts only numbers that int32 holds, which are the same in every integer type of sizes.
fn fitting(value: i64) -> Option<i64> {
    i32::try_from(value).is_ok().then_some(value)
}

fn broadcast(
    one: &[i64],
    other: &[i64],
    operation: fn(i64, i64) -> Option<i64>,
) -> Option<Vec<i64>> {
    let count = match (one.len(), other.len()) {
        (1, count) | (count, 1) => count,
        (count, same) if count == same => count,
        _ => return None,
    };
    let at = |values: &[i64], index: usize| values[if values.len() == 1 { 0 } else { index }];
    (0..count)
        .map(|index| operation(at(one, index), at(other, index)))
        .collect()
}

fn cast(node: &NodeProto, values: Vec<i64>) -> Option<Vec<i64>> {
    let to = node.int("to").value()?;
    let is = |wanted: i32| to == i64::from(wanted);
    if is(BOOL) {
        return Some(values.iter().map(|&it| i64::from(it != 0)).collect());
    }
    let wide = is(INT64) || is(INT32);
    wide.then(|| values.into_iter().map(fitting).collect())
        .flatten()
}

fn shape(scope: &Scope<'_>, node: &NodeProto) -> Option<Vec<i64>> {
    let axes = sizes::shape_axes(scope, node)?;
    axes.map(|axis| size(scope, node.input(0)?, axis)).collect()
}

/// All sizes of a value. For a shape, the rank is enough.
fn sizes_of(scope: &Scope<'_>, name: &str) -> Option<Vec<i64>> {
    let rank = sizes::rank(scope, name)?;
    let is_shape = |node: &NodeProto| node.is("Shape") && rank == 1;
    match scope.source(name)? {
        (inner, Source::Node { node, output: 0 }) if is_shape(node) => {
            let of = sizes::rank(inner, node.input(0)?)?;
            let whole = node.int("start").or(0) == Some(0) && node.int("end") == Attribute::Absent;
            whole.then(|| vec![of as i64])
        }
        _ => (0..rank).map(|axis| size(scope, name, axis)).collect(),
    }
}

fn size(scope: &Scope<'_>, name: &str, axis: usize) -> Option<i64> {
    match sizes::axis(scope, name, axis)? {
        Size::Known(size) => Some(size),
        Size::Axis { .. } => None,
    }
}

fn is_vector(scope: &Scope<'_>, name: &str) -> bool {
    sizes::rank(scope, name) == Some(1)
}
