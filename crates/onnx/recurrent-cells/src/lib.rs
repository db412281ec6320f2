//! Recognises the cells of LSTM, GRU and RNN in the formulas of a step.
//!
//! Frameworks write recurrent layers as loops over single operators. [`Cell::of`] finds out which
//! cell the body of such a loop computes, with weights as ONNX's layers take them. It sees the body
//! through the trait [`Step`] and knows neither a file format nor a runtime.
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
//! An operator that [`Step::activation`] knows; a ramp such as `min(max(a · v + b, 0), 1)` is
//! HardSigmoid; a plain sum has none, which is Affine with a factor of 1.

#![forbid(unsafe_code)]

mod activation;
mod cell;
mod constant;
mod pattern;
mod sum;
#[cfg(test)]
mod tests;

#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;

pub use activation::Activation;
pub use cell::{Cell, Gate, Kind};
pub use constant::{Constant, Matrix};

/// Number of values that are followed one after another.
const MAXIMUM_DEPTH: usize = 64;

/// An elementwise operator with two operands, which broadcast.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operator {
    /// A sum.
    Add,
    /// A difference.
    Sub,
    /// A product.
    Mul,
    /// A quotient.
    Div,
    /// The larger of two.
    Max,
    /// The smaller of two.
    Min,
}

/// A value's rows times a constant matrix.
#[derive(Clone, Debug)]
pub struct Product<V> {
    /// The value.
    pub factor: V,
    /// The matrix: a row for each column of the value.
    pub weights: Matrix,
    /// A value that the same operator adds.
    pub more: Option<V>,
}

/// The values of a step, each a matrix with a row for each sequence of the batch.
///
/// Answers are certain: `None` if a value is something else, or may be.
pub trait Step {
    /// A value.
    type Value: Copy + PartialEq;

    /// The value behind operators that change nothing but its name.
    fn plain(&self, value: Self::Value) -> Self::Value;

    /// The state before the step that a value is.
    fn state(&self, value: Self::Value) -> Option<Self::Value>;

    /// Whether two states before the step may be one value, as where both begin with 0. In a loop they
    /// are two, or the cell has only one.
    fn states_begin_alike(&self) -> bool {
        false
    }

    /// A value's elements, if they are the same in every run.
    fn constant(&self, value: Self::Value) -> Option<Constant>;

    /// The number that all elements of a value are, in every run.
    fn number(&self, value: Self::Value) -> Option<f32>;

    /// The operands of an operator that makes a value.
    fn operands(&self, value: Self::Value, operator: Operator) -> Option<[Self::Value; 2]>;

    /// The function that makes a value, and its argument.
    fn activation(&self, value: Self::Value) -> Option<(Activation, Self::Value)>;

    /// The value that one operator limits to bounds, the lower and the upper one.
    fn bounded(&self, value: Self::Value) -> Option<(Self::Value, f32, f32)>;

    /// The product that a value is.
    fn product(&self, value: Self::Value) -> Option<Product<Self::Value>>;

    /// The values whose columns are joined.
    fn joined(&self, value: Self::Value) -> Option<Vec<Self::Value>>;

    /// The value of which another has some columns: the first one, and their number.
    fn columns(&self, value: Self::Value) -> Option<(Self::Value, usize, usize)>;

    /// The number of a value's columns.
    fn width(&self, value: Self::Value) -> Option<usize>;

    /// The matrix of one row that a value is without its axis of rows. It gets the axis back in a
    /// sum with a matrix.
    fn row_of_one(&self, value: Self::Value) -> Option<Self::Value>;
}
