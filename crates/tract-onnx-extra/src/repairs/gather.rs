//! Gathers with checked indices.
//!
//! It comes after the passes of tract, which know a Gather by its type and would leave this one
//! alone. A Gather with an output type reads packed weights, and stays as it is.

use tract_onnx::tract_core::ops::array::Gather;
use tract_onnx::tract_hir::internal::*;

/// Makes the Gathers of an optimised model report an index out of range; tract's panics.
pub(crate) fn check_indices(model: &mut TypedModel) {
    for node in model.nodes_mut() {
        if let Some(gather) = node.op_as::<Gather>()
            && gather.output_type.is_none()
        {
            node.op = Box::new(Checked(gather.clone()));
        }
    }
}

/// tract's Gather, with an error for an index out of range.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Checked(Gather);

impl Op for Checked {
    fn name(&self) -> StaticName {
        self.0.name()
    }

    fn info(&self) -> TractResult<Vec<String>> {
        self.0.info()
    }

    op_as_typed_op!();
}

impl EvalOp for Checked {
    op_out_of_plan!();

    fn eval(&self, ctx: &EvalContext<'_>, inputs: TVec<TValue>) -> TractResult<TVec<TValue>> {
        let axis = self.0.axis;
        let size = i64::try_from(inputs[0].shape()[axis])?;
        let indices = inputs[1].to_plain_array_view::<i64>()?;
        if let Some(index) = indices.iter().find(|it| !(-size..size).contains(*it)) {
            bail!(
                "index {index} of a Gather lies outside of axis {axis}, which has {size} elements"
            );
        }
        self.0.eval(ctx, inputs)
    }
}

impl TypedOp for Checked {
    fn output_facts(&self, inputs: &[&TypedFact]) -> TractResult<TVec<TypedFact>> {
        self.0.output_facts(inputs)
    }

    as_op!();
}
