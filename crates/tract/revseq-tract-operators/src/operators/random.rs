//! Random numbers. tract tells operators of another value's shape by the names of nodes.

use tract_onnx::model::ParsingContext;
use tract_onnx::pb::NodeProto;

use super::empty::OrNothing;
use crate::operator::{Parsed, over_tract};

/// Parses one of the random operators.
pub(crate) fn parse(ctx: &ParsingContext<'_>, node: &NodeProto) -> Parsed {
    let node = NodeProto {
        name: node.op_type.clone(),
        ..node.clone()
    };
    over_tract(ctx, &node, OrNothing)
}
