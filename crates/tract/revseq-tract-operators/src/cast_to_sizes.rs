//! The cast of integers to tract's type of sizes.

use tract_onnx::tract_hir::internal::*;

use crate::dims::in_dims;
use crate::typed_op::Stateless;

/// A cast of integers to sizes. tract's own keeps 32 bits of each.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct CastToSizes;

impl Stateless for CastToSizes {
    const NAME: &str = "CastToSizes";
    const PASSES_AXES: bool = true;

    fn eval(&self, _ctx: &EvalContext<'_>, inputs: TVec<TValue>) -> TractResult<TVec<TValue>> {
        Ok(tvec![in_dims(&inputs[0])?.into_tvalue()])
    }

    fn output_facts(&self, inputs: &[&TypedFact]) -> TractResult<TVec<TypedFact>> {
        let mut fact = TDim::fact(inputs[0].shape.clone());
        fact.uniform_tdim.clone_from(&inputs[0].uniform_tdim);
        Ok(tvec![fact])
    }
}
