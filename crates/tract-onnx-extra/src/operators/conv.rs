//! Conv. tract has no windows where one is larger than its image.

use tract_onnx::model::ParsingContext;
use tract_onnx::pb::NodeProto;
use tract_onnx::tract_core::ops::cnn::Conv;
use tract_onnx::tract_hir::internal::*;

use super::empty::OrNothing;
use crate::delegate::{Delegate, Hook};
use crate::node::{check_domain, parse_with_tract};
use crate::sliding::window_facts;
use crate::wire::to_typed_without_facts;

/// Parses a Conv.
pub(crate) fn parse(
    ctx: &ParsingContext<'_>,
    node: &NodeProto,
) -> TractResult<(Box<dyn InferenceOp>, Vec<String>)> {
    check_domain(node)?;
    let (upstream, captured) = parse_with_tract("Conv", ctx, node)?;
    Ok((Delegate::boxed(upstream, Fitting), captured))
}

/// Refuses windows that do not fit in an image of known size.
#[derive(Clone, Debug)]
struct Fitting;

impl Hook for Fitting {
    fn to_typed(
        &self,
        upstream: &dyn InferenceOp,
        source: &InferenceModel,
        node: &InferenceNode,
        target: &mut TypedModel,
        mapping: &HashMap<OutletId, OutletId>,
    ) -> TractResult<TVec<OutletId>> {
        let image = target.outlet_fact(mapping[&node.inputs[0]])?;
        if image.shape.iter().any(|size| *size == TDim::Val(0)) {
            return OrNothing.to_typed(upstream, source, node, target, mapping);
        }
        let outlets = to_typed_without_facts(upstream, source, node, target, mapping)?;
        let wired = target.node(outlets[0].node);
        if let Some(conv) = wired.op_as::<Conv>() {
            window_facts(&conv.pool_spec, &target.node_input_facts(wired.id)?)?;
        }
        Ok(outlets)
    }
}
