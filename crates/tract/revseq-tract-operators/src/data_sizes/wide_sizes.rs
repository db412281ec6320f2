//! tract's operators with sizes of 64 bits.
//!
//! Only a known list of sizes is replaced; one from data is for `of_sizes`.
//!
//! ```text
//! Reshape(x, [5000000000, 0])  gets TDim values; of int64, tract keeps 32 bits each
//! ```

use tract_onnx::tract_hir::internal::*;

use crate::operator::{Input, Operator, ReadAs};

/// The operator over one that reads an input as sizes. tract casts them itself, and keeps 32 bits of each.
pub(crate) fn wide_sizes(sizes: usize) -> impl Operator {
    ReadAs(move |input: usize, inputs: &[Input]| {
        (input == sizes && inputs[input].is_known).then(TDim::datum_type)
    })
}
