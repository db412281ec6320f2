//! Reasons to leave a loop alone for a node of its body.

use crate::constant::normal_axis;
use crate::model::NodeProto;

/// The reason to leave a loop alone whose body has a node.
pub(super) fn refusal(node: &NodeProto, why: &str) -> String {
    let name = node.outputs().next().unwrap_or_default();
    format!("its body has {} ({name}), which {why}", node.op())
}

/// An attribute that a function's caller sets.
pub(super) const SET_BY_CALLER: &str = "has an attribute that the function's caller sets";

/// An axis of a value of the body, over all steps.
pub(super) fn axis_behind(node: &NodeProto, axis: i64, rank: usize) -> Result<i64, String> {
    match normal_axis(axis, rank) {
        Some(axis) => Ok(axis as i64 + 1),
        None => Err(refusal(node, "has an axis that its input lacks")),
    }
}
