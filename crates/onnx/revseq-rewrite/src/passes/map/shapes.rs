//! Operators of a body that move elements or ask for sizes, over all steps.
//!
//! A loop may run no step, so no size of a Reshape is left to be inferred from a tensor that may be
//! empty: the steps are copied by a 0, and a size of -1 is written as a number, as a copy of the
//! input's, or by a product of its sizes.

use crate::constant;
use crate::emit::{ALLOW_ZERO, SLICE_BY_INPUTS};
use crate::model::{self, INT32, NodeProto};
use crate::passes::{known_size, known_sizes};
use crate::sizes::{self, Size};
use crate::types;

use super::refusal::{axes_behind, axis_behind, int, known, refusal};
use super::values::{Stepped, Value, Values, data_alone};

pub(super) const OPERATORS: &[&str] = &[
    "Concat",
    "Expand",
    "Flatten",
    "Reshape",
    "Slice",
    "Squeeze",
    "Transpose",
    "Unsqueeze",
];

/// The first input, if only that depends on the step.
fn first_alone<'v>(node: &NodeProto, inputs: &'v [Value]) -> Result<&'v Stepped, String> {
    data_alone(node, inputs).map_err(|_| refusal(node, "has a shape that depends on the step"))
}

pub(super) fn write<'a>(
    values: &mut Values<'a, '_>,
    node: &'a NodeProto,
    inputs: &[Value],
) -> Result<Stepped, String> {
    if node.is("Concat") {
        return concat(values, node);
    }
    let first = first_alone(node, inputs)?;
    let (emit, inner) = (values.emit, values.body.inner);
    let (name, rank) = match node.op() {
        "Transpose" => {
            let reversed: Vec<i64> = (0..first.rank as i64).rev().collect();
            let perm = known(node, node.ints("perm").or(&reversed))?;
            if perm.len() != first.rank {
                return Err(refusal(node, "has an order of other axes"));
            }
            let behind = perm.iter().map(|axis| axis + 1);
            let perm: Vec<i64> = std::iter::once(0).chain(behind).collect();
            (emit.transpose(&first.name, &perm), first.rank)
        }
        "Squeeze" => {
            let listed = constant::axes(inner, node).filter(|axes| !axes.is_empty());
            let removed = match listed {
                Some(axes) => axes_behind(node, &axes, first.rank)?,
                None => {
                    let axes = sizes::squeezed(inner, node)
                        .ok_or_else(|| refusal(node, "removes axes that are not known"))?;
                    axes.iter().map(|&axis| axis as i64 + 1).collect()
                }
            };
            let rank = first.rank - removed.len();
            (emit.squeeze(&first.name, &removed), rank)
        }
        "Unsqueeze" => {
            let added = constant::axes(inner, node).filter(|axes| !axes.is_empty());
            let added = added.ok_or_else(|| refusal(node, "adds axes that are not known"))?;
            let rank = first.rank + added.len();
            let added = axes_behind(node, &added, rank)?;
            (emit.unsqueeze(&first.name, &added), rank)
        }
        "Expand" => {
            let rank = first.rank.max(length(values, node, 1)?);
            let aligned = values.aligned(&inputs[0], rank);
            (emit.op("Expand", (aligned, inputs[1].name())), rank)
        }
        "Slice" => return slice(values, node, inputs, first.rank),
        "Flatten" => {
            let axis = match int(node, "axis", 1)? {
                axis if axis == first.rank as i64 => first.rank,
                axis => axis_behind(node, axis, first.rank)? as usize - 1,
            };
            let product = |from: usize, to: usize| {
                (from..to).try_fold(1_i64, |all, axis| {
                    all.checked_mul(known_size(inner, node.input(0)?, axis)?)
                })
            };
            let rows = product(0, axis).filter(|&rows| rows > 0);
            let rows = rows.or((axis == 1).then_some(0));
            match (rows, product(axis, first.rank)) {
                (Some(rows), Some(columns)) if columns > 0 => {
                    return Ok(reshape_to(values, first, &[rows, columns]));
                }
                _ => return Err(refusal(node, "joins axes of unknown sizes")),
            }
        }
        _ => return reshape(values, node, first, inputs[1].name()),
    };
    Ok(Stepped::new(name, rank))
}

fn concat(values: &mut Values<'_, '_>, node: &NodeProto) -> Result<Stepped, String> {
    let parts = node.inputs().map(|name| values.stepped(name));
    let parts: Vec<Stepped> = parts.collect::<Result<_, _>>()?;
    let rank = parts.last().map_or(0, |part| part.rank);
    let axis = known(node, node.int("axis").value())?;
    let axis = axis_behind(node, axis, rank)?;
    let names: Vec<String> = parts.into_iter().map(|part| part.name).collect();
    Ok(Stepped::new(values.emit.concat(names, axis), rank))
}

/// The sizes of a value in each step, which are the same in all of them.
pub(super) fn shape(
    values: &mut Values<'_, '_>,
    node: &NodeProto,
    inputs: &[Value],
) -> Result<Value, String> {
    let first = first_alone(node, inputs)?;
    let rank = first.rank as i64;
    let place = |place: i64| (if place < 0 { place + rank } else { place }).clamp(0, rank) + 1;
    let (start, end) = (int(node, "start", 0)?, int(node, "end", rank)?);
    let own = values.emit.sizes(&first.name, place(start), place(end));
    Ok(Value::Fixed(own))
}

/// The number of elements of a vector that a node reads.
fn length(values: &Values<'_, '_>, node: &NodeProto, input: usize) -> Result<usize, String> {
    let inner = values.body.inner;
    let name = node.input(input).unwrap_or_default();
    let length = match known_sizes(inner, name).as_deref() {
        Some(&[Some(length)]) => usize::try_from(length).ok(),
        _ => None,
    };
    length.ok_or_else(|| refusal(node, "has a shape of an unknown number of axes"))
}

fn slice(
    values: &mut Values<'_, '_>,
    node: &NodeProto,
    inputs: &[Value],
    rank: usize,
) -> Result<Stepped, String> {
    let unknown = || refusal(node, "slices axes that are not known");
    if values.emit.opset() < SLICE_BY_INPUTS {
        let count = node.ints("starts").value().ok_or_else(unknown)?.len() as i64;
        let all: Vec<i64> = (0..count).collect();
        let axes = node.ints("axes").or(&all).ok_or_else(unknown)?;
        let axes = model::ints("axes", &axes_behind(node, axes, rank)?);
        let name = values.emit.one_again(node, inputs[0].name(), vec![axes]);
        return Ok(Stepped::new(name, rank));
    }
    let axes = match node.input(3) {
        Some(_) => values.constant(node, 3).ok_or_else(unknown)?,
        None => (0..length(values, node, 1)? as i64).collect(),
    };
    let axes = axes_behind(node, &axes, rank)?;
    let mut names: Vec<String> = inputs.iter().map(|it| it.name().to_owned()).collect();
    names.resize(names.len().max(4), String::new());
    names[3] = values.emit.ints(&axes);
    // They are of the bounds' type.
    let bounds = node.input(1);
    if bounds.and_then(|it| types::of(values.body.inner, it)) == Some(INT32) {
        names[3] = values.emit.cast(&names[3], INT32);
    }
    let name = values.emit.one_again(node, names, Vec::new());
    Ok(Stepped::new(name, rank))
}

/// A value of all steps in another shape of each step; a size of 0 is the input's.
fn reshape_to(values: &Values<'_, '_>, value: &Stepped, sizes: &[i64]) -> Stepped {
    let all = [&[0], sizes].concat();
    let name = values.emit.op("Reshape", (&value.name, &*all));
    Stepped::new(name, sizes.len())
}

fn reshape<'a>(
    values: &mut Values<'a, '_>,
    node: &'a NodeProto,
    first: &Stepped,
    shape: &str,
) -> Result<Stepped, String> {
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
    Ok(reshape_to(values, first, &wanted))
}

/// A Reshape to sizes that the loop's body or the graph computes.
fn computed(
    values: &Values<'_, '_>,
    node: &NodeProto,
    first: &Stepped,
    shape: &str,
    rank: usize,
) -> Result<Stepped, String> {
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
    let all = values.emit.concat(([0], shape), 0);
    let name = values.emit.op("Reshape", (&first.name, all));
    Ok(Stepped::new(name, rank))
}

/// A Reshape whose size -1 follows from the sizes of its input.
fn inferred(
    values: &Values<'_, '_>,
    node: &NodeProto,
    first: &Stepped,
    wanted: &[i64],
    place: usize,
) -> Result<Stepped, String> {
    let emit = values.emit;
    let mut others = wanted.iter().enumerate().filter(|&(axis, _)| axis != place);
    let others = others.try_fold(1_i64, |all, (_, &size)| all.checked_mul(size));
    let others = others.filter(|&others| others > 0 && emit.opset() >= ALLOW_ZERO);
    let others =
        others.ok_or_else(|| refusal(node, "leaves a size open, which no step may show"))?;
    let own = emit.sizes(&first.name, 1, first.rank as i64 + 1);
    let open = emit.op("Div", (emit.product(&own, true), [others]));
    let sizes = (
        emit.sizes(&first.name, 0, 1),
        &wanted[..place],
        open,
        &wanted[place + 1..],
    );
    let name = emit.reshape(&first.name, emit.concat(sizes, 0));
    Ok(Stepped::new(name, wanted.len()))
}
