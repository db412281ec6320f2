//! Recognises the cells of LSTM, GRU and RNN in the formulas of a step.
//!
//! Frameworks write recurrent layers as loops over single operators. [`Cell::of`] finds out which
//! cell the body of such a loop computes, with weights as ONNX's layers take them.
//!
//! # Formulas
//!
//! `x` is the input of a step, `h` and `c` are states before it. A gate such as `i` is an
//! activation of a sum: `f(x W + h R + b)`. The operands of sums and products may be in any order.
//!
//! | a value of this formula | is the output of |
//! |---|---|
//! | `o · h(f · c + i · g)` | an LSTM; its gates may add `p · c`, or in `o` the new cell state, as peepholes |
//! | `z · h + (1 - z) · n`, `n + z · (h - n)`, `n - z · (n - h)` | a GRU |
//! | `z · n + (1 - z) · h`, `h + z · (n - h)`, `h - z · (h - n)` | a GRU whose gate `z` is `1 - z`: weights and bias change their sign |
//! | `f(x W + h R + b)` | an RNN |
//!
//! The candidate `n` of a GRU resets the state before its product, `f(x W + (r · h) R + b)`, or
//! after it, `f(x W + r · (h R + d) + b)`.
//!
//! # Sums
//!
//! | a term | adds |
//! |---|---|
//! | `a M`, with a constant matrix `M` | a product |
//! | `[a, b] M`, a product of joined values | a product of each, with its rows of `M` |
//! | some columns of a sum | the same columns of its terms |
//! | `p · a`, with a constant vector `p` | a peephole |
//! | a constant vector or number | to the bias |
//!
//! # Activations
//!
//! An operator that [`step::activation`] knows; a ramp such as `min(max(a · v + b, 0), 1)` is
//! HardSigmoid; a plain sum has none, which is Affine with a factor of 1.

mod activation;
mod cell;
mod matrix;
mod pattern;
mod step;
mod sum;
#[cfg(test)]
mod tests;

pub(super) use activation::Activation;
pub(super) use cell::{Cell, CellKind, Gate};
pub(super) use matrix::Matrix;
pub(super) use step::width;
