//! The number of steps of a loop, if its inputs determine it.
//!
//! It decides the size of scan outputs. Three ways lead to it, the cheapest first: a trip count without a
//! condition, following the counters step by step (`induction.rs`), and a proof for a symbolic trip count
//! (`trips.rs`).

use tract_onnx::tract_hir::internal::*;

use crate::loops::induction::follow;
use crate::loops::spec::{Spec, one};
use crate::loops::trips::holds_until;

/// The number of steps, possibly symbolic, if the inputs determine it. Whether the initial
/// condition holds is checked when the loop runs.
pub(crate) fn steps(spec: &Spec, inputs: &[TypedFact]) -> TractResult<Option<TDim>> {
    let count = trip_count(spec, inputs);
    let starts = spec.condition.is_none_or(|input| holds(&inputs[input]));
    if count.is_some() && starts && !spec.gives_condition {
        return Ok(count);
    }
    let never_starts = |fact: &TypedFact| truth(fact) == Some(false);
    if spec.condition.is_some_and(|it| never_starts(&inputs[it])) {
        return Ok(Some(0.to_dim()));
    }
    if let Some(steps) = follow(spec, inputs)? {
        return Ok(Some(steps.to_dim()));
    }
    Ok(count.filter(|count| count.as_i64().is_none() && holds_until(spec, inputs, count)))
}

/// The trip count: a known one, or a symbolic one that is not negative, like a size.
fn trip_count(spec: &Spec, inputs: &[TypedFact]) -> Option<TDim> {
    let count = inputs[spec.trip_count?].konst.as_ref()?;
    if count.datum_type() != TDim::datum_type() {
        // tract's cast to TDim keeps only 32 bits.
        let count: i64 = one(count, "trip count").ok()?;
        return Some(count.max(0).to_dim());
    }
    let count = count.to_plain_array_view::<TDim>().ok()?;
    let count = count.iter().next()?;
    match count.to_i64() {
        Ok(count) => Some(count.max(0).to_dim()),
        Err(_) => {
            let mut sizes = inputs.iter().flat_map(|input| input.shape.iter());
            let is_size = sizes.any(|size| size == count);
            (is_size || count.prove_positive_or_zero()).then(|| count.clone())
        }
    }
}

/// Whether a condition is known to be true.
pub(crate) fn holds(fact: &TypedFact) -> bool {
    truth(fact) == Some(true)
}

/// The only element of a known condition.
fn truth(fact: &TypedFact) -> Option<bool> {
    one(fact.konst.as_ref()?, "condition").ok()
}
