//! Inputs of one element, where tract expects a scalar and gets a vector, or the other way; and values
//! of Pads that do not read them, by which tract pads in all modes.
//!
//! An input of unknown rank is reshaped as well, which does no harm.
//!
//! ```text
//! NonMaxSuppression(boxes, scores, 5)  →  NonMaxSuppression(boxes, scores, [5])
//! CumSum(x, [1])                       →  CumSum(x, 1)
//! Pad<mode=edge>(x, pads, 0)           →  Pad<mode=edge>(x, pads)
//! ```

use crate::constant;
use crate::model::{NodeProto, TensorProto};
use crate::pass::{At, Other, Pass, Verdict};
use crate::scope::Scope;
use crate::sizes;

pub(super) const PASS: Pass = Pass::exact(
    "scalar-inputs",
    "scalars and vectors of one element, to what tract expects",
    find,
)
.of(&["CumSum", "NonMaxSuppression", "Pad", "Trilu"]);

/// The inputs of one element, and the number of axes that tract expects.
const INPUTS: [(&str, &[usize], usize); 4] = [
    ("CumSum", &[1], 0),
    ("NonMaxSuppression", &[2, 3, 4], 1),
    ("Pad", &[2], 0),
    ("Trilu", &[1], 0),
];

fn find(at: &At<'_>) -> Verdict {
    let &At { scope, node, .. } = at;
    let output = at.output()?;
    let inputs = INPUTS.iter().find(|(operator, ..)| node.is(operator));
    let (_, inputs, rank) = inputs.ok_or(Other)?;
    let other = |&&input: &&usize| {
        let value = node.input(input);
        value.is_some_and(|value| !has_rank(scope, value, *rank))
    };
    let is_unread = is_unread(node);
    let others: Vec<usize> = match is_unread {
        true => vec![2],
        false => inputs.iter().filter(other).copied().collect(),
    };
    if others.is_empty() {
        return Err(Other);
    }
    let emit = at.emit(output);
    let mut changed = node.input.clone();
    for input in others {
        changed[input] = match constant::tensor(scope, &node.input[input]) {
            _ if is_unread => String::new(),
            Some(tensor) if is_one(tensor) => emit.tensor(TensorProto {
                dims: vec![1; *rank],
                ..tensor.clone()
            }),
            _ => emit.op("Reshape", (&changed[input], &*vec![1; *rank])),
        };
    }
    emit.copy(NodeProto {
        input: changed,
        ..node.clone()
    });
    emit.finish("the same with inputs of other ranks")
}

fn is_one(tensor: &TensorProto) -> bool {
    tensor.dims.iter().all(|size| *size == 1)
}

/// Whether a node is a Pad with a value that it does not read.
fn is_unread(node: &NodeProto) -> bool {
    let mode = node.text("mode").or("constant");
    node.is("Pad") && node.input(2).is_some() && mode != Some("constant")
}

/// Whether a value has a number of axes. A Reshape that this pass makes gives it, even if no rank is known.
fn has_rank(scope: &Scope<'_>, name: &str, rank: usize) -> bool {
    let node = scope.first_output_of(name, "Reshape");
    let shape = node.and_then(|node| constant::ints(scope, node.input(1)?));
    shape.is_some_and(|shape| shape.len() == rank) || sizes::rank(scope, name) == Some(rank)
}
