//! ReverseSequence whose lengths are all of the axis, to Slice with a step of -1.

use super::{Edit, Pass, PassInfo, Verdict};
use crate::constant;
use crate::driver::Context;
use crate::emit::{Emit, SLICE_BY_INPUTS};
use crate::report::Exactness;
use crate::scope::{Names, Scope};
use crate::sizes;

pub(super) const PASS: Pass = Pass {
    info: PassInfo {
        name: "full-flip",
        exactness: Exactness::Exact,
        about: "ReverseSequence and ReverseSubsequences over the whole axis, to Slice",
        portable: true,
        fast: true,
    },
    find,
};

/// Before the first element of any axis; how PyTorch writes it, so runtimes know it.
const BEFORE_THE_FIRST: i64 = -i64::MAX;

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
        return Verdict::Left("its axis is what the function's caller says".to_owned());
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
    if let Err(why) = scope.needs("Slice with steps", SLICE_BY_INPUTS) {
        return Verdict::Left(why);
    }
    let mut emit = Emit::new(output, scope.opset, names);
    flip_into(&mut emit, output, data, axis as i64);
    Verdict::Edit(Edit {
        nodes: emit.nodes,
        also: Vec::new(),
        same: Vec::new(),
        what: format!("Slice of axis {axis} with a step of -1"),
    })
}

/// Writes a flip of an axis from end to end.
pub(super) fn flip_into(emit: &mut Emit<'_>, output: &str, data: &str, axis: i64) {
    let starts = emit.ints(&[-1]);
    let ends = emit.ints(&[BEFORE_THE_FIRST]);
    let axes = emit.ints(&[axis]);
    emit.write(
        &[output],
        "Slice",
        &[data, &starts, &ends, &axes, &starts],
        Vec::new(),
    );
}
