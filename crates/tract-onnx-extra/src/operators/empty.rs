//! Operators whose outputs are known to be empty.
//!
//! tract takes a value without elements for a constant, and then refuses or panics in operators
//! that it would run. Here they become constants themselves. This hook is the outermost of an
//! operator of tract's; those that this crate registers in their place answer for themselves.
//!
//! ```text
//! MatMul(x: [0, 4], w: [4, 8])  →  a constant of shape [0, 8]
//! ```

use tract_onnx::model::ParsingContext;
use tract_onnx::pb::NodeProto;
use tract_onnx::tract_hir::internal::*;

use crate::delegate::{Delegate, Hook};
use crate::node::{names, parse_with_tract};
use crate::operators::along_axes;
use crate::wire::to_typed_without_facts;

/// Replaces all of tract's operators in its ONNX loader.
pub(crate) fn register(onnx: &mut tract_onnx::Onnx) {
    // A constant is one already.
    for name in names().filter(|name| *name != "Constant") {
        onnx.op_register.0.insert(name.to_owned(), parse);
    }
}

fn parse(
    ctx: &ParsingContext<'_>,
    node: &NodeProto,
) -> TractResult<(Box<dyn InferenceOp>, Vec<String>)> {
    let (upstream, captured) = parse_with_tract(&node.op_type, ctx, node)?;
    Ok((Delegate::boxed(upstream, OrNothing), captured))
}

/// The hook of an operator whose outputs may be empty.
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

impl Hook for OrNothing {
    const IS_TRANSPARENT: bool = true;

    fn to_typed(
        &self,
        upstream: &dyn InferenceOp,
        source: &InferenceModel,
        node: &InferenceNode,
        target: &mut TypedModel,
        mapping: &HashMap<OutletId, OutletId>,
    ) -> TractResult<TVec<OutletId>> {
        let outputs = node.outputs.iter().map(|output| nothing(&output.fact));
        let Some(outputs) = outputs.collect::<Option<TVec<_>>>() else {
            let first = target.nodes().len();
            let outlets = to_typed_without_facts(upstream, source, node, target, mapping)?;
            along_axes::wrap(target, first);
            return Ok(outlets);
        };
        let outputs = outputs.into_iter().map(|output| {
            let name = target.unique_name(&*node.name).into_owned();
            target.add_const(name, output?)
        });
        outputs.collect()
    }
}
