//! The op of an If in typed models, whose condition is known when it runs.
//!
//! Both branches have outputs of the same types and ranks. A size in which they differ is a symbol
//! of the If, which gets its number from the branch that was taken. Each branch has a plan of its
//! own, from when it is optimised.
//!
//! ```text
//! If(c) { then: x[:2], else: x[:5] }: [if_size]
//! ```

use std::collections::HashMap;

use tract_onnx::tract_core::ops::logic::IfThenElse;
use tract_onnx::tract_hir::internal::*;

use crate::data_sizes::symbols_of;
use crate::loops::spec::one;
use crate::repairs::optimize;
use crate::run::run_body;
use crate::typed_op::{bound_symbols, rewired};

/// Symbols for sizes in which the branches differ, by output and axis.
pub(crate) type Sizes = HashMap<(usize, usize), TDim>;

/// tract's IfThenElse, except that outputs become known only with the condition, and that branches
/// know the sizes outside of them. tract takes a constant output of the first branch for both, and
/// rejects branches of different sizes.
#[derive(Clone, Debug)]
pub(crate) struct Branches {
    pub(crate) bodies: IfThenElse,
    pub(crate) sizes: Sizes,
    /// The plans of the optimised branches.
    plans: Option<[Arc<TypedSimplePlan>; 2]>,
}

never_equal!(Branches);

impl Branches {
    pub(crate) fn new(bodies: IfThenElse, sizes: Sizes) -> Self {
        Self {
            bodies,
            sizes,
            plans: None,
        }
    }

    fn each(&self) -> [(&TypedModel, &[usize]); 2] {
        let bodies = &self.bodies;
        [
            (&bodies.then_body, &bodies.then_input_mapping),
            (&bodies.else_body, &bodies.else_input_mapping),
        ]
    }

    fn with_sizes(&self, subs: &HashMap<Symbol, TDim>) -> TractResult<Self> {
        let mut op = self.clone();
        op.plans = None;
        for body in [&mut op.bodies.then_body, &mut op.bodies.else_body] {
            *body = body.set_symbols(subs)?;
        }
        for size in op.sizes.values_mut() {
            *size = size.substitute_all(subs)?;
        }
        Ok(op)
    }
}

impl Op for Branches {
    fn name(&self) -> StaticName {
        "If".into()
    }

    fn mints_runtime_symbols(&self) -> bool {
        true
    }

    fn required_bound_symbols(&self, inputs: &[&TypedFact]) -> TVec<Symbol> {
        let mut symbols: TVec<Symbol> = inputs.iter().flat_map(|fact| symbols_of(fact)).collect();
        symbols.extend(self.each().iter().flat_map(|(body, _)| bound_symbols(body)));
        symbols
    }

    op_as_typed_op!();
}

impl EvalOp for Branches {
    not_out_of_plan!();

    fn state(&self, _ctx: &EvalContext<'_>) -> TractResult<Option<Box<dyn OpState>>> {
        Ok(Some(Box::<BranchStates>::default()))
    }
}

/// The branches for a true and a false condition that have been taken so far; each run gives them its own
/// values and symbols.
#[derive(Clone, Debug, Default)]
struct BranchStates([Option<TypedSimpleState>; 2]);

impl OpState for BranchStates {
    fn eval(
        &mut self,
        ctx: &EvalContext<'_>,
        op: &dyn Op,
        inputs: TVec<TValue>,
    ) -> TractResult<TVec<TValue>> {
        let op = op.downcast_ref::<Branches>().context("its own op")?;
        let taken = usize::from(!one::<bool>(&inputs[0], "condition")?);
        let (body, feeds) = op.each()[taken];
        let state = match (&mut self.0[taken], &op.plans) {
            (Some(state), _) => state,
            (unused, Some(plans)) => unused.insert(plans[taken].spawn()?),
            (unused, None) => unused.insert(SimplePlan::new(body.clone())?.spawn()?),
        };
        let feeds = feeds.iter().map(|feed| inputs[*feed].clone());
        let outputs = run_body(state, ctx, feeds)?;
        state.reset_turn()?;
        Ok(outputs)
    }

    fn reset_lanes(&mut self, lanes: &[LaneId]) -> TractResult<()> {
        let mut states = self.0.iter_mut().flatten();
        states.try_for_each(|state| state.reset_lanes(lanes))
    }
}

impl TypedOp for Branches {
    fn output_facts(&self, _inputs: &[&TypedFact]) -> TractResult<TVec<TypedFact>> {
        output_facts(&self.bodies, &mut self.sizes.clone())
    }

    fn declutter(
        &self,
        model: &TypedModel,
        node: &TypedNode,
    ) -> TractResult<Option<TypedModelPatch>> {
        self.bodies.declutter(model, node)
    }

    fn codegen(
        &self,
        model: &TypedModel,
        node: &TypedNode,
    ) -> TractResult<Option<TypedModelPatch>> {
        rule_if!(self.plans.is_none());
        let mut op = self.clone();
        for body in [&mut op.bodies.then_body, &mut op.bodies.else_body] {
            *body = optimize::body(body.clone())?;
        }
        let [(then, _), (other, _)] = op.each();
        let plans = [
            SimplePlan::new(then.clone())?,
            SimplePlan::new(other.clone())?,
        ];
        op.plans = Some(plans);
        TypedModelPatch::replace_single_op(model, node, &node.inputs, op).map(Some)
    }

    fn set_symbols(
        &self,
        _source: &TypedModel,
        node: &TypedNode,
        target: &mut TypedModel,
        mapping: &HashMap<OutletId, OutletId>,
        subs: &HashMap<Symbol, TDim>,
    ) -> TractResult<TVec<OutletId>> {
        rewired(self.with_sizes(subs)?, node, target, mapping)
    }

    as_op!();
}

/// The outputs' facts for either branch.
pub(crate) fn output_facts(bodies: &IfThenElse, sizes: &mut Sizes) -> TractResult<TVec<TypedFact>> {
    let mut facts = tvec!();
    for output in 0..bodies.then_body.outputs.len() {
        let then = bodies.then_body.output_fact(output)?;
        let other = bodies.else_body.output_fact(output)?;
        ensure!(
            then.datum_type == other.datum_type && then.rank() == other.rank(),
            "its branches output {} and {}; which one is taken has to be known before it runs",
            described(then),
            described(other)
        );
        let scope = &bodies.then_body.symbols;
        let axes = std::iter::zip(then.shape.iter(), other.shape.iter()).enumerate();
        let shape: TVec<TDim> = axes
            .map(|(axis, (one, other))| join_size(sizes, (output, axis), [one, other], scope))
            .collect();
        facts.push(then.datum_type.fact(shape));
    }
    Ok(facts)
}

/// A type and a rank in words.
fn described(fact: &TypedFact) -> String {
    let axes = if fact.rank() == 1 { "axis" } else { "axes" };
    format!("{:?} of {} {axes}", fact.datum_type, fact.rank())
}

/// The size if both branches agree; otherwise a symbol, always the same one for a place.
pub(crate) fn join_size(
    sizes: &mut Sizes,
    place: (usize, usize),
    [one, other]: [&TDim; 2],
    scope: &SymbolScope,
) -> TDim {
    if one == other {
        return one.clone();
    }
    let symbol = || scope.new_with_prefix("if_size").to_dim();
    sizes.entry(place).or_insert_with(symbol).clone()
}
