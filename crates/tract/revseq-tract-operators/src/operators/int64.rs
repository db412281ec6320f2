//! Operators that compute with int64 as numbers, never as symbolic sizes.
//!
//! tract holds int64 values that depend on sizes as TDim, which its versions of these operators
//! refuse. They get a cast to int64 before such an input, or the numbers themselves if these are
//! known; so a symbol gets lost here, and its number is used when the model runs.
//!
//! ```text
//! NonZero(Shape(x))  →  NonZero(Cast(Shape(x), int64))
//! ```

use tract_onnx::model::ParsingContext;
use tract_onnx::pb::NodeProto;
use tract_onnx::tract_hir::internal::*;

use crate::operator::{Input, Operator, Parsed, ReadAs, over_tract};

/// Parses an operator that computes with numbers.
pub(crate) fn parse(ctx: &ParsingContext<'_>, node: &NodeProto) -> Parsed {
    over_tract(ctx, node, on_numbers())
}

/// The operator over one that gets int64 for TDim.
pub(crate) fn on_numbers() -> impl Operator {
    ReadAs(|input: usize, inputs: &[Input]| inputs[input].is_size().then(i64::datum_type))
}
