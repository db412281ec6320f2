//! The limits of a loop that is a Scan: checked once, before its steps.

use tract_onnx::tract_hir::internal::*;

use crate::limits::Limits;
use crate::loops::budget::Budget;
use crate::loops::spec::Spec;
use crate::typed_op::Stateless;

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
    pub(super) fn new(spec: &Spec, steps: &TDim, inner: u64) -> TractResult<Option<Self>> {
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
    pub(super) fn spend(&self, symbols: &SymbolValues) -> TractResult<()> {
        let number = |size: &TDim| size.eval(symbols).to_i64().ok().map(i64::unsigned_abs);
        let mut budget = Budget::of(self.limits);
        budget.take_steps(number(&self.steps).unwrap_or(u64::MAX))?;
        // A size from data that the steps do not depend on may be unknown by now.
        budget.hold(number(&self.bytes).unwrap_or(0))
    }
}

impl Stateless for Metered {
    const NAME: &str = "Metered";
    const FOLDS: bool = false;

    fn required_symbols(&self, _inputs: &[&TypedFact]) -> TVec<Symbol> {
        let symbols = self.steps.symbols().into_iter();
        symbols.chain(self.bytes.symbols()).collect()
    }

    fn eval(&self, ctx: &EvalContext<'_>, inputs: TVec<TValue>) -> TractResult<TVec<TValue>> {
        self.spend(ctx.symbols)?;
        Ok(inputs)
    }

    substitutes!(steps, bytes);
}
