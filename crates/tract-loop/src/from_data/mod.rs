//! Operators whose sizes come from data, or that tract lacks: the sizes are symbols until the
//! operator runs.

mod around;
mod bounds;
mod compress;
mod concat;
mod late;
mod minted;
mod next;
mod one_hot;
mod or_tracts;
mod own;
mod pad;
mod part;
mod slice;
mod squeeze;
mod unique;
mod wide_sizes;

pub(crate) use minted::{Minted, axis, in_numbers, rewire, symbols_of};
pub(crate) use next::Next;
pub(crate) use or_tracts::{FromData, OrTracts};
pub(crate) use own::{Own, Untyped};

/// Registers them in a tract ONNX loader.
pub(crate) fn register(onnx: &mut tract_onnx::Onnx) {
    for operator in late::OPERATORS {
        onnx.op_register.insert(operator, late::parse);
    }
    onnx.op_register.insert("Compress", compress::parse);
    onnx.op_register.insert("Concat", concat::parse);
    onnx.op_register.insert("OneHot", one_hot::parse);
    onnx.op_register.insert("Slice", slice::parse);
    onnx.op_register.insert("Squeeze", squeeze::parse);
    onnx.op_register.insert("Unique", unique::parse);
}
