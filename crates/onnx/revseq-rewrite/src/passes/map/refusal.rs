//! Reasons to leave a loop alone for a node of its body.

use crate::constant::normal_axis;
use crate::model::NodeProto;

/// The reason to leave a loop alone whose body has a node.
pub(super) fn refusal(node: &NodeProto, why: &str) -> String {
    let name = node.outputs().next().unwrap_or_default();
    format!("its body has {} ({name}), which {why}", node.op())
}

/// An integer of a node, unless it is an attribute that a function's caller sets.
pub(super) fn int(node: &NodeProto, name: &str, default: i64) -> Result<i64, String> {
    known(node, node.int(name).or(default))
}

/// An attribute, unless a function's caller sets it.
pub(super) fn known<T>(node: &NodeProto, value: Option<T>) -> Result<T, String> {
    value.ok_or_else(|| refusal(node, "has an attribute that the function's caller sets"))
}

/// Axes of a value of the body, over all steps.
pub(super) fn axes_behind(node: &NodeProto, axes: &[i64], rank: usize) -> Result<Vec<i64>, String> {
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

/// An axis of a value of the body, over all steps.
pub(super) fn axis_behind(node: &NodeProto, axis: i64, rank: usize) -> Result<i64, String> {
    match normal_axis(axis, rank) {
        Some(axis) => Ok(axis as i64 + 1),
        None => Err(refusal(node, "has an axis that its input lacks")),
    }
}
