//! The loop that a program stands for.

use std::sync::{Mutex, PoisonError};

use tract_onnx::tract_hir::internal::*;

use crate::repairs::optimize::optimized;
use crate::run::run_body;
use crate::wire::alone;

/// A loop of this crate's, which runs where a program turns out to lack something:
/// programs are made when the sizes are known.
#[derive(Debug)]
pub(crate) struct Other {
    /// The loop alone, in which what is known around it is constant.
    model: TypedModel,
    /// The inputs of the node that it has.
    pub(super) inputs: Vec<usize>,
    /// Its plan, once it has run.
    plan: Mutex<Option<Arc<TypedSimplePlan>>>,
}

impl Other {
    /// Wires a node into a model of its own, with inputs of these facts.
    pub(crate) fn of(
        symbols: &SymbolScope,
        facts: &[&TypedFact],
        wire: impl FnOnce(&mut TypedModel, &[OutletId]) -> TractResult<TVec<OutletId>>,
    ) -> TractResult<Self> {
        let (mut model, outlets) = alone(symbols.clone(), facts.iter().copied())?;
        let is_input = |slot: &usize| model.inputs.contains(&outlets[*slot]);
        let inputs = (0..outlets.len()).filter(is_input).collect();
        let made = wire(&mut model, &outlets)?;
        model.select_output_outlets(&made)?;
        Ok(Self {
            model,
            inputs,
            plan: Mutex::default(),
        })
    }

    /// The facts of its outputs, without their values.
    pub(crate) fn facts(&self) -> TractResult<Vec<TypedFact>> {
        let outputs = self.model.outputs.iter();
        let facts = outputs.map(|output| Ok(self.model.outlet_fact(*output)?.without_value()));
        facts.collect()
    }

    /// The same with others in place of symbols.
    pub(super) fn substituted(&self, subs: &HashMap<Symbol, TDim>) -> TractResult<Self> {
        Ok(Self {
            model: self.model.set_symbols(subs)?,
            inputs: self.inputs.clone(),
            plan: Mutex::default(),
        })
    }

    /// Runs it on its inputs.
    pub(super) fn run(
        &self,
        ctx: &EvalContext<'_>,
        inputs: TVec<TValue>,
    ) -> TractResult<TVec<TValue>> {
        run_body(&mut self.plan()?.spawn()?, ctx, inputs)
    }

    fn plan(&self) -> TractResult<Arc<TypedSimplePlan>> {
        let mut plan = self.plan.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(plan) = &*plan {
            return Ok(Arc::clone(plan));
        }
        let made = SimplePlan::new(optimized(self.model.clone())?)?;
        Ok(Arc::clone(plan.insert(made)))
    }
}
