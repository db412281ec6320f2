//! A DFT along an axis that tract misreads: before opset 20, tract takes every axis counted from
//! the front for the second.
//!
//! An axis counted from the end needs the input's rank. Where that is unknown, the axes before this
//! one are flattened, so that it becomes the second. From opset 20 on the axis is an input, and
//! only a missing one is written out.
//!
//! ```text
//! DFT(x, axis 2) of rank 4  →  DFT(x, axis -2)
//! ```

use super::others;
use crate::constant;
use crate::emit::Emit;
use crate::model::{self, Attribute, NodeProto};
use crate::pass::{Context, Pass, Verdict};
use crate::scope::{Names, Scope};
use crate::sizes;

pub(super) const PASS: Pass = Pass::exact(
    "dft-axis",
    "A DFT along an axis counted from the front, to one counted from the end",
    find,
);

/// The axis that tract reads correctly, the default before it is an input.
pub(super) const SECOND: i64 = 1;

/// The first opset in which the axis is an input, and its default.
pub(super) const AXIS_AS_INPUT: i64 = 20;
pub(super) const LAST_BUT_ONE: i64 = -2;

fn find(scope: &Scope<'_>, index: usize, _context: &Context<'_>, names: &mut Names) -> Verdict {
    let node = &scope.nodes[index];
    let (Some(data), Some(output)) = (node.input(0), node.output.first()) else {
        return Verdict::Other;
    };
    if !node.is("DFT") {
        return Verdict::Other;
    }
    let mut emit = Emit::new(output, scope.opset, names);
    if scope.opset >= AXIS_AS_INPUT {
        if node.input(2).is_some() {
            return Verdict::Other;
        }
        let axis = emit.scalar(LAST_BUT_ONE);
        let length = node.input(1).unwrap_or_default();
        emit.write(&[output], "DFT", &[data, length, &axis], others(node, &[]));
        return emit.finish("the same with its axis, the last but one".to_owned());
    }
    let axis = match node.int("axis") {
        Attribute::Absent => SECOND,
        Attribute::Value(axis) => axis,
        Attribute::Reference => return Verdict::Other,
    };
    if axis < 0 || axis == SECOND {
        return Verdict::Other;
    }
    let Some(rank) = sizes::rank(scope, data) else {
        return by_shape(emit, node, [data, output], axis);
    };
    if constant::normal_axis(axis, rank).is_none() {
        return Verdict::Left(format!("its axis {axis} is not one of its input's {rank}"));
    }
    let from_end = axis - rank as i64;
    let mut attributes = others(node, &["axis"]);
    attributes.push(model::int("axis", from_end));
    let inputs: Vec<&str> = node.input.iter().map(String::as_str).collect();
    emit.write(&[output], "DFT", &inputs, attributes);
    emit.finish(format!("the same along axis {from_end}"))
}

/// Rewrites one whose input's rank is unknown: reshapes all axes before the DFT's into a single
/// one, of size 1 if there are none.
fn by_shape(mut emit: Emit<'_>, node: &NodeProto, [data, output]: [&str; 2], axis: i64) -> Verdict {
    let shape = emit.plain("Shape", &[data]);
    let before = emit.range(&shape, 0, 0, axis);
    let one = emit.ints(&[1]);
    let factors = emit.op("Concat", &[&one, &before], vec![model::int("axis", 0)]);
    let count = emit.product(&factors, true);
    let behind = emit.range(&shape, 0, axis, i64::MAX);
    let flat = emit.op("Concat", &[&count, &behind], vec![model::int("axis", 0)]);
    let reshaped = emit.plain("Reshape", &[data, &flat]);
    let mut inputs: Vec<&str> = node.input.iter().map(String::as_str).collect();
    inputs[0] = &reshaped;
    let mut attributes = others(node, &["axis"]);
    attributes.push(model::int("axis", SECOND));
    let transformed = emit.op("DFT", &inputs, attributes);
    let new_shape = emit.plain("Shape", &[&transformed]);
    let new_behind = emit.range(&new_shape, 0, 1, i64::MAX);
    let unflat = emit.op(
        "Concat",
        &[&before, &new_behind],
        vec![model::int("axis", 0)],
    );
    emit.write(&[output], "Reshape", &[&transformed, &unflat], Vec::new());
    emit.finish("one along the second axis, with the axes before it flattened".to_owned())
}
