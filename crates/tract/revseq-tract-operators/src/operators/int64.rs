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

use crate::node::parse_with_tract;
use crate::operator::{Input, Parsed, ReadAs, over};

/// Parses an operator that computes with numbers.
pub(crate) fn parse(ctx: &ParsingContext<'_>, node: &NodeProto) -> Parsed {
    let (upstream, captured) = parse_with_tract(&node.op_type, ctx, node)?;
    Ok((on_numbers(upstream), captured))
}

/// Puts an operator over one that gets int64 for TDim.
pub(crate) fn on_numbers(upstream: Box<dyn InferenceOp>) -> Box<dyn InferenceOp> {
    let read = |input: usize, inputs: &[Input]| inputs[input].is_size().then(i64::datum_type);
    over(upstream, ReadAs(read))
}
