//! Operators that tract lacks or runs only in part. Their facts come from the typed operator.
//!
//! A [`CustomNode`] says which typed operator stands for the node, once the types and shapes of its
//! inputs are known; before, nothing is inferred. What the operator says of its outputs is
//! inferred, and the same operator is wired.

use std::fmt;

use tract_onnx::tract_hir::internal::*;

use super::size_symbols::inferred_output;
use crate::delegate::Facts;

/// A node before types and shapes are known.
pub(crate) trait CustomNode: Clone + fmt::Debug + Send + Sync + 'static {
    type Typed: TypedOp;

    fn name(&self) -> StaticName;

    /// The number of inputs, and of outputs.
    fn arity(&self) -> (usize, usize);

    /// The operator for inputs whose types and shapes are known.
    fn typed(&self, inputs: &[&TypedFact]) -> TractResult<Self::Typed>;
}

/// The outputs for inputs that tract takes for constants: small known values, and those without
/// elements. It folds the operator when it is wired, and refuses readers with other sizes.
fn folded(op: &impl TypedOp, inputs: &[&TypedFact]) -> Option<TVec<TValue>> {
    let values = inputs.iter().map(|fact| {
        let empty = || {
            let shape = fact
                .shape
                .as_concrete()
                .filter(|shape| shape.contains(&0))?;
            Some(
                Tensor::zero_dt(fact.datum_type, shape)
                    .ok()?
                    .into_arc_tensor(),
            )
        };
        let value = fact.konst.clone().or_else(empty);
        value.filter(|value| value.len() < 16)
    });
    let values = values.map(|value| Some(value?.into_tvalue()));
    op.eval_out_of_plan(values.collect::<Option<_>>()?).ok()?
}

/// An operator of ours.
#[derive(Clone, Debug)]
pub(crate) struct CustomOp<T>(pub(crate) T);

never_equal!(CustomOp<T>, T);

impl<T: CustomNode> Op for CustomOp<T> {
    fn name(&self) -> StaticName {
        self.0.name()
    }

    not_a_typed_op!();
}

impl<T: CustomNode> EvalOp for CustomOp<T> {
    fn eval_out_of_plan(&self, inputs: TVec<TValue>) -> TractResult<Option<TVec<TValue>>> {
        let facts = inputs.iter().map(|input| TypedFact::shape_and_dt_of(input));
        let facts: TVec<TypedFact> = facts.collect();
        let op = self.0.typed(&facts.iter().collect::<TVec<_>>())?;
        op.eval(&EvalContext::out_of_plan(), inputs).map(Some)
    }
}

impl<T: CustomNode> InferenceOp for CustomOp<T> {
    fn nboutputs(&self) -> TractResult<usize> {
        Ok(self.0.arity().1)
    }

    fn infer_facts(
        &mut self,
        inputs: TVec<&InferenceFact>,
        outputs: TVec<&InferenceFact>,
        _observed: TVec<&InferenceFact>,
    ) -> TractResult<Facts> {
        let (expected, _) = self.0.arity();
        ensure!(
            inputs.len() == expected,
            "it has {} inputs, expected {expected}",
            inputs.len()
        );
        let owned = |facts: TVec<&InferenceFact>| facts.into_iter().cloned().collect();
        let typed = inputs.iter().map(|fact| TypedFact::try_from(*fact));
        let Ok(typed) = typed.collect::<TractResult<Vec<_>>>() else {
            return Ok((owned(inputs), owned(outputs), tvec![]));
        };
        let typed: TVec<&TypedFact> = typed.iter().collect();
        let op = self.0.typed(&typed)?;
        let found = match folded(&op, &typed) {
            Some(values) => values
                .iter()
                .map(|it| TypedFact::shape_and_dt_of(it))
                .collect(),
            None => op.output_facts(&typed)?,
        };
        let found = std::iter::zip(found, outputs)
            .map(|(found, known)| inferred_output(known, found.datum_type, found.shape.to_tvec()));
        Ok((owned(inputs), found.collect(), tvec![]))
    }

    fn to_typed(
        &self,
        _source: &InferenceModel,
        node: &InferenceNode,
        target: &mut TypedModel,
        mapping: &HashMap<OutletId, OutletId>,
    ) -> TractResult<TVec<OutletId>> {
        let inputs: TVec<OutletId> = node.inputs.iter().map(|input| mapping[input]).collect();
        let op = {
            let facts = inputs.iter().map(|input| target.outlet_fact(*input));
            self.0.typed(&facts.collect::<TractResult<TVec<_>>>()?)?
        };
        target.wire_node(&node.name, op, &inputs)
    }

    as_op!();
}
