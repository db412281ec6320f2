//! Sizes of a Reshape that turn out to be 0, of which ONNX makes the size of the input's axis.
//!
//! A size that is an expression stands for itself in a plan. Where it may be 0 in a run, and is not that of
//! the same axis of the input, it is looked at when the model runs.
//!
//! ```text
//! Reshape(x: [T, U, 3], [T, 1, U, 3]): [T, 1, U, 3], for U = 0 an error: ONNX's shape is [T, 1, 3, 3]
//! ```

use tract_onnx::tract_hir::internal::*;

use crate::dims::{self, least};
use crate::operator::{Wired, Wiring};
use crate::other_sizes::OtherSizes;
use crate::typed_op::{Stateless, Typed};

/// Wires a Reshape that does not take a 0 literally.
pub(super) fn looked_at(node: &mut Wiring<'_>) -> Wired {
    rule_if_some!(to = &node.input(1)?.konst);
    let sizes = read_as_others(&node.input(0)?.shape, &dims::sizes(to)?);
    if !sizes.is_empty() {
        node.inputs[0] = node.op("sizes", Typed(NotZero { sizes }), &[node.inputs[0]])?;
    }
    Ok(None)
}

/// The sizes that would be those of the input's axes if they were 0.
fn read_as_others(data: &[TDim], to: &[TDim]) -> TVec<TDim> {
    let is_number = |size: &TDim| size.to_i64().is_ok();
    let may_differ = |(data, to): &(&TDim, &TDim)| {
        data != to && !is_number(to) && least(to).is_none_or(|least| least < 1)
    };
    let pairs = std::iter::zip(data, to).filter(may_differ);
    pairs.map(|(_, to)| to.clone()).collect()
}

/// Passes a value on if sizes are not 0.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct NotZero {
    sizes: TVec<TDim>,
}

impl Stateless for NotZero {
    const NAME: &str = "NotZero";
    const FOLDS: bool = false;
    const PASSES_AXES: bool = true;

    fn required_symbols(&self, _inputs: &[&TypedFact]) -> TVec<Symbol> {
        self.sizes.iter().flat_map(TDim::symbols).collect()
    }

    fn eval(&self, ctx: &EvalContext<'_>, inputs: TVec<TValue>) -> TractResult<TVec<TValue>> {
        for size in &self.sizes {
            if size.maybe_eval_to_i64(ctx.symbols) == Some(0) {
                let what =
                    format!("it reshapes to a size of {size}, which is 0 and stands for another");
                return Err(OtherSizes::error(what));
            }
        }
        Ok(inputs)
    }

    fn forwards_input(&self) -> bool {
        true
    }

    substitutes!(sizes);
}
