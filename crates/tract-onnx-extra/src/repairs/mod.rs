//! Passes and functions of tract, mended.
//!
//! `optimize/` runs tract's passes in a time that grows with the nodes, chooses by their sizes how
//! convolutions are computed, computes arithmetic with broadcast operands row by row, and casts half floats
//! by vectors; bodies of Scans pass through it as well. `shapes.rs` compares shapes before operators that
//! believe their facts.

pub(crate) mod kernel;
pub(crate) mod optimize;
pub(crate) mod shapes;
