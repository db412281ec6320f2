//! Conv. tract has no windows where one is larger than its image.

use tract_onnx::model::ParsingContext;
use tract_onnx::pb::NodeProto;
use tract_onnx::tract_core::ops::cnn::Conv;
use tract_onnx::tract_hir::internal::*;

use super::empty::OrNothing;
use crate::faster::sliding::window_facts;
use crate::operator::{Operator, Parsed, Wired, Wiring, over_tract};

/// Parses a Conv.
pub(crate) fn parse(ctx: &ParsingContext<'_>, node: &NodeProto) -> Parsed {
    over_tract(ctx, node, fitting)
}

/// Refuses windows that do not fit in an image of known size.
fn fitting(node: &mut Wiring<'_>) -> Wired {
    let image = node.input(0)?;
    if image.shape.iter().any(|size| *size == TDim::Val(0)) {
        return OrNothing.wire(node);
    }
    let outlets = node.by_upstream()?;
    let wired = node.model.node(outlets[0].node);
    if let Some(conv) = wired.op_as::<Conv>() {
        window_facts(&conv.pool_spec, &node.model.node_input_facts(wired.id)?)?;
    }
    Ok(Some(outlets))
}
