//! Passes and functions of tract, mended ([what goes when tract has it](../../UPSTREAM.md)).
//!
//! `typed.rs` types a model, and `optimize/` runs tract's passes and those of `faster/`, in a time that
//! grows with the nodes; bodies of loops and branches pass through it as well. `shapes.rs` compares shapes
//! before operators that believe their facts.

pub(crate) mod names;
pub(crate) mod optimize;
pub(crate) mod shapes;
pub(crate) mod typed;
