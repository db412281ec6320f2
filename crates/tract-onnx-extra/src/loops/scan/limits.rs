//! Whether a loop stays what it is as a Scan, whose states and limits nothing checks when it runs.
//!
//! The number of steps is known or a symbol by then. With limits and a symbol there is nothing to
//! compare, so the loop stays one that counts.

use tract_onnx::tract_hir::internal::*;

use super::Why;
use crate::limits::Limits;
use crate::loops::budget::Budget;
use crate::loops::induction::Induction;
use crate::loops::nested::steps_within;
use crate::loops::spec::{Feed, Spec};

/// Checks that a loop can be a Scan: it has a step, or an unknown number of them; states keep their
/// shapes; no output is known to be empty, which would make it a constant; and no limit is
/// exceeded.
///
/// A limit that only the run can check is returned.
pub(super) fn check(
    spec: &Spec,
    induction: &Induction,
) -> TractResult<Result<Option<Metered>, Why>> {
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
    let Some(inner) = steps_within(&spec.body)? else {
        // A loop in it has to see the remaining budget.
        return Ok(match spec.limits.steps.or(spec.limits.bytes) {
            Some(_) => Err(Why::InnerLoop),
            None => Ok(None),
        });
    };
    let metered = Metered::new(spec, &induction.steps, inner)?;
    Ok(match (induction.steps.to_i64(), metered) {
        (_, None) => Ok(None),
        (Ok(_), Some(metered)) => match metered.spend(&SymbolValues::default()) {
            Ok(()) => Ok(None),
            Err(_) => Err(Why::Limits),
        },
        (Err(_), metered) => Ok(metered),
    })
}

/// Passes a value on, once the steps of a Scan, whose number the run decides, and the bytes of its
/// outputs have been found to be within the limits. tract's Scan knows no limits.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Metered {
    /// The steps of the Scan, those of the Scans in it included.
    steps: TDim,
    /// The bytes of all stacked outputs.
    bytes: TDim,
    limits: Limits,
}

impl Metered {
    /// Returns the steps and the bytes to check; `None` if there are no limits.
    fn new(spec: &Spec, steps: &TDim, inner: u64) -> TractResult<Option<Self>> {
        let limits = spec.limits;
        if limits.steps.is_none() && limits.bytes.is_none() {
            return Ok(None);
        }
        let each = i64::try_from(inner.saturating_add(1)).unwrap_or(i64::MAX);
        let mut bytes = 0.to_dim();
        for scan in 0..spec.scans {
            let fact = spec.body.output_fact(spec.scan_output(scan))?;
            bytes += fact.shape.volume() * fact.datum_type.size_of() as i64;
        }
        Ok(Some(Self {
            steps: steps.clone() * each,
            bytes: bytes * steps.clone(),
            limits,
        }))
    }

    /// Takes the steps and the bytes from the budget of the loops around it, and gives the bytes
    /// back.
    fn spend(&self, symbols: &SymbolValues) -> TractResult<()> {
        let number = |size: &TDim| size.eval(symbols).to_i64().ok().map(i64::unsigned_abs);
        let mut budget = Budget::of(self.limits);
        budget.take_steps(number(&self.steps).unwrap_or(u64::MAX))?;
        // A size from data that the steps do not depend on may be unknown by now.
        budget.hold(number(&self.bytes).unwrap_or(0))
    }
}

impl Op for Metered {
    fn name(&self) -> StaticName {
        "Metered".into()
    }

    fn required_bound_symbols(&self, _inputs: &[&TypedFact]) -> TVec<Symbol> {
        let symbols = self.steps.symbols().into_iter();
        symbols.chain(self.bytes.symbols()).collect()
    }

    op_as_typed_op!();
}

impl EvalOp for Metered {
    not_out_of_plan!();

    fn eval(&self, ctx: &EvalContext<'_>, inputs: TVec<TValue>) -> TractResult<TVec<TValue>> {
        self.spend(ctx.symbols)?;
        Ok(inputs)
    }
}

impl TypedOp for Metered {
    fn output_facts(&self, inputs: &[&TypedFact]) -> TractResult<TVec<TypedFact>> {
        Ok(tvec!(inputs[0].without_value()))
    }

    substitutes!(steps, bytes);

    as_op!();
}
