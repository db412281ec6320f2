//! Axes of a LayerNormalization, which have to be some of its input's: tract's counts up to any.

use tract_onnx::pb::NodeProto;
use tract_onnx::tract_hir::internal::*;

use crate::data_sizes::axis;
use crate::delegate::{Delegate, Facts, Hook, Inference, Known};

/// Adds the hook to a LayerNormalization.
pub(crate) fn hooked(
    node: &NodeProto,
    upstream: Box<dyn InferenceOp>,
) -> TractResult<Box<dyn InferenceOp>> {
    if node.op_type != "LayerNormalization" {
        return Ok(upstream);
    }
    let axis = node.get_attr_opt("axis")?.unwrap_or(-1);
    Ok(Delegate::boxed(upstream, WithinRank { axis }))
}

/// The hook of an operator with an axis.
#[derive(Clone, Debug)]
struct WithinRank {
    axis: i64,
}

impl Hook for WithinRank {
    fn infer(
        &self,
        upstream: &mut dyn InferenceOp,
        known: Known<'_>,
        inference: Inference,
    ) -> TractResult<Facts> {
        let input = known.inputs.first().context("it has no input")?;
        if let Some(rank) = input.shape.rank().concretize() {
            axis(self.axis, usize::try_from(rank)?)?;
        }
        inference.of(upstream, known)
    }
}
