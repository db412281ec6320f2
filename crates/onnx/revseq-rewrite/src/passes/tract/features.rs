//! ArrayFeatureExtractor, which tract gives another shape where its indices have no axis or two, or its
//! input has one.
//!
//! ```text
//! y = ArrayFeatureExtractor(x, indices)  →  y = Gather<axis=-1>(x, Reshape(indices, [-1]))
//! ```

use crate::pass::{At, Other, Pass, Verdict};
use crate::sizes;

pub(super) const PASS: Pass = Pass::exact("features", "ArrayFeatureExtractor, to Gather", find)
    .of_domain("ai.onnx.ml", &["ArrayFeatureExtractor"]);

fn find(at: &At<'_>) -> Verdict {
    let &At { scope, node, .. } = at;
    let [output] = &node.output[..] else {
        return Err(Other);
    };
    let (Some(x), Some(indices)) = (node.input(0), node.input(1)) else {
        return Err("an input is missing".into());
    };
    let rank = sizes::rank(scope, x).ok_or("the number of axes of its input is not known")?;
    let emit = at.emit(output);
    let indices = emit.op("Reshape", (indices, [-1]));
    let gathered = match rank {
        1 => emit.gather(&emit.unsqueeze(x, &[0]), indices, 1),
        _ => emit.gather(x, indices, rank as i64 - 1),
    };
    emit.finish_with(gathered, "a Gather along the last axis")
}
