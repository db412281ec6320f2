//! The shape of a NonZero that nothing else reads. tract drops the NonZero, and with it the number
//! that its size stands for.
//!
//! tract knows a value's shape before it runs, so Shape does not keep its input alive. The shape is
//! computed without the NonZero instead; a NonZero that something else reads stays, and is left
//! alone.
//!
//! ```text
//! Shape(NonZero(x))  →  [rank of x, number of elements of x that are not 0]
//! ```

use crate::model::{BOOL, INT64, NodeProto};
use crate::pass::{At, Other, Pass, Verdict};

pub(super) const PASS: Pass =
    Pass::exact("nonzero-count", "The shape of a NonZero, to a count", find);

/// The operator whose shape is read.
pub(super) const OPERATOR: &str = "NonZero";

fn find(at: &At<'_>) -> Verdict {
    let &At { scope, node, .. } = at;
    let places = at.input(0)?;
    let counted = scope.first_output_of(places, OPERATOR);
    let value = counted.and_then(|it| it.input(0)).ok_or(Other)?;
    let reads_shape = |it: &&NodeProto| it.is("Shape") && it.input(0) == Some(places);
    let shapes = scope.nodes.iter().filter(reads_shape).count();
    let part = [("start", 0), ("end", i64::MAX)].map(|(name, no)| node.int(name).or(no));
    let [Some(start), Some(end)] = part else {
        return Err(Other);
    };
    if !node.is("Shape") || !scope.defines(places) || shapes < scope.uses(places) {
        return Err(Other);
    }
    let emit = at.replacement()?;
    let ones = emit.cast(emit.cast(value, BOOL), INT64);
    let count = emit.sum(&emit.op("Reshape", (ones, [-1])), &[0]);
    let count = emit.unsqueeze(&count, &[0]);
    let rank = emit.op("Shape", emit.op("Shape", value));
    let shape = emit.concat((rank, count), 0);
    let shape = match (start, end) {
        (0, i64::MAX) => shape,
        _ => emit.range(&shape, 0, start, end),
    };
    emit.finish_with(shape, "a count of the elements that are not 0")
}
