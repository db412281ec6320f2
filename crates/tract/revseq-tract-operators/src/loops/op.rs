//! The op in typed models.
//!
//! The body is optimised with the model around it, and has its plan from then on. A [`Spec`] never
//! changes: each rewrite makes a new operator.

use tract_onnx::tract_core::ops::konst::Const;
use tract_onnx::tract_core::optim::OptimizerSession;
use tract_onnx::tract_hir::internal::*;

use super::run;
use crate::loops::spec::{Feed, Spec};
use crate::repairs::optimize;
use crate::typed_op::{Sizes, bound_symbols, rewired};
use crate::wire::is_read;

/// The name of [`Loop`].
pub(crate) const LOOP: &str = "Loop";

/// ONNX's `Loop` or `Scan` that is no program: runs a body until its condition or its trip count ends it.
#[derive(Clone, Debug)]
pub struct Loop {
    pub(crate) spec: Arc<Spec>,
    /// The optimised body.
    body: Option<Arc<run::Body>>,
    /// Reason why it is no program.
    why: Arc<str>,
}

impl Loop {
    pub(crate) fn new(spec: Spec, why: impl Into<Arc<str>>) -> TractResult<Self> {
        ensure!(spec.feeds.len() == spec.body.inputs.len());
        ensure!(spec.scan_output(spec.scans) == spec.body.outputs.len());
        Ok(Self {
            spec: Arc::new(spec),
            body: None,
            why: why.into(),
        })
    }

    /// Returns the body, which runs once per step.
    #[must_use]
    pub fn body(&self) -> &TypedModel {
        &self.spec.body
    }

    /// The optimised body if there is one.
    pub(crate) fn running_body(&self) -> &TypedModel {
        match &self.body {
            Some(body) => body.model(),
            None => &self.spec.body,
        }
    }

    /// Returns the reason why it is no program.
    pub(crate) fn why(&self) -> &str {
        &self.why
    }

    /// The same loop as another spec tells it.
    fn of(&self, spec: Spec) -> TractResult<Self> {
        Self::new(spec, Arc::clone(&self.why))
    }

    /// Replaces known inputs by constants, and drops unread ones.
    fn with_known_inputs(&self, facts: &[&TypedFact]) -> TractResult<Option<Self>> {
        let mut body = self.spec.body.clone();
        let mut inputs = vec![];
        let mut feeds = vec![];
        for (&outlet, &feed) in std::iter::zip(&self.spec.body.inputs, &self.spec.feeds) {
            let known = match feed {
                Feed::Outer(index) => facts[index].konst.clone(),
                Feed::Step | Feed::State(_) | Feed::Slice { .. } => None,
            };
            match known {
                Some(value) => {
                    let fact = TypedFact::try_from(Arc::clone(&value))?;
                    body.node_mut(outlet.node).op = Box::new(Const::new(value)?);
                    body.set_outlet_fact(outlet, fact)?;
                }
                None if is_read(&body, outlet) => {
                    inputs.push(outlet);
                    feeds.push(feed);
                }
                None => {}
            }
        }
        if feeds.len() == self.spec.feeds.len() {
            return Ok(None);
        }
        body.inputs = inputs;
        body.compact()?;
        let spec = Spec {
            body,
            feeds,
            is_decluttered: false,
            ..(*self.spec).clone()
        };
        self.of(spec).map(Some)
    }
}

never_equal!(Loop);

impl Loop {
    fn with_sizes(&self, subs: &HashMap<Symbol, TDim>) -> TractResult<Self> {
        let mut spec = (*self.spec).clone();
        spec.body = spec.body.set_symbols(subs)?;
        let steps = spec.steps.map(|steps| steps.substitute_all(subs));
        spec.steps = steps.transpose()?;
        for output in &mut spec.outputs {
            output.fact = output.fact.substituted(subs)?;
        }
        self.of(spec)
    }
}

impl Op for Loop {
    fn name(&self) -> StaticName {
        LOOP.into()
    }

    fn info(&self) -> TractResult<Vec<String>> {
        let spec = &self.spec;
        let ends = match (spec.trip_count, spec.gives_condition) {
            (Some(_), true) => "trip count, condition",
            (Some(_), false) => "trip count",
            (None, true) => "condition",
            (None, false) => "never",
        };
        Ok(vec![format!(
            "states: {} scan outputs: {} ends by: {ends}",
            spec.states.len(),
            spec.scans
        )])
    }

    fn validation(&self) -> Validation {
        Validation::Rounding
    }

    fn mints_runtime_symbols(&self) -> bool {
        true
    }

    fn required_bound_symbols(&self, inputs: &[&TypedFact]) -> TVec<Symbol> {
        let mut symbols: TVec<Symbol> = tvec![];
        let sizes = inputs.iter().flat_map(|fact| fact.shape.iter());
        symbols.extend(sizes.flat_map(TDim::symbols));
        symbols.extend(bound_symbols(&self.spec.body));
        symbols
    }

    op_as_typed_op!();
}

impl EvalOp for Loop {
    not_out_of_plan!();

    fn state(&self, _ctx: &EvalContext<'_>) -> TractResult<Option<Box<dyn OpState>>> {
        let body = match &self.body {
            Some(body) => Arc::clone(body),
            None => run::Body::new(self.spec.body.clone())?,
        };
        let running = run::Running::new(Arc::clone(&self.spec), body)?;
        Ok(Some(Box::new(running)))
    }
}

impl TypedOp for Loop {
    fn output_facts(&self, _inputs: &[&TypedFact]) -> TractResult<TVec<TypedFact>> {
        let outputs = self.spec.outputs.iter();
        Ok(outputs.map(|output| output.fact.clone()).collect())
    }

    fn declutter_with_session(
        &self,
        session: &mut OptimizerSession<'_>,
        model: &TypedModel,
        node: &TypedNode,
    ) -> TractResult<Option<TypedModelPatch>> {
        // Known inputs come first, since the body folds by them.
        let facts = model.node_input_facts(node.id)?;
        let replaced =
            |op: Self| TypedModelPatch::replace_single_op(model, node, &node.inputs, op).map(Some);
        if let Some(op) = self.with_known_inputs(&facts)? {
            return replaced(op);
        }
        rule_if!(!self.spec.is_decluttered);
        let mut spec = (*self.spec).clone();
        session.optimize(&mut spec.body)?;
        spec.is_decluttered = true;
        replaced(self.of(spec)?)
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

    fn codegen(
        &self,
        model: &TypedModel,
        node: &TypedNode,
    ) -> TractResult<Option<TypedModelPatch>> {
        rule_if!(self.body.is_none());
        let body = optimize::body(self.spec.body.clone())?;
        let op = Self {
            spec: Arc::clone(&self.spec),
            body: Some(run::Body::new(body)?),
            why: Arc::clone(&self.why),
        };
        TypedModelPatch::replace_single_op(model, node, &node.inputs, op).map(Some)
    }

    as_op!();
}
