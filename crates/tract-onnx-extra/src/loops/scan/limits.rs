//! Whether a loop stays what it is as a Scan, whose states and limits nothing checks when it runs.
//!
//! The number of steps is known or a symbol by then. With limits and a symbol there is nothing to
//! compare, so the loop stays one that counts.

use tract_onnx::tract_hir::internal::*;

use super::Why;
use crate::loops::induction::Induction;
use crate::loops::nested::steps_within;
use crate::loops::spec::{Feed, Spec};

/// Checks that a loop can be a Scan: it has a step, or an unknown number of them; states keep their
/// shapes; no output is known to be empty, which would make it a constant; and no limit is exceeded.
pub(super) fn check(spec: &Spec, induction: &Induction) -> TractResult<Result<(), Why>> {
    let body = &spec.body;
    let states = std::iter::zip(&body.inputs, &spec.feeds).all(|(input, feed)| match *feed {
        Feed::State(state) if !induction.last.contains_key(&state) => {
            let before = body.outlet_fact(*input).ok();
            let after = body.output_fact(spec.state_output(state)).ok();
            before.zip(after).is_some_and(|(before, after)| {
                before.datum_type == after.datum_type && before.shape == after.shape
            })
        }
        _ => true,
    });
    if !states {
        return Ok(Err(Why::StateChanges));
    }
    let mut outputs = (0..body.outputs.len()).filter_map(|it| body.output_fact(it).ok());
    if induction.steps == 0.to_dim() || outputs.any(|fact| fact.shape.volume() == 0.to_dim()) {
        return Ok(Err(Why::Empty));
    }
    Ok(match is_within_limits(spec, induction)? {
        true => Ok(()),
        false => Err(Why::Limits),
    })
}

/// Whether the Scan stays within the limits, which nothing checks when it runs.
fn is_within_limits(spec: &Spec, induction: &Induction) -> TractResult<bool> {
    let limits = spec.limits;
    let steps = induction.steps.to_i64().map(i64::unsigned_abs);
    let Ok(steps) = steps else {
        return Ok(limits.steps.is_none() && limits.bytes.is_none());
    };
    let within = |limit: Option<u64>, found: u64| limit.is_none_or(|limit| found <= limit);
    if limits.steps.is_some() || limits.bytes.is_some() {
        // An inner loop has to see the remaining budget.
        let Some(inner) = steps_within(&spec.body)? else {
            return Ok(false);
        };
        if !within(limits.steps, steps.saturating_mul(inner.saturating_add(1))) {
            return Ok(false);
        }
    }
    let mut bytes = 0_u64;
    for scan in 0..spec.scans {
        let fact = spec.body.output_fact(spec.scan_output(scan))?;
        let elements = fact.shape.volume().to_usize().unwrap_or(0) as u64;
        let each = elements.saturating_mul(fact.datum_type.size_of() as u64);
        bytes = bytes.saturating_add(each.saturating_mul(steps));
    }
    Ok(within(limits.bytes, bytes))
}
