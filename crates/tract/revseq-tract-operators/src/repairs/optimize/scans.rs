//! The bodies of Scans, loops and branches, optimised by this crate's passes. tract would take its own, which
//! nothing reaches after them.

use tract_onnx::tract_core::ops::scan::{InputMapping, OptScan, Scan};
use tract_onnx::tract_hir::internal::*;

use super::{into_decluttered, optimized};
use crate::loops::scan::metered::Metered;
use crate::run::BetweenSteps;
use crate::typed_op::Typed;
use crate::wire;

/// The body of an operator, optimised.
pub(crate) fn body(body: TypedModel) -> TractResult<TypedModel> {
    optimized(into_decluttered(body)?)
}

/// A Scan with its plan.
pub(super) fn planned(
    model: &TypedModel,
    node: &TypedNode,
) -> TractResult<Option<TypedModelPatch>> {
    rule_if_some!(scan = node.op_as::<Scan>());
    let mut scan = scan.clone();
    scan.body = optimized(scan.body)?;
    let inputs = without_unread_inputs(&mut scan, model, &node.inputs)?;
    let scan = with_plan(&scan)?;
    TypedModelPatch::replace_single_op(model, node, &inputs, scan).map(Some)
}

/// Takes unread inputs from a Scan, whose elements would be copied for nothing, and returns the values of
/// the others.
fn without_unread_inputs(
    scan: &mut Scan,
    model: &TypedModel,
    inputs: &[OutletId],
) -> TractResult<TVec<OutletId>> {
    let body = &mut scan.body;
    let is_read = |input: usize| {
        scan.input_mapping[input].is_state()
            || model.node(inputs[input].node).op_is::<Typed<Metered>>()
            || wire::is_read(body, body.inputs[input])
    };
    let all = 0..inputs.len();
    let mut kept: TVec<usize> = all.clone().filter(|input| is_read(*input)).collect();
    let is_scanned = |input: &usize| scan.input_mapping[*input].is_scan();
    if !kept.iter().any(is_scanned) {
        // A scan input determines the number of steps.
        kept.extend(all.rev().find(is_scanned));
    }
    if kept.len() < inputs.len() {
        body.inputs = kept.iter().map(|input| body.inputs[*input]).collect();
        body.compact()?;
        let mapping = kept.iter().map(|input| scan.input_mapping[*input].clone());
        scan.input_mapping = mapping.collect::<Vec<InputMapping>>();
    }
    Ok(kept.iter().map(|input| inputs[*input]).collect())
}

/// Returns the Scan with the plan of its body, which an interrupt ends between two steps.
fn with_plan(scan: &Scan) -> TractResult<OptScan> {
    let planned = scan.to_codegen_op(false)?;
    let plan = SimplePlan::clone(&planned.plan).with_turn_handler(BetweenSteps);
    // tract does not export the name of this type.
    let mut parameters = (*planned).clone();
    parameters.plan = Arc::new(plan);
    Ok(OptScan::new(Arc::new(parameters)))
}
