//! Operators whose sizes come from data, or that tract lacks: the sizes are symbols until the
//! operator runs.
//!
//! A size from data is a symbol of the node's own (`size_symbols.rs`). The operator tells tract
//! that it defines symbols (`mints_runtime_symbols`), and tract reads their numbers off its
//! outputs. So the operator must not fold into a constant, and has to run wherever a number is
//! needed (`definers.rs`).
//!
//! ```text
//! Compress(x: [N, 4], axis 0): [size, 4], with size a number once it has run
//! ```

mod agreed;
pub(crate) mod beside_sizes;
mod bounds;
mod compress;
mod concat;
mod custom;
pub(crate) mod definers;
mod next;
mod node_context;
mod of_sizes;
mod one_hot;
mod part;
mod size_symbols;
mod slice;
mod squeeze;
mod unique;
mod wide_sizes;
mod with_fallback;

pub(crate) use agreed::{Agreed, agree_on_sums, agreed};
pub(crate) use custom::{CustomNode, CustomOp};
pub(crate) use next::Next;
pub use node_context::constant_integers;
pub(crate) use size_symbols::{SizeSymbols, axis, in_numbers, rewire, substituted, symbols_of};
pub(crate) use wide_sizes::WideSizes;
pub(crate) use with_fallback::{Override, parse_overridden, with_fallback};

/// Registers them in a tract ONNX loader.
pub(crate) fn register(onnx: &mut tract_onnx::Onnx) {
    of_sizes::register(onnx);
    onnx.op_register.insert("Compress", compress::parse);
    onnx.op_register.insert("Concat", concat::parse);
    onnx.op_register.insert("OneHot", one_hot::parse);
    onnx.op_register.insert("Slice", slice::parse);
    onnx.op_register.insert("Squeeze", squeeze::parse);
    onnx.op_register.insert("Unique", unique::parse);
}
