//! A node whose facts are inferred.

use tract_onnx::tract_hir::internal::*;

use crate::data_sizes::inferred_output;

/// Inferred facts: those of a node's inputs and outputs, and those observed.
pub type Facts = (
    TVec<InferenceFact>,
    TVec<InferenceFact>,
    TVec<InferenceFact>,
);

/// Inferred facts; `None` to infer like the operator beneath.
pub type Inferred = TractResult<Option<Facts>>;

/// A node whose facts are inferred.
#[derive(Debug)]
pub struct Inferring<'a> {
    pub(super) upstream: Option<&'a mut dyn InferenceOp>,
    /// The facts of its inputs.
    pub inputs: TVec<&'a InferenceFact>,
    /// The facts of its outputs.
    pub outputs: TVec<&'a InferenceFact>,
    pub(super) observed: TVec<&'a InferenceFact>,
    /// Whether the operator beneath may compute outputs of known inputs: not if its values differ.
    pub computes: bool,
}

impl Inferring<'_> {
    /// The operator beneath.
    pub(crate) fn upstream(&self) -> Option<&dyn InferenceOp> {
        self.upstream.as_deref()
    }

    /// Infers like the operator beneath.
    ///
    /// # Errors
    /// Those of the operator.
    pub fn by_upstream(&mut self) -> TractResult<Facts> {
        self.by_upstream_of(self.inputs.clone(), self.outputs.clone())
    }

    /// Infers types and shapes alone like the operator beneath.
    ///
    /// # Errors
    /// Those of the operator.
    pub fn facts_by_upstream(&mut self) -> TractResult<Facts> {
        let computes = std::mem::replace(&mut self.computes, false);
        let facts = self.by_upstream();
        self.computes = computes;
        facts
    }

    /// Infers like the operator beneath from other facts.
    ///
    /// # Errors
    /// Those of the operator.
    pub fn by_upstream_of(
        &mut self,
        inputs: TVec<&InferenceFact>,
        outputs: TVec<&InferenceFact>,
    ) -> TractResult<Facts> {
        let upstream = self
            .upstream
            .as_mut()
            .context("tract has no such operator")?;
        match self.computes {
            true => upstream.infer(inputs, outputs, self.observed.clone()),
            false => upstream.infer_facts(inputs, outputs, self.observed.clone()),
        }
    }

    /// Infers with other facts in place of some inputs', which keep their own types, and their values.
    pub(crate) fn with_others(&mut self, others: &[Option<InferenceFact>]) -> TractResult<Facts> {
        let inputs = std::iter::zip(&self.inputs, others);
        let inputs = inputs.map(|(fact, other)| other.as_ref().unwrap_or(fact));
        let (mut inferred, outputs, observed) =
            self.by_upstream_of(inputs.collect(), self.outputs.clone())?;
        let inputs = std::iter::zip(&self.inputs, others);
        for (inferred, (before, other)) in std::iter::zip(&mut inferred, inputs) {
            if other.is_some() {
                inferred.datum_type = before.datum_type;
                inferred.value = before.value.clone();
            }
        }
        Ok((inferred, outputs, observed))
    }

    /// The types of the inputs that are known.
    pub(crate) fn types(&self) -> impl Iterator<Item = Option<DatumType>> {
        self.inputs.iter().map(|fact| fact.datum_type.concretize())
    }

    /// The value of an input that is known.
    pub(crate) fn value(&self, input: usize) -> Option<Arc<Tensor>> {
        self.inputs.get(input)?.value.concretize()
    }

    /// Infers one output with this type and shape; sizes that are already known stay. The inputs stay
    /// as they are.
    pub(crate) fn output(&self, datum_type: DatumType, shape: TVec<TDim>) -> Facts {
        let output = inferred_output(self.outputs[0], datum_type, shape);
        (owned(&self.inputs), tvec![output], tvec![])
    }
}

pub(super) fn owned(facts: &[&InferenceFact]) -> TVec<InferenceFact> {
    facts.iter().map(|fact| (*fact).clone()).collect()
}
