//! Tests of the kernels themselves.

mod forced;
pub(crate) mod work;
