//! Operators whose outputs are known to be empty.
//!
//! tract takes a value without elements for a constant, and then refuses or panics in operators
//! that it would run. Here they become constants themselves. This is the outermost of an
//! operator of tract's; those that this crate registers in their place answer for themselves.
//!
//! ```text
//! MatMul(x: [0, 4], w: [4, 8])  →  a constant of shape [0, 8]
//! ```

use tract_onnx::model::ParsingContext;
use tract_onnx::pb::NodeProto;
use tract_onnx::tract_hir::internal::*;

use crate::operator::{Operator, Parsed, Wired, Wiring, over_tract};
use crate::operators::along_axes;

/// Parses an operator of tract's.
pub(crate) fn parse(ctx: &ParsingContext<'_>, node: &NodeProto) -> Parsed {
    over_tract(ctx, node, OrNothing)
}

/// The operator over one whose outputs may be empty.
#[derive(Clone, Debug)]
pub(crate) struct OrNothing;

/// A value without elements, if it is known to have none.
fn nothing(fact: &InferenceFact) -> Option<TractResult<Tensor>> {
    let datum_type = fact.datum_type.concretize()?;
    let shape = fact.shape.concretize()?;
    let shape = shape.iter().map(|size| size.to_usize().ok());
    let shape = shape.collect::<Option<TVec<usize>>>()?;
    shape
        .contains(&0)
        .then(|| Tensor::zero_dt(datum_type, &shape))
}

impl Operator for OrNothing {
    const IS_TRANSPARENT: bool = true;

    fn wire(&self, node: &mut Wiring<'_>) -> Wired {
        let outputs = node.inferred_outputs().map(nothing);
        let Some(outputs) = outputs.collect::<Option<TVec<_>>>() else {
            let first = node.model.nodes().len();
            let outlets = node.by_upstream()?;
            along_axes::wrap(node.model, first);
            return Ok(Some(outlets));
        };
        let outputs = outputs.into_iter().map(|output| {
            let name = node.model.unique_name(node.name).into_owned();
            node.model.add_const(name, output?)
        });
        outputs.collect::<TractResult<_>>().map(Some)
    }
}
