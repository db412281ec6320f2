//! Operators whose sizes come from data, or that tract lacks: the sizes are symbols until the
//! operator runs.
//!
//! A size from data is a symbol of the node's own (`size_symbols.rs`). The operator tells tract
//! that it defines symbols (`defines_symbols`), and tract reads their numbers off its
//! outputs. So the operator must not fold into a constant, and has to run wherever a number is
//! needed (`definers.rs`).
//!
//! ```text
//! Compress(x: [N, 4], axis 0): [size, 4], with size a number once it has run
//! ```

mod agreed;
pub(crate) mod beside_sizes;
mod bounds;
pub(crate) mod compress;
pub(crate) mod concat;
pub(crate) mod definers;
mod next;
mod node_context;
pub(crate) mod of_sizes;
pub(crate) mod one_hot;
mod runtime_slice;
mod size_symbols;
pub(crate) mod slice;
pub(crate) mod squeeze;
pub(crate) mod unique;
mod wide_sizes;

pub(crate) use agreed::{Agreed, agree_on_sums, agreed};
pub(crate) use next::Next;
pub use node_context::constant_integers;
pub(crate) use size_symbols::{
    SizeSymbols, all_in_numbers, axis, in_numbers, inferred_output, symbols_of,
};
pub(crate) use wide_sizes::wide_sizes;
