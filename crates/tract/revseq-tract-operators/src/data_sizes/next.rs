//! The index of the only element of `x[i:i + 1]`.
//!
//! A Slice of one element that is then squeezed becomes a Gather, which differs for one index
//! alone.

use tract_onnx::tract_hir::internal::*;

use crate::dims::scalar;
use crate::typed_op::Stateless;

/// Passes an index on, except for -1, which a Gather takes for the last element: `x[-1:0]` is
/// empty.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Next {
    /// The axis of the Slice.
    pub(crate) axis: usize,
}

impl Stateless for Next {
    const NAME: &str = "Next";

    fn eval(&self, _ctx: &EvalContext<'_>, inputs: TVec<TValue>) -> TractResult<TVec<TValue>> {
        ensure!(
            scalar::<i64>(&inputs[0])? != -1,
            "a Slice from -1 to 0 takes no element along axis {}, expected 1",
            self.axis
        );
        Ok(inputs)
    }
}
