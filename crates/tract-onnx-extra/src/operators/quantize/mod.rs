//! Operators on quantised numbers, as plain arithmetic on integers.
//!
//! tract computes what lies between a `DequantizeLinear` and a `QuantizeLinear` by a table of 256
//! bytes, also where an element of the result depends on several of the input, as in a `Softmax`.

pub(crate) mod dynamic;
pub(crate) mod linear;
mod parameter;
pub(crate) mod product;
