//! Whether a loop stays what it is as a Scan, whose states and limits nothing checks when it runs.
//!
//! The number of steps is known or a symbol by then. With limits and a symbol there is nothing to
//! compare, so the loop stays one that counts.

use tract_onnx::tract_hir::internal::*;

use super::Why;
use super::metered::Metered;
use crate::loops::induction::Induction;
use crate::loops::nested::steps_within;
use crate::loops::spec::{Feed, Spec};

/// Checks that a loop can be a Scan: it has a step, or an unknown number of them; states keep their
/// shapes; no output is known to be empty, which would make it a constant; and no limit is
/// exceeded.
///
/// A limit that only the run can check is returned.
pub(super) fn check(spec: &Spec, induction: &Induction) -> Result<Option<Metered>, Why> {
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
        return Err(Why::StateChanges);
    }
    let mut outputs = (0..body.outputs.len()).filter_map(|it| body.output_fact(it).ok());
    if induction.steps == 0.to_dim() || outputs.any(|fact| fact.shape.volume() == 0.to_dim()) {
        return Err(Why::Empty);
    }
    let Some(inner) = steps_within(&spec.body)? else {
        // A loop in it has to see the remaining budget.
        return match spec.limits.steps.or(spec.limits.bytes) {
            Some(_) => Err(Why::InnerLoop),
            None => Ok(None),
        };
    };
    let metered = Metered::new(spec, &induction.steps, inner)?;
    match (induction.steps.to_i64(), metered) {
        (Ok(_), Some(metered)) => match metered.spend(&SymbolValues::default()) {
            Ok(()) => Ok(None),
            Err(_) => Err(Why::Limits),
        },
        (_, metered) => Ok(metered),
    }
}
