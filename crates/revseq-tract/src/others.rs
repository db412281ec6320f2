//! Reads nodes with tract or tract-onnx-extra.

use std::sync::LazyLock;

use tract_onnx::model::{OnnxOpRegister, ParsingContext};
use tract_onnx::pb::NodeProto;
use tract_onnx::tract_hir::internal::*;

/// The parsers of both, for all models.
static OTHERS: LazyLock<OnnxOpRegister> = LazyLock::new(|| {
    let mut onnx = tract_onnx::onnx();
    tract_onnx_extra::register(&mut onnx);
    onnx.op_register
});

/// Reads a node as it is read without this crate.
pub(crate) fn parse(
    ctx: &ParsingContext<'_>,
    node: &NodeProto,
) -> TractResult<(Box<dyn InferenceOp>, Vec<String>)> {
    let operator = &node.op_type;
    let parse = OTHERS.0.get(operator);
    parse.with_context(|| format!("tract has no {operator}"))?(ctx, node)
}
