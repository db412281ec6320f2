//! The same value under another name.

use tract_onnx::tract_hir::internal::*;

/// Gives what it takes, and stays until the model is decluttered.
///
/// tract 0.23 panics in decluttering a Scan whose body reads an element of what is
/// scanned twice in one node, as in `x + x`: there, the second reads an alias.
#[derive(Clone, Debug)]
pub(crate) struct Alias;

/// No two are the same: tract would make them one.
impl PartialEq for Alias {
    fn eq(&self, _other: &Self) -> bool {
        false
    }
}

impl Eq for Alias {}

impl Op for Alias {
    fn name(&self) -> StaticName {
        "Alias".into()
    }

    op_as_typed_op!();
}

impl EvalOp for Alias {
    op_out_of_plan!();

    fn eval(&self, _ctx: &EvalContext<'_>, inputs: TVec<TValue>) -> TractResult<TVec<TValue>> {
        Ok(inputs)
    }
}

impl TypedOp for Alias {
    fn output_facts(&self, inputs: &[&TypedFact]) -> TractResult<TVec<TypedFact>> {
        Ok(tvec!(inputs[0].clone()))
    }

    fn axes_mapping(
        &self,
        inputs: &[&TypedFact],
        outputs: &[&TypedFact],
    ) -> TractResult<AxesMapping> {
        AxesMapping::natural(inputs, outputs)
    }

    fn fuse(&self, model: &TypedModel, node: &TypedNode) -> TractResult<Option<TypedModelPatch>> {
        TypedModelPatch::shunt_one_op(model, node)
    }

    as_op!();
}
