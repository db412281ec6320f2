//! tract's operators with sizes of 64 bits.
//!
//! Only a known list of sizes is replaced; one from data is for [`Override`](super::Override)s. Its
//! inferred fact stays int64, as its other readers expect.
//!
//! ```text
//! Reshape(x, [5000000000, 0])  gets TDim values; of int64, tract keeps 32 bits each
//! ```

use tract_onnx::tract_hir::internal::*;

use crate::delegate::{Facts, Hook, Inference, Known};
use crate::dims::in_dims;
use crate::wire::to_typed_without_facts;

/// The hook of an operator that reads one of its inputs as sizes.
///
/// tract casts them itself, and keeps 32 bits of each. Here it gets them in its own type of sizes.
#[derive(Clone, Debug)]
pub(crate) struct WideSizes {
    /// The input with the sizes.
    pub(crate) sizes: usize,
}

impl Hook for WideSizes {
    fn infer(
        &self,
        upstream: &mut dyn InferenceOp,
        known: Known<'_>,
        inference: Inference,
    ) -> TractResult<Facts> {
        let mut sizes: Vec<Option<InferenceFact>> = vec![None; known.inputs.len()];
        let before = known.inputs.get(self.sizes);
        if let Some(value) = before.and_then(|fact| fact.value.concretize()) {
            sizes[self.sizes] = Some(InferenceFact::from(in_dims(&value)?));
        }
        inference.with_others(upstream, known, &sizes)
    }

    fn to_typed(
        &self,
        upstream: &dyn InferenceOp,
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
        to_typed_without_facts(upstream, source, node, target, &mapping)
    }
}
