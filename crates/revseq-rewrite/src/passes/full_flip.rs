//! ReverseSequence whose lengths cover the axis, to Slice with a step of -1.
//!
//! The lengths have to be proved equal, and equal to the axis's size: both may be symbols or follow
//! from shapes. The passes about reversals then know the axis alone, and no lengths.
//!
//! ```text
//! ReverseSequence(x, Expand(Shape(x)[0], [N]), time 0, batch 1)  →  x[::-1]
//! ```

use crate::constant;
use crate::emit::Emit;
use crate::pass::{Context, Pass, Verdict};
use crate::scope::{Names, Scope};
use crate::sizes;

pub(super) const PASS: Pass = Pass::exact(
    "full-flip",
    "ReverseSequence and ReverseSubsequences over the whole axis, to Slice",
    find,
)
.portable()
.fast();

fn find(scope: &Scope<'_>, index: usize, _: &Context<'_>, names: &mut Names) -> Verdict {
    let node = &scope.nodes[index];
    let default_axis = match (node.domain(), node.op()) {
        ("", "ReverseSequence") => ("time_axis", 0),
        ("revseq", "ReverseSubsequences") => ("axis", 0),
        _ => return Verdict::Other,
    };
    let (Some(data), Some(lengths), Some(output)) =
        (node.input(0), node.input(1), node.output.first())
    else {
        return Verdict::Other;
    };
    let Some(axis) = node.int(default_axis.0).or(default_axis.1) else {
        return Verdict::Left(
            "its axis is an attribute that the function's caller sets".to_owned(),
        );
    };
    let rank = sizes::rank(scope, data);
    let axis = match rank {
        Some(rank) => constant::normal_axis(axis, rank),
        None => usize::try_from(axis).ok(),
    };
    let Some(axis) = axis else {
        return Verdict::Left(
            "the axis counts from the end of a rank that is not known".to_owned(),
        );
    };
    let Some(length) = sizes::every_element(scope, lengths) else {
        return Verdict::Left("its lengths are not provably all the same".to_owned());
    };
    if Some(length) != sizes::axis(scope, data, axis) {
        return Verdict::Left(format!(
            "its lengths are all the same, but not provably the size of axis {axis}"
        ));
    }
    let mut emit = Emit::new(output, scope.opset, names);
    emit.flip_into(output, data, axis as i64);
    emit.finish(format!("Slice of axis {axis} with a step of -1"))
}
