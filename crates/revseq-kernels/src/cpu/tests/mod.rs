//! Tests of the kernels by themselves: that each is right, and how much work it does.

pub(crate) mod forced;
mod work;
