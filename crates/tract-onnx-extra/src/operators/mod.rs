//! Operators that tract has in part.

pub(crate) mod batch_norm;
pub(crate) mod cast;
pub(crate) mod categories;
pub(crate) mod conv;
pub(crate) mod div;
pub(crate) mod einsum;
pub(crate) mod empty;
pub(crate) mod equal;
pub(crate) mod functions;
pub(crate) mod gemm;
pub(crate) mod global_lp_pool;
pub(crate) mod int64;
pub(crate) mod log_softmax;
pub(crate) mod mat_mul;
pub(crate) mod mod_;
pub(crate) mod mul;
pub(crate) mod nd_indices;
pub(crate) mod pool;
pub(crate) mod quantize;
pub(crate) mod range;
pub(crate) mod reduce;
pub(crate) mod resize;
pub(crate) mod retyped;
pub(crate) mod scalar_value;
pub(crate) mod split;
pub(crate) mod top_k;
