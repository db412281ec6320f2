//! The bodies of Scans, optimised by this crate's passes. tract would take its own, which nothing
//! reaches after them.

use tract_onnx::tract_core::ops::scan::{OptScan, Scan};
use tract_onnx::tract_hir::internal::*;

use super::optimized;
use crate::interrupt::BetweenSteps;

/// A Scan with its plan.
pub(super) fn planned(
    model: &TypedModel,
    node: &TypedNode,
) -> TractResult<Option<TypedModelPatch>> {
    rule_if_some!(scan = node.op_as::<Scan>());
    let mut scan = scan.clone();
    scan.body = optimized(scan.body)?;
    let op = with_plan(&scan)?;
    TypedModelPatch::replace_single_op(model, node, &node.inputs, op).map(Some)
}

/// Returns the Scan with the plan of its body, which an interrupt ends between two steps.
pub(crate) fn with_plan(scan: &Scan) -> TractResult<OptScan> {
    let planned = scan.to_codegen_op(false)?;
    let plan = SimplePlan::clone(&planned.plan).with_turn_handler(BetweenSteps);
    // tract does not export the name of this type.
    let mut parameters = (*planned).clone();
    parameters.plan = Arc::new(plan);
    Ok(OptScan::new(Arc::new(parameters)))
}
