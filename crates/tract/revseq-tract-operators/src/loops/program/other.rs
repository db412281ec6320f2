//! The loop that a program stands for.

use std::sync::{Mutex, PoisonError};

use tract_onnx::tract_hir::internal::*;

use crate::profile;
use crate::repairs::optimize::optimized;

/// A loop of this crate's or a Scan of tract's, which runs where a program turns out to lack something:
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
        let mut model = TypedModel {
            symbols: symbols.clone(),
            ..TypedModel::default()
        };
        let mut inputs = vec![];
        let mut outlets = vec![];
        for (slot, fact) in facts.iter().enumerate() {
            let name = format!("input {slot}");
            // tract takes values without elements for constants.
            let empty = fact.shape.as_concrete().filter(|shape| shape.contains(&0));
            outlets.push(match (&fact.konst, empty) {
                (Some(value), _) => model.add_const(name, Arc::clone(value))?,
                (None, Some(shape)) => {
                    model.add_const(name, Tensor::zero_dt(fact.datum_type, shape)?)?
                }
                (None, None) => {
                    inputs.push(slot);
                    model.add_source(name, (*fact).clone())?
                }
            });
        }
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
        let mut state = self.plan()?.spawn()?;
        state.turn_state.resolved_symbols = ctx.symbols.clone();
        state.turn_state.scenario = ctx.scenario;
        for (index, input) in inputs.into_iter().enumerate() {
            state.set_input(index, input)?;
        }
        profile::exec(&mut state)?;
        state.outputs()
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
