//! Operators that tract has in part: a file for each, after its ONNX name.
//!
//! All are of one kind (`operator.rs`). Some files have what several operators share: those whose outputs
//! are empty (`empty.rs`), whose elements depend on each other along an axis (`along_axes.rs`), which compute with int64 as numbers (`int64.rs`), compare
//! sizes (`compare.rs`), need axes (`within_rank.rs`), or compute half floats in floats and truth values in
//! bytes, in models that no session prepared (`retyped.rs`); functions of one number (`functions.rs`) and
//! pools of windows that slide (`pool.rs`). `quantize/` computes with quantised numbers.

pub(crate) mod along_axes;
pub(crate) mod arithmetic;
pub(crate) mod batch_norm;
pub(crate) mod bit_shift;
pub(crate) mod cast;
pub(crate) mod categories;
pub(crate) mod compare;
pub(crate) mod conv;
pub(crate) mod div;
pub(crate) mod dropout;
pub(crate) mod einsum;
pub(crate) mod empty;
pub(crate) mod flatten;
pub(crate) mod functions;
pub(crate) mod gemm;
pub(crate) mod global_lp_pool;
pub(crate) mod int64;
pub(crate) mod layer_norm;
pub(crate) mod log_softmax;
pub(crate) mod mat_mul;
pub(crate) mod mod_;
pub(crate) mod mul;
pub(crate) mod nd_indices;
pub(crate) mod pool;
pub(crate) mod quantize;
pub(crate) mod random;
pub(crate) mod range;
pub(crate) mod reduce;
pub(crate) mod resize;
pub(crate) mod retyped;
pub(crate) mod split;
pub(crate) mod top_k;
pub(crate) mod within_rank;
