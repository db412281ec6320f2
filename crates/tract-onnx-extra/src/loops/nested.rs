//! The graphs within the operators of a body: those of Scans and of Ifs.
//!
//! A body runs many times, while its inner operators were made to run once, or as a stream. So
//! their states are reset at each run, and their steps are counted in advance where they do not
//! count themselves.

use tract_onnx::tract_core::ops::gru_seq::GruSeq;
use tract_onnx::tract_core::ops::scan::Scan;
use tract_onnx::tract_hir::internal::*;

use crate::loops::alias::Alias;
use crate::loops::branches::Branches;

/// The name of [`Loop`](crate::Loop), which draws on its outer loop's budget itself.
pub(crate) const LOOP: &str = "Loop";

/// Resets recurrent ops within a body at each run: by default, tract's keep their states for
/// streaming.
pub(crate) fn forget_between_runs(body: &mut TypedModel) {
    for node in body.nodes_mut() {
        if let Some(scan) = node.op_as_mut::<Scan>() {
            scan.reset_every_turn = true;
            forget_between_runs(&mut scan.body);
        } else if let Some(gru) = node.op_as_mut::<GruSeq>() {
            gru.reset_every_turn = true;
        } else if let Some(Branches {
            bodies: branches, ..
        }) = node.op_as_mut()
        {
            forget_between_runs(&mut branches.then_body);
            forget_between_runs(&mut branches.else_body);
        }
    }
}

/// The steps of inner loops that became Scans, which do not use the budget when they run. `None` if
/// there is another loop, or a symbolic number of steps.
pub(crate) fn steps_within(body: &TypedModel) -> TractResult<Option<u64>> {
    let mut steps = 0_u64;
    for node in body.nodes() {
        let within = if let Some(scan) = node.op_as::<Scan>() {
            let facts = body.node_input_facts(node.id)?;
            let count = scan.iteration_count(&facts);
            let count = count.and_then(|count| count.to_i64().ok());
            // Scans of recurrent layers are bounded by their data.
            let own = if !is_loop(scan) { Some(0) } else { count };
            let within = steps_within(&scan.body)?;
            own.zip(within).map(|(own, within)| {
                let own = own.unsigned_abs();
                own.saturating_add(count.unwrap_or(1).unsigned_abs().saturating_mul(within))
            })
        } else if let Some(Branches {
            bodies: branches, ..
        }) = node.op_as()
        {
            let then = steps_within(&branches.then_body)?;
            let otherwise = steps_within(&branches.else_body)?;
            then.zip(otherwise)
                .map(|(then, otherwise)| then.max(otherwise))
        } else {
            (node.op.name() != LOOP).then_some(0)
        };
        match within {
            Some(within) => steps = steps.saturating_add(within),
            None => return Ok(None),
        }
    }
    Ok(Some(steps))
}

/// Whether a Scan comes from a loop: its outputs keep an element.
fn is_loop(scan: &Scan) -> bool {
    let mut nodes = scan.body.nodes().iter();
    nodes.any(|node| matches!(node.op_as(), Some(Alias::Barrier)) && node.inputs.len() > 1)
}
