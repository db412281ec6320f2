//! tract's operators with sizes of 64 bits.

use tract_onnx::tract_hir::internal::*;

use super::size_symbols::in_dims;
use crate::node::Facts;
use crate::wire::to_typed_without_facts;

/// An operator that reads one of its inputs as sizes.
///
/// tract casts them itself, and keeps 32 bits of each. Here it gets them in its own type of sizes.
#[derive(Clone, Debug)]
pub(crate) struct WideSizes {
    pub(crate) upstream: Box<dyn InferenceOp>,
    /// The input with the sizes.
    pub(crate) sizes: usize,
}

never_equal!(WideSizes);

impl WideSizes {
    fn with_sizes(
        &mut self,
        inputs: TVec<&InferenceFact>,
        infer: impl FnOnce(&mut dyn InferenceOp, TVec<&InferenceFact>) -> TractResult<Facts>,
    ) -> TractResult<Facts> {
        let before = inputs.get(self.sizes).copied();
        let value = before.and_then(|fact| fact.value.concretize());
        let Some((before, value)) = before.zip(value) else {
            return infer(&mut *self.upstream, inputs);
        };
        let sizes = InferenceFact::from(in_dims(&value)?);
        let given = inputs.iter().enumerate();
        let given = given.map(|(input, fact)| match input == self.sizes {
            true => &sizes,
            false => *fact,
        });
        let (mut found, outputs, observed) = infer(&mut *self.upstream, given.collect())?;
        found[self.sizes] = before.clone();
        Ok((found, outputs, observed))
    }
}

impl Op for WideSizes {
    fn name(&self) -> StaticName {
        self.upstream.name()
    }

    not_a_typed_op!();
}

impl EvalOp for WideSizes {
    not_out_of_plan!();
}

impl InferenceOp for WideSizes {
    fn infer(
        &mut self,
        inputs: TVec<&InferenceFact>,
        outputs: TVec<&InferenceFact>,
        observed: TVec<&InferenceFact>,
    ) -> TractResult<Facts> {
        self.with_sizes(inputs, |upstream, inputs| {
            upstream.infer(inputs, outputs, observed)
        })
    }

    fn infer_facts(
        &mut self,
        inputs: TVec<&InferenceFact>,
        outputs: TVec<&InferenceFact>,
        observed: TVec<&InferenceFact>,
    ) -> TractResult<Facts> {
        self.with_sizes(inputs, |upstream, inputs| {
            upstream.infer_facts(inputs, outputs, observed)
        })
    }

    fn to_typed(
        &self,
        source: &InferenceModel,
        node: &InferenceNode,
        target: &mut TypedModel,
        mapping: &HashMap<OutletId, OutletId>,
    ) -> TractResult<TVec<OutletId>> {
        let mut mapping = mapping.clone();
        if let Some(input) = node.inputs.get(self.sizes)
            && let Some(value) = target.outlet_fact(mapping[input])?.konst.clone()
            && !value.datum_type().is_tdim()
        {
            let name = target.unique_name(format!("{}.sizes", node.name));
            let name = name.into_owned();
            mapping.insert(*input, target.add_const(name, in_dims(&value)?)?);
        }
        to_typed_without_facts(&*self.upstream, source, node, target, &mapping)
    }

    as_op!();
}
