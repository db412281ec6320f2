//! Operators on quantised numbers, as plain arithmetic on integers.
//!
//! tract computes what lies between a `DequantizeLinear` and a `QuantizeLinear` by a table of 256
//! bytes, also where an element of the result depends on several of the input, as in a `Softmax`. It has no
//! products of bytes; here they are those of the crate integer-products.

use integer_products::Bytes;
use tract_onnx::tract_hir::internal::*;

use crate::operator::Wiring;

pub(crate) mod convolution;
pub(crate) mod dynamic;
pub(crate) mod linear;
mod parameter;
pub(crate) mod product;
mod scaled;

/// The elements of a tensor of int8 or uint8.
pub(crate) fn bytes_of<'a>(plain: &'a PlainView<'_>) -> TractResult<Bytes<'a>> {
    if plain.datum_type() == i8::datum_type() {
        plain.as_slice().map(Bytes::I8)
    } else {
        plain.as_slice().map(Bytes::U8)
    }
}

/// The inputs of a product in order: an operand, its parameters, of which those that are left out are zeros, and
/// the other operand.
fn with_parameters(
    node: &mut Wiring<'_>,
    first: OutletId,
    parameters: &[Option<OutletId>],
    second: OutletId,
) -> TractResult<TVec<OutletId>> {
    let mut inputs = tvec![first];
    for parameter in parameters {
        inputs.push(match parameter {
            Some(parameter) => *parameter,
            None => node.constant("zero", tensor0(0_i32))?,
        });
    }
    inputs.push(second);
    Ok(inputs)
}

/// Checks that an operand consists of bytes.
fn check_bytes(operand: &str, datum_type: DatumType) -> TractResult<()> {
    ensure!(
        [i8::datum_type(), u8::datum_type()].contains(&datum_type),
        "its {operand} is {datum_type:?}, expected I8 or U8"
    );
    Ok(())
}

/// The elements whose computation takes about as long as a product of so many rows, inner elements and
/// columns.
fn work(sizes: [usize; 3]) -> usize {
    sizes.into_iter().fold(1, usize::saturating_mul) / 64
}
