//! ArrayFeatureExtractor, which tract gives another shape where its indices have no axis or two, or its
//! input has one.
//!
//! ```text
//! y = ArrayFeatureExtractor(x, indices)  →  y = Gather<axis=-1>(x, Reshape(indices, [-1]))
//! ```

use crate::emit::Emit;
use crate::model;
use crate::pass::{Context, Pass, Verdict};
use crate::scope::{Names, Scope};
use crate::sizes;

pub(super) const OPERATOR: &str = "ArrayFeatureExtractor";

pub(super) const PASS: Pass = Pass::exact("features", "ArrayFeatureExtractor, to Gather", find);

fn find(scope: &Scope<'_>, index: usize, _context: &Context<'_>, names: &mut Names) -> Verdict {
    let node = &scope.nodes[index];
    let [output] = &node.output[..] else {
        return Verdict::Other;
    };
    if node.domain() != "ai.onnx.ml" || node.op() != OPERATOR {
        return Verdict::Other;
    }
    let (Some(x), Some(indices)) = (node.input(0), node.input(1)) else {
        return Verdict::Left("an input is missing".to_owned());
    };
    let Some(rank) = sizes::rank(scope, x) else {
        return Verdict::Left("the number of axes of its input is not known".to_owned());
    };
    let mut emit = Emit::new(output, scope.opset, names);
    let all = emit.ints(&[-1]);
    let indices = emit.plain("Reshape", &[indices, &all]);
    let (x, last) = match rank {
        1 => (emit.unsqueeze(x, &[0]), 1),
        _ => (x.to_owned(), rank as i64 - 1),
    };
    let axis = vec![model::int("axis", last)];
    emit.write(&[output], "Gather", &[&x, &indices], axis);
    emit.finish("a Gather along the last axis".to_owned())
}
