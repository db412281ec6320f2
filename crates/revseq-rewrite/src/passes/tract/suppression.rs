//! NonMaxSuppression with scalar limits, where tract expects vectors.
//!
//! A limit of unknown rank is reshaped as well, which does no harm to a vector of one element.
//!
//! ```text
//! NonMaxSuppression(boxes, scores, 5)  →  NonMaxSuppression(boxes, scores, Reshape(5, [1]))
//! ```

use crate::emit::Emit;
use crate::pass::{Context, Pass, PassInfo, Verdict};
use crate::report::Exactness;
use crate::scope::{Names, Scope};
use crate::sizes;

pub(super) const PASS: Pass = Pass {
    info: PassInfo {
        name: "suppression-limits",
        exactness: Exactness::Exact,
        about: "NonMaxSuppression with scalars as limits, to one with vectors of one element",
        portable: false,
        fast: false,
    },
    find,
};

/// The inputs that are limits: of the number of boxes, their overlap and their scores.
const LIMITS: [usize; 3] = [2, 3, 4];

fn find(scope: &Scope<'_>, index: usize, _context: &Context<'_>, names: &mut Names) -> Verdict {
    let node = &scope.nodes[index];
    let Some(output) = node.output.first() else {
        return Verdict::Other;
    };
    if !node.is("NonMaxSuppression") {
        return Verdict::Other;
    }
    let has_no_axis = |&limit: &usize| {
        let value = node.input(limit);
        value.is_some_and(|value| !is_made_so(scope, value) && sizes::rank(scope, value) != Some(1))
    };
    let limits: Vec<usize> = LIMITS.into_iter().filter(has_no_axis).collect();
    if limits.is_empty() {
        return Verdict::Other;
    }
    let mut emit = Emit::new(output, scope.opset, names);
    let mut inputs = node.input.clone();
    for &limit in &limits {
        let one = emit.ints(&[1]);
        inputs[limit] = emit.plain("Reshape", &[&inputs[limit], &one]);
    }
    let inputs: Vec<&str> = inputs.iter().map(String::as_str).collect();
    let attributes = node.attribute.clone();
    emit.write(&[output], "NonMaxSuppression", &inputs, attributes);
    emit.finish("the same with vectors of one element as limits".to_owned())
}

/// Whether a Reshape makes a value a vector of one element, as this pass does: the next round must
/// find nothing, even if no rank is known.
fn is_made_so(scope: &Scope<'_>, name: &str) -> bool {
    let node = scope.first_output_of(name, "Reshape");
    let shape = node.and_then(|node| crate::constant::ints(scope, node.input(1)?));
    shape.is_some_and(|shape| shape == [1])
}
