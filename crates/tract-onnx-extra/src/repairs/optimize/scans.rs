//! The bodies of Scans, optimised by this crate's passes. tract would take its own, which nothing
//! reaches after them.

use tract_onnx::tract_core::ops::scan::Scan;
use tract_onnx::tract_hir::internal::*;

use super::optimized;

/// A Scan with its plan.
pub(super) fn planned(
    model: &TypedModel,
    node: &TypedNode,
) -> TractResult<Option<TypedModelPatch>> {
    rule_if_some!(scan = node.op_as::<Scan>());
    let mut scan = scan.clone();
    scan.body = optimized(scan.body)?;
    let op = scan.to_codegen_op(false)?;
    TypedModelPatch::replace_single_op(model, node, &node.inputs, op).map(Some)
}
