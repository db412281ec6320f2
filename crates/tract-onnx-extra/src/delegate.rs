//! Operators of tract's with a hook: what a node does differently, and nothing else, is written
//! down.
//!
//! A parser wraps tract's operator in a [`Delegate`], and that in another one if two things differ;
//! the outermost hook is asked first. Inference and wiring pass through the hook. Once a node is
//! wired, it is what its hook made of it, and the hook is gone.

use std::fmt;

use tract_onnx::tract_hir::internal::*;

/// Inferred facts: those of a node's inputs and outputs, and those observed.
pub type Facts = (
    TVec<InferenceFact>,
    TVec<InferenceFact>,
    TVec<InferenceFact>,
);

/// The facts that are known of a node: of its inputs, of its outputs, and of what it observes.
#[derive(Clone, Debug)]
pub struct Known<'a> {
    /// The facts of its inputs.
    pub inputs: TVec<&'a InferenceFact>,
    /// The facts of its outputs.
    pub outputs: TVec<&'a InferenceFact>,
    /// The facts of the outlets that it observes.
    pub observed: TVec<&'a InferenceFact>,
}

impl<'a> Known<'a> {
    /// Brings facts together.
    pub fn new<'i: 'a, 'o: 'a, 'x: 'a>(
        inputs: impl IntoIterator<Item = &'i InferenceFact>,
        outputs: impl IntoIterator<Item = &'o InferenceFact>,
        observed: impl IntoIterator<Item = &'x InferenceFact>,
    ) -> Self {
        // A TVec of references cannot be taken for one of shorter lives: it is made again.
        Self {
            inputs: inputs.into_iter().map(|it| -> &'a _ { it }).collect(),
            outputs: outputs.into_iter().map(|it| -> &'a _ { it }).collect(),
            observed: observed.into_iter().map(|it| -> &'a _ { it }).collect(),
        }
    }

    /// Returns the same with another fact of one input.
    pub(crate) fn with_input<'b>(&self, index: usize, fact: &'b InferenceFact) -> Known<'b>
    where
        'a: 'b,
    {
        let inputs = self.inputs.iter().enumerate();
        let inputs = inputs.map(|(input, known)| if input == index { fact } else { *known });
        let (outputs, observed) = (self.outputs.iter(), self.observed.iter());
        Known::new(inputs, outputs.copied(), observed.copied())
    }
}

/// The extent of an inference.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Inference {
    /// Types and shapes alone.
    Facts,
    /// An operator of known inputs computes its outputs, too.
    Values,
}

impl Inference {
    /// Infers with an operator.
    ///
    /// # Errors
    /// Those of the operator.
    pub fn of(self, operator: &mut dyn InferenceOp, known: Known<'_>) -> TractResult<Facts> {
        let Known {
            inputs,
            outputs,
            observed,
        } = known;
        match self {
            Self::Facts => operator.infer_facts(inputs, outputs, observed),
            Self::Values => operator.infer(inputs, outputs, observed),
        }
    }

    /// Infers with other facts in place of some inputs', which keep their own types and values.
    pub(crate) fn with_others(
        self,
        operator: &mut dyn InferenceOp,
        known: Known<'_>,
        others: &[Option<InferenceFact>],
    ) -> TractResult<Facts> {
        let inputs = std::iter::zip(&known.inputs, others);
        let inputs = inputs.map(|(fact, other)| other.as_ref().unwrap_or(*fact));
        let given = Known::new(
            inputs,
            known.outputs.iter().copied(),
            known.observed.iter().copied(),
        );
        let (mut found, outputs, observed) = self.of(operator, given)?;
        let inputs = std::iter::zip(&known.inputs, others);
        for (found, (before, other)) in std::iter::zip(&mut found, inputs) {
            if other.is_some() {
                found.datum_type = before.datum_type;
                found.value = before.value.clone();
            }
        }
        Ok((found, outputs, observed))
    }
}

/// Behaviour of a [`Delegate`] that differs from its operator's.
pub trait Hook: Clone + fmt::Debug + Send + Sync + 'static {
    /// Whether the operator may be evaluated and replaced while facts are inferred, without this
    /// hook.
    const IS_TRANSPARENT: bool = false;

    /// Returns the name of the operator.
    fn name(&self, upstream: &dyn InferenceOp) -> StaticName {
        upstream.name()
    }

    /// Infers facts.
    ///
    /// # Errors
    /// The facts contradict each other, or the operator does not take them.
    fn infer(
        &self,
        upstream: &mut dyn InferenceOp,
        known: Known<'_>,
        inference: Inference,
    ) -> TractResult<Facts> {
        inference.of(upstream, known)
    }

    /// Wires the node into a typed model.
    ///
    /// # Errors
    /// The operator does not take its inputs.
    fn to_typed(
        &self,
        upstream: &dyn InferenceOp,
        source: &InferenceModel,
        node: &InferenceNode,
        target: &mut TypedModel,
        mapping: &HashMap<OutletId, OutletId>,
    ) -> TractResult<TVec<OutletId>> {
        upstream.to_typed(source, node, target, mapping)
    }
}

/// An operator before types and shapes are known, with a hook.
#[derive(Clone, Debug)]
pub struct Delegate<H> {
    /// tract's version of the operator, or one with another hook.
    pub upstream: Box<dyn InferenceOp>,
    /// The behaviour that differs.
    pub hook: H,
}

impl<H: Hook> Delegate<H> {
    /// Makes an operator for a parser to return.
    pub fn boxed(upstream: Box<dyn InferenceOp>, hook: H) -> Box<dyn InferenceOp> {
        Box::new(Self { upstream, hook })
    }
}

never_equal!(Delegate<H>, H);

impl<H: Hook> Op for Delegate<H> {
    fn name(&self) -> StaticName {
        self.hook.name(&*self.upstream)
    }

    fn info(&self) -> TractResult<Vec<String>> {
        self.upstream.info()
    }

    fn validation(&self) -> Validation {
        self.upstream.validation()
    }

    not_a_typed_op!();
}

impl<H: Hook> EvalOp for Delegate<H> {
    fn eval(&self, ctx: &EvalContext<'_>, inputs: TVec<TValue>) -> TractResult<TVec<TValue>> {
        self.upstream.eval(ctx, inputs)
    }

    fn eval_out_of_plan(&self, inputs: TVec<TValue>) -> TractResult<Option<TVec<TValue>>> {
        match H::IS_TRANSPARENT {
            true => self.upstream.eval_out_of_plan(inputs),
            false => Ok(None),
        }
    }

    fn state(&self, ctx: &EvalContext<'_>) -> TractResult<Option<Box<dyn OpState>>> {
        self.upstream.state(ctx)
    }
}

impl<H: Hook> InferenceOp for Delegate<H> {
    fn infer(
        &mut self,
        inputs: TVec<&InferenceFact>,
        outputs: TVec<&InferenceFact>,
        observed: TVec<&InferenceFact>,
    ) -> TractResult<Facts> {
        let known = Known::new(inputs, outputs, observed);
        self.hook
            .infer(&mut *self.upstream, known, Inference::Values)
    }

    fn infer_facts(
        &mut self,
        inputs: TVec<&InferenceFact>,
        outputs: TVec<&InferenceFact>,
        observed: TVec<&InferenceFact>,
    ) -> TractResult<Facts> {
        let known = Known::new(inputs, outputs, observed);
        self.hook
            .infer(&mut *self.upstream, known, Inference::Facts)
    }

    fn observe_outlets(
        &self,
        model: &InferenceModel,
        node: &InferenceNode,
    ) -> TractResult<Vec<OutletId>> {
        self.upstream.observe_outlets(model, node)
    }

    fn incorporate(
        &self,
        model: &InferenceModel,
        node: &InferenceNode,
    ) -> TractResult<Option<InferenceModelPatch>> {
        match H::IS_TRANSPARENT {
            true => self.upstream.incorporate(model, node),
            false => Ok(None),
        }
    }

    fn nboutputs(&self) -> TractResult<usize> {
        self.upstream.nboutputs()
    }

    fn to_typed(
        &self,
        source: &InferenceModel,
        node: &InferenceNode,
        target: &mut TypedModel,
        mapping: &HashMap<OutletId, OutletId>,
    ) -> TractResult<TVec<OutletId>> {
        self.hook
            .to_typed(&*self.upstream, source, node, target, mapping)
    }

    as_op!();
}
