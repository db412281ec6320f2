//! ReverseSequence whose lengths cover the axis, to Slice with a step of -1.
//!
//! The lengths have to be proved equal, and equal to the axis's size: both may be symbols or follow
//! from shapes. The passes about reversals then know the axis alone, and no lengths.
//!
//! ```text
//! ReverseSequence(x, Expand(Shape(x)[0], [N]), time 0, batch 1)  →  x[::-1]
//! ```

use super::axis_from_front;
use crate::pass::{At, Other, Pass, Verdict};
use crate::sizes;

pub(super) const PASS: Pass = Pass::exact(
    "full-flip",
    "ReverseSequence and ReverseSubsequences over the whole axis, to Slice",
    find,
)
.portable()
.fast();

fn find(at: &At<'_>) -> Verdict {
    let &At { scope, node, .. } = at;
    let attribute = match (node.domain(), node.op()) {
        ("", "ReverseSequence") => "time_axis",
        ("revseq", "ReverseSubsequences") => "axis",
        _ => return Err(Other),
    };
    let (data, lengths, emit) = (at.input(0)?, at.input(1)?, at.replacement()?);
    let axis = node
        .int(attribute)
        .or(0)
        .ok_or("its axis is an attribute that the function's caller sets")?;
    let axis = axis_from_front(scope, data, axis)
        .ok_or("the axis counts from the end of a rank that is not known")?;
    let length =
        sizes::every_element(scope, lengths).ok_or("its lengths are not provably all the same")?;
    if Some(length) != sizes::axis(scope, data, axis) {
        return Err(format!(
            "its lengths are all the same, but not provably the size of axis {axis}"
        )
        .into());
    }
    let flipped = emit.flip(data, axis as i64);
    emit.finish_with(flipped, format!("Slice of axis {axis} with a step of -1"))
}
