//! Operators of a body that move elements or ask for sizes, over all steps.
//!
//! A loop may run no step, so no size of a Reshape is left to be inferred from a tensor that may be
//! empty: the steps are copied by a 0, and a size of -1 is written as a number, as a copy of the
//! input's, or by a product of its sizes.

use crate::constant;
use crate::emit::SLICE_BY_INPUTS;
use crate::model::{INT32, NodeProto, int, ints};
use crate::sizes::{self, Size};
use crate::types;

use super::refusal::{SET_BY_CALLER, axis_behind, refusal};
use super::values::{Stepped, Value, Values};

pub(super) const OPERATORS: &[&str] = &[
    "Concat",
    "Expand",
    "Flatten",
    "Reshape",
    "Shape",
    "Slice",
    "Squeeze",
    "Transpose",
    "Unsqueeze",
];

/// The opset in which Reshape may take a size of 0 as it is.
const ALLOW_ZERO: i64 = 14;

pub(super) fn write<'a>(
    values: &mut Values<'a, '_>,
    node: &'a NodeProto,
    inputs: &[Value],
) -> Result<(), String> {
    if node.is("Concat") {
        return concat(values, node);
    }
    let Value::Stepped(first) = &inputs[0] else {
        return Err(refusal(node, "has a shape that depends on the step"));
    };
    if inputs[1..].iter().any(Value::is_stepped) {
        return Err(refusal(node, "has a shape that depends on the step"));
    }
    let inner = values.body.inner;
    let (name, rank) = match node.op() {
        "Shape" => return shape(values, node, first),
        "Transpose" => {
            let reversed: Vec<i64> = (0..first.rank as i64).rev().collect();
            let perm = node.ints("perm").or(&reversed);
            let perm = perm.ok_or_else(|| refusal(node, SET_BY_CALLER))?;
            if perm.len() != first.rank {
                return Err(refusal(node, "has an order of other axes"));
            }
            let perm: Vec<i64> = [0]
                .into_iter()
                .chain(perm.iter().map(|axis| axis + 1))
                .collect();
            let name = values
                .emit
                .op("Transpose", &[&first.name], vec![ints("perm", &perm)]);
            (name, first.rank)
        }
        "Squeeze" => {
            let listed = constant::axes(inner, node).filter(|axes| !axes.is_empty());
            let removed = match listed {
                Some(axes) => behind(node, &axes, first.rank)?,
                None => {
                    let found = sizes::squeezed(inner, node)
                        .ok_or_else(|| refusal(node, "removes axes that are not known"))?;
                    found.iter().map(|&axis| axis as i64 + 1).collect()
                }
            };
            if removed.is_empty() {
                (first.name.clone(), first.rank)
            } else {
                let name = values.emit.squeeze(&first.name, &removed);
                (name, first.rank - removed.len())
            }
        }
        "Unsqueeze" => {
            let added = constant::axes(inner, node).filter(|axes| !axes.is_empty());
            let added = added.ok_or_else(|| refusal(node, "adds axes that are not known"))?;
            let rank = first.rank + added.len();
            let added = behind(node, &added, rank)?;
            (values.emit.unsqueeze(&first.name, &added), rank)
        }
        "Expand" => {
            let length = length(values, node, 1)?;
            let rank = first.rank.max(length);
            let aligned = values.aligned(&inputs[0], rank);
            (
                values.emit.plain("Expand", &[&aligned, inputs[1].name()]),
                rank,
            )
        }
        "Slice" => (slice(values, node, inputs, first.rank)?, first.rank),
        "Flatten" => {
            let axis = node
                .int("axis")
                .or(1)
                .ok_or_else(|| refusal(node, SET_BY_CALLER))?;
            let axis = if axis == first.rank as i64 {
                first.rank
            } else {
                axis_behind(node, axis, first.rank)? as usize - 1
            };
            let product = |from: usize, to: usize| {
                (from..to).try_fold(1_i64, |all, axis| {
                    all.checked_mul(values.size(node.input(0)?, axis)?)
                })
            };
            let rows = product(0, axis).filter(|&rows| rows > 0);
            let rows = rows.or((axis == 1).then_some(0));
            match (rows, product(axis, first.rank)) {
                (Some(rows), Some(columns)) if columns > 0 => {
                    (reshape_to(values, first, &[rows, columns]), 2)
                }
                _ => return Err(refusal(node, "joins axes of unknown sizes")),
            }
        }
        _ => reshape(values, node, first, inputs[1].name())?,
    };
    values.set_stepped(&node.output[0], name, rank);
    Ok(())
}

/// Axes of a value of the body, over all steps.
fn behind(node: &NodeProto, axes: &[i64], rank: usize) -> Result<Vec<i64>, String> {
    let mut moved = Vec::new();
    for &axis in axes {
        let axis = axis_behind(node, axis, rank)?;
        if moved.contains(&axis) {
            return Err(refusal(node, "lists an axis twice"));
        }
        moved.push(axis);
    }
    Ok(moved)
}

fn concat(values: &mut Values<'_, '_>, node: &NodeProto) -> Result<(), String> {
    let mut names = Vec::new();
    let mut rank = 0;
    for name in node.inputs() {
        let part = values.stepped(name)?;
        names.push(part.name);
        rank = part.rank;
    }
    let axis = node
        .int("axis")
        .value()
        .ok_or_else(|| refusal(node, SET_BY_CALLER))?;
    let axis = axis_behind(node, axis, rank)?;
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let name = values.emit.op("Concat", &names, vec![int("axis", axis)]);
    values.set_stepped(&node.output[0], name, rank);
    Ok(())
}

/// The sizes of a value in each step, which are the same in all of them.
fn shape(values: &mut Values<'_, '_>, node: &NodeProto, first: &Stepped) -> Result<(), String> {
    let place = |place: i64| {
        let rank = first.rank as i64;
        (if place < 0 { place + rank } else { place }).clamp(0, rank) + 1
    };
    let rank = first.rank as i64;
    let (Some(start), Some(end)) = (node.int("start").or(0), node.int("end").or(rank)) else {
        return Err(refusal(node, SET_BY_CALLER));
    };
    let all = values.emit.plain("Shape", &[&first.name]);
    let own = values.emit.range(&all, 0, place(start), place(end));
    values.set(&node.output[0], Value::Fixed(own));
    Ok(())
}

/// The number of elements of a vector that a node reads.
fn length(values: &Values<'_, '_>, node: &NodeProto, input: usize) -> Result<usize, String> {
    let inner = values.body.inner;
    let name = node.input(input).unwrap_or_default();
    let length = match sizes::axis(inner, name, 0) {
        Some(Size::Known(length)) if sizes::rank(inner, name) == Some(1) => {
            usize::try_from(length).ok()
        }
        _ => None,
    };
    length.ok_or_else(|| refusal(node, "has a shape of an unknown number of axes"))
}

fn slice(
    values: &mut Values<'_, '_>,
    node: &NodeProto,
    inputs: &[Value],
    rank: usize,
) -> Result<String, String> {
    let unknown = || refusal(node, "slices axes that are not known");
    if values.emit.opset() < SLICE_BY_INPUTS {
        let count = node.ints("starts").value().ok_or_else(unknown)?.len() as i64;
        let all: Vec<i64> = (0..count).collect();
        let axes = behind(node, node.ints("axes").or(&all).ok_or_else(unknown)?, rank)?;
        let names = vec![inputs[0].name().to_owned()];
        return Ok(values
            .copy(node, names, vec![ints("axes", &axes)])
            .remove(0));
    }
    let axes = match node.input(3) {
        Some(_) => values.constant(node, 3).ok_or_else(unknown)?,
        None => (0..length(values, node, 1)? as i64).collect(),
    };
    let axes = behind(node, &axes, rank)?;
    let mut names: Vec<String> = inputs.iter().map(|it| it.name().to_owned()).collect();
    names.resize(names.len().max(4), String::new());
    let axes = values.emit.ints(&axes);
    // They are of the bounds' type.
    let code = node
        .input(1)
        .and_then(|it| types::of(values.body.inner, it));
    names[3] = match code {
        Some(INT32) => values
            .emit
            .op("Cast", &[&axes], vec![int("to", INT32.into())]),
        _ => axes,
    };
    Ok(values.copy(node, names, Vec::new()).remove(0))
}

/// A value of all steps in another shape of each step; a size of 0 is the input's.
fn reshape_to(values: &mut Values<'_, '_>, value: &Stepped, sizes: &[i64]) -> String {
    let all: Vec<i64> = [0].iter().chain(sizes).copied().collect();
    let shape = values.emit.ints(&all);
    values.emit.plain("Reshape", &[&value.name, &shape])
}

fn reshape<'a>(
    values: &mut Values<'a, '_>,
    node: &'a NodeProto,
    first: &Stepped,
    shape: &str,
) -> Result<(String, usize), String> {
    let rank = length(values, node, 1)?;
    let allows_zero = node.int("allowzero").or(0) != Some(0);
    let Some(mut wanted) = values.constant(node, 1) else {
        return computed(values, node, first, shape, rank);
    };
    if allows_zero && wanted.contains(&0) {
        return Err(refusal(node, "makes an empty axis"));
    }
    if let Some(place) = wanted.iter().position(|&size| size == -1) {
        let inner = values.body.inner;
        let output = node.output[0].as_str();
        let size = sizes::axis(inner, output, place);
        let input = node.input(0).unwrap_or_default();
        let kept =
            || place < first.rank && size.is_some() && sizes::axis(inner, input, place) == size;
        match size {
            Some(Size::Known(size)) if size > 0 => wanted[place] = size,
            _ if kept() => wanted[place] = 0,
            _ if values.has_steps() => {}
            _ => return inferred(values, node, first, &wanted, place),
        }
    }
    Ok((reshape_to(values, first, &wanted), rank))
}

/// A Reshape to sizes that the loop's body or the graph computes.
fn computed(
    values: &mut Values<'_, '_>,
    node: &NodeProto,
    first: &Stepped,
    shape: &str,
    rank: usize,
) -> Result<(String, usize), String> {
    let inner = values.body.inner;
    let name = node.input(1).unwrap_or_default();
    let is_size = |place: usize| match sizes::element_at(inner, name, &[place]) {
        Some(Size::Known(size)) => size > 0,
        Some(Size::Axis { .. }) => true,
        None => false,
    };
    let known = (0..rank).all(is_size);
    if !known && !values.has_steps() || node.int("allowzero").or(0) != Some(0) {
        return Err(refusal(node, "takes a shape that may leave a size open"));
    }
    let zero = values.emit.ints(&[0]);
    let all = values
        .emit
        .op("Concat", &[&zero, shape], vec![int("axis", 0)]);
    Ok((values.emit.plain("Reshape", &[&first.name, &all]), rank))
}

/// A Reshape whose size -1 follows from the sizes of its input.
fn inferred(
    values: &mut Values<'_, '_>,
    node: &NodeProto,
    first: &Stepped,
    wanted: &[i64],
    place: usize,
) -> Result<(String, usize), String> {
    let mut others = wanted.iter().enumerate().filter(|&(axis, _)| axis != place);
    let others = others.try_fold(1_i64, |all, (_, &size)| all.checked_mul(size));
    let others = others.filter(|&others| others > 0);
    let Some(others) = others.filter(|_| values.emit.opset() >= ALLOW_ZERO) else {
        return Err(refusal(node, "leaves a size open, which no step may show"));
    };
    let all = values.emit.plain("Shape", &[&first.name]);
    let own = values.emit.range(&all, 0, 1, first.rank as i64 + 1);
    let product = values.emit.product(&own, true);
    let divisor = values.emit.ints(&[others]);
    let open = values.emit.plain("Div", &[&product, &divisor]);
    let mut parts = vec![values.emit.range(&all, 0, 0, 1)];
    for (axis, &size) in wanted.iter().enumerate() {
        parts.push(if axis == place {
            open.clone()
        } else {
            values.emit.ints(&[size])
        });
    }
    let parts: Vec<&str> = parts.iter().map(String::as_str).collect();
    let shape = values.emit.op("Concat", &parts, vec![int("axis", 0)]);
    let as_is = vec![int("allowzero", 1)];
    Ok((
        values.emit.op("Reshape", &[&first.name, &shape], as_is),
        wanted.len(),
    ))
}
