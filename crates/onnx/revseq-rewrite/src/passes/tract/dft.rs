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
use crate::model::{self, Attribute};
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
    let (data, output) = (at.input(0)?, at.output()?);
    if scope.opset >= AXIS_AS_INPUT {
        if node.input(2).is_some() {
            return Err(Other);
        }
        let emit = at.emit(output);
        let inputs = (data, node.input(1).unwrap_or_default(), LAST_BUT_ONE);
        emit.give(output, emit.with("DFT", inputs, others(node, &[])));
        return emit.finish("the same with its axis, the last but one");
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
        return by_shape(at, [data, output], axis);
    };
    if constant::normal_axis(axis, rank).is_none() {
        return Err(format!("its axis {axis} is not one of its input's {rank}").into());
    }
    let from_end = axis - rank as i64;
    let emit = at.emit(output);
    let mut attributes = others(node, &["axis"]);
    attributes.push(model::int("axis", from_end));
    emit.give(output, emit.with("DFT", &node.input, attributes));
    emit.finish(format!("the same along axis {from_end}"))
}

/// Rewrites one whose input's rank is unknown: reshapes all axes before the DFT's into a single
/// one, of size 1 if there are none.
fn by_shape(at: &At<'_>, [data, output]: [&str; 2], axis: i64) -> Verdict {
    let emit = at.emit(output);
    let before = &emit.sizes(data, 0, axis);
    let count = emit.product(&emit.concat(([1], before), 0), true);
    let flat = emit.concat((count, emit.sizes(data, axis, i64::MAX)), 0);
    let mut inputs = at.node.input.clone();
    inputs[0] = emit.reshape(data, flat);
    let mut attributes = others(at.node, &["axis"]);
    attributes.push(model::int("axis", SECOND));
    let transformed = emit.with("DFT", inputs, attributes);
    let behind = emit.sizes(&transformed, 1, i64::MAX);
    let shape = emit.concat((before, behind), 0);
    emit.give(output, emit.reshape(&transformed, shape));
    emit.finish("one along the second axis, with the axes before it flattened")
}
