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

use crate::constant;
use crate::emit::Emit;
use crate::model::{self, Attribute, NodeProto};
use crate::pass::{At, Other, Pass, Verdict};
use crate::sizes;

pub(super) const PASS: Pass = Pass::exact(
    "dft-axis",
    "A DFT along an axis counted from the front, to one counted from the end",
    find,
)
.of(&["DFT"]);

/// The axis that tract reads correctly, the default before it is an input.
pub(super) const SECOND: i64 = 1;

/// The first opset in which the axis is an input, and its default.
pub(super) const AXIS_AS_INPUT: i64 = 20;
pub(super) const LAST_BUT_ONE: i64 = -2;

fn find(at: &At<'_>) -> Verdict {
    let &At { scope, node, .. } = at;
    let (data, emit) = (at.input(0)?, at.replacement()?);
    if scope.opset >= AXIS_AS_INPUT {
        if node.input(2).is_some() {
            return Err(Other);
        }
        let inputs = (data, node.input(1).unwrap_or_default(), LAST_BUT_ONE);
        let transformed = emit.one_again(node, inputs, Vec::new());
        return emit.finish_with(transformed, "the same with its axis, the last but one");
    }
    let axis = match node.int("axis") {
        Attribute::Absent => SECOND,
        Attribute::Value(axis) => axis,
        Attribute::Reference => return Err(Other),
    };
    if axis < 0 || axis == SECOND {
        return Err(Other);
    }
    let Some(rank) = sizes::rank(scope, data) else {
        return by_shape(node, emit, data, axis);
    };
    if constant::normal_axis(axis, rank).is_none() {
        return Err(format!("its axis {axis} is not one of its input's {rank}").into());
    }
    let from_end = axis - rank as i64;
    let along = vec![model::int("axis", from_end)];
    let transformed = emit.one_again(node, &node.input, along);
    emit.finish_with(transformed, format!("the same along axis {from_end}"))
}

/// Rewrites one whose input's rank is unknown: reshapes all axes before the DFT's into a single
/// one, of size 1 if there are none.
fn by_shape(node: &NodeProto, emit: Emit<'_>, data: &str, axis: i64) -> Verdict {
    let before = &emit.sizes(data, 0, axis);
    let count = emit.product(&emit.concat(([1], before), 0), true);
    let flat = emit.concat((count, emit.sizes(data, axis, i64::MAX)), 0);
    let mut inputs = node.input.clone();
    inputs[0] = emit.reshape(data, flat);
    let transformed = emit.one_again(node, inputs, vec![model::int("axis", SECOND)]);
    let behind = emit.sizes(&transformed, 1, i64::MAX);
    let shape = emit.concat((before, behind), 0);
    let reshaped = emit.reshape(&transformed, shape);
    let what = "one along the second axis, with the axes before it flattened";
    emit.finish_with(reshaped, what)
}
