//! BatchNormalization. tract's takes one by the statistics of its own batch for one by given ones.

use tract_onnx::model::ParsingContext;
use tract_onnx::pb::NodeProto;
use tract_onnx::tract_hir::internal::*;

use super::empty;
use crate::operator::Parsed;

/// Parses a BatchNormalization.
pub(crate) fn parse(ctx: &ParsingContext<'_>, node: &NodeProto) -> Parsed {
    let is_training = node.get_attr_opt::<i64>("training_mode")?.unwrap_or(0) != 0;
    ensure!(!is_training, "its training_mode is 1, expected 0");
    empty::parse(ctx, node)
}
