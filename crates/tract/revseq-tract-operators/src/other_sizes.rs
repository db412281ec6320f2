//! The error of a value whose sizes are not those of its plan.

use tract_onnx::tract_hir::internal::*;

/// A value has other sizes than those for which a model was prepared: a name of a size stands for two,
/// or a node's output has other sizes than ONNX's rules say.
///
/// Preparing the model for the sizes of the data may help.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct OtherSizes(String);

impl OtherSizes {
    /// Compares a shape with sizes, as far as they are known in this run.
    pub(crate) fn check(shape: &[usize], expected: &[TDim], ctx: &SymbolValues) -> TractResult<()> {
        if shape.len() != expected.len() {
            let axes = expected.len();
            return Err(Self::error(format!(
                "a value has shape {shape:?}, expected {axes} axes"
            )));
        }
        for (axis, (size, expected)) in std::iter::zip(shape, expected).enumerate() {
            if let Some(expected) = expected.maybe_eval_to_i64(ctx)
                && usize::try_from(expected) != Ok(*size)
            {
                return Err(Self::at(shape, axis, expected));
            }
        }
        Ok(())
    }

    /// The error of what differs, in words.
    pub(crate) fn error(what: String) -> TractError {
        Self(what).into()
    }

    pub(crate) fn at(shape: &[usize], axis: usize, expected: i64) -> TractError {
        let size = shape[axis];
        Self::error(format!(
            "a value has shape {shape:?}, of which axis {axis} has {size} elements, expected {expected}"
        ))
    }
}
