//! Operators that tract reads but for some inputs, such as sizes that come from data.
//!
//! An [`Override`] says `None` where tract does well, and the node stays tract's. It is asked at
//! each inference, since inputs become known bit by bit, and again when the node is wired: by then
//! all types and shapes are known, and the answer is final.

use std::fmt;

use tract_onnx::model::ParsingContext;
use tract_onnx::pb::NodeProto;
use tract_onnx::tract_hir::internal::*;

use crate::delegate::{Delegate, Facts, Hook, Inference, Known};
use crate::dims::in_dims;
use crate::node::{check_domain, parse_with_tract};
use crate::wire::to_typed_without_facts;

/// A node that tract may read.
pub(crate) trait Override: Clone + fmt::Debug + Send + Sync + 'static {
    /// The operator's name; `upstream` is tract's version of it.
    fn name(&self, upstream: &dyn InferenceOp) -> StaticName {
        upstream.name()
    }

    /// Infers facts; `None` to infer like tract.
    fn infer(
        &self,
        _upstream: &mut dyn InferenceOp,
        _inputs: &TVec<&InferenceFact>,
        _outputs: &TVec<&InferenceFact>,
    ) -> TractResult<Option<Facts>> {
        Ok(None)
    }

    /// Whether tract may compute outputs of known inputs while it infers: not if its values differ.
    fn lets_tract_compute(&self, _inputs: &TVec<&InferenceFact>) -> bool {
        true
    }

    /// Checks what tract may make while it infers with values.
    fn check(
        &self,
        _upstream: &mut dyn InferenceOp,
        _inputs: &TVec<&InferenceFact>,
        _outputs: &TVec<&InferenceFact>,
    ) -> TractResult<()> {
        Ok(())
    }

    /// Wires the node; `None` to wire it like tract.
    fn wire(
        &self,
        upstream: &dyn InferenceOp,
        name: &str,
        target: &mut TypedModel,
        inputs: &[OutletId],
    ) -> TractResult<Option<TVec<OutletId>>>;
}

/// The hook of a node before it is known whether tract reads it.
#[derive(Clone, Debug)]
struct Fallback<T>(T);

/// Makes an operator that is tract's where `op` leaves it to tract.
pub(crate) fn with_fallback<T: Override>(
    upstream: Box<dyn InferenceOp>,
    op: T,
) -> Box<dyn InferenceOp> {
    Delegate::boxed(upstream, Fallback(op))
}

/// Parses a node of tract's that `op` is to override, and reads `op` from it.
pub(crate) fn parse_overridden<T: Override>(
    ctx: &ParsingContext<'_>,
    node: &NodeProto,
    op: impl FnOnce(&NodeProto) -> TractResult<T>,
) -> TractResult<(Box<dyn InferenceOp>, Vec<String>)> {
    check_domain(node)?;
    let (upstream, captured) = parse_with_tract(&node.op_type, ctx, node)?;
    Ok((with_fallback(upstream, op(node)?), captured))
}

/// The most elements of a value that is computed while facts are inferred: sizes, and what becomes one.
const FEW: usize = 64;

impl<T: Override> Fallback<T> {
    /// Computes the outputs of known inputs, by the operator that would be wired; `None` if there is none
    /// of this crate, or if a value has many elements or none.
    fn values(&self, upstream: &dyn InferenceOp, facts: &Facts) -> Option<TVec<TValue>> {
        let (inputs, outputs, _) = facts;
        let is_small = |fact: &InferenceFact| {
            let sizes = fact.shape.as_concrete_finite().ok().flatten();
            sizes.is_some_and(|sizes| (1..=FEW).contains(&sizes.iter().product()))
        };
        let is_known = |fact: &InferenceFact| fact.value.is_concrete();
        if outputs.iter().all(is_known) || !inputs.iter().chain(outputs).all(is_small) {
            return None;
        }
        let mut model = TypedModel::default();
        let inputs = inputs.iter().enumerate().map(|(index, fact)| {
            let value = fact.value.concretize()?;
            model.add_const(format!("input {index}"), value).ok()
        });
        let inputs = inputs.collect::<Option<TVec<OutletId>>>()?;
        let wired = self.0.wire(upstream, "value", &mut model, &inputs);
        let outlets = wired.ok().flatten()?;
        model.select_output_outlets(&outlets).ok()?;
        model.into_runnable().ok()?.run(tvec![]).ok()
    }
}

impl<T: Override> Hook for Fallback<T> {
    fn name(&self, upstream: &dyn InferenceOp) -> StaticName {
        self.0.name(upstream)
    }

    fn infer(
        &self,
        upstream: &mut dyn InferenceOp,
        known: Known<'_>,
        inference: Inference,
    ) -> TractResult<Facts> {
        let Known {
            inputs, outputs, ..
        } = &known;
        let mut facts = match self.0.infer(upstream, inputs, outputs)? {
            Some(facts) => facts,
            None => {
                let inference = match self.0.lets_tract_compute(inputs) {
                    true => inference,
                    false => Inference::Facts,
                };
                // Without values, which may be large: a caller may limit them before.
                if inference == Inference::Values {
                    self.0.check(upstream, inputs, outputs)?;
                }
                inference.of(upstream, known)?
            }
        };
        if inference == Inference::Values
            && let Some(values) = self.values(upstream, &facts)
        {
            for (fact, value) in std::iter::zip(&mut facts.1, values) {
                let datum_type = fact.datum_type.concretize();
                if datum_type == Some(value.datum_type()) {
                    fact.value = value.into_arc_tensor().into();
                } else if datum_type.is_some_and(|it| it.is_tdim()) {
                    // Sizes that are numbers are computed as such.
                    fact.value = in_dims(&value)?.into_arc_tensor().into();
                }
            }
        }
        Ok(facts)
    }

    fn to_typed(
        &self,
        upstream: &dyn InferenceOp,
        source: &InferenceModel,
        node: &InferenceNode,
        target: &mut TypedModel,
        mapping: &HashMap<OutletId, OutletId>,
    ) -> TractResult<TVec<OutletId>> {
        let inputs: TVec<OutletId> = node.inputs.iter().map(|input| mapping[input]).collect();
        match self.0.wire(upstream, &node.name, target, &inputs)? {
            Some(outlets) => Ok(outlets),
            None => to_typed_without_facts(upstream, source, node, target, mapping),
        }
    }
}
