//! Random numbers. tract tells operators of another value's shape by the names of nodes.

use tract_onnx::model::ParsingContext;
use tract_onnx::pb::NodeProto;
use tract_onnx::tract_hir::internal::*;

use super::empty::OrNothing;
use crate::delegate::Delegate;
use crate::node::{check_domain, parse_with_tract};

pub(crate) const OPERATORS: [&str; 4] = [
    "RandomNormal",
    "RandomNormalLike",
    "RandomUniform",
    "RandomUniformLike",
];

/// Parses one of [`OPERATORS`].
pub(crate) fn parse(
    ctx: &ParsingContext<'_>,
    node: &NodeProto,
) -> TractResult<(Box<dyn InferenceOp>, Vec<String>)> {
    check_domain(node)?;
    let node = NodeProto {
        name: node.op_type.clone(),
        ..node.clone()
    };
    let (upstream, captured) = parse_with_tract(&node.op_type, ctx, &node)?;
    Ok((Delegate::boxed(upstream, OrNothing), captured))
}
