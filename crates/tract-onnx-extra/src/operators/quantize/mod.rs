//! Operators on quantised numbers, as plain arithmetic on integers.
//!
//! tract computes what lies between a `DequantizeLinear` and a `QuantizeLinear` by a table of 256
//! bytes, also where an element of the result depends on several of the input, as in a `Softmax`.

mod dynamic;
mod linear;
mod parameter;
mod product;

/// Registers them in a tract ONNX loader.
pub(crate) fn register(onnx: &mut tract_onnx::Onnx) {
    onnx.op_register
        .insert("DynamicQuantizeLinear", dynamic::parse);
    for operator in linear::OPERATORS {
        onnx.op_register.insert(operator, linear::parse);
    }
    for operator in product::OPERATORS {
        onnx.op_register.insert(operator, product::parse);
    }
}
