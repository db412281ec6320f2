//! ONNX's codes of element types (`TensorProto.DataType` of onnx.proto).

use buffa::Enumeration;

use crate::proto::tensor_proto::DataType;

/// ONNX's code of float32.
pub const FLOAT: i32 = 1;
/// ONNX's code of uint8.
pub const UINT8: i32 = 2;
/// ONNX's code of int8.
pub const INT8: i32 = 3;
/// ONNX's code of uint16.
pub const UINT16: i32 = 4;
/// ONNX's code of int16.
pub const INT16: i32 = 5;
/// ONNX's code of int32.
pub const INT32: i32 = 6;
/// ONNX's code of int64.
pub const INT64: i32 = 7;
/// ONNX's code of strings.
pub const STRING: i32 = 8;
/// ONNX's code of truth values.
pub const BOOL: i32 = 9;
/// ONNX's code of float16.
pub const FLOAT16: i32 = 10;
/// ONNX's code of float64.
pub const DOUBLE: i32 = 11;
/// ONNX's code of uint32.
pub const UINT32: i32 = 12;
/// ONNX's code of uint64.
pub const UINT64: i32 = 13;
/// ONNX's code of bfloat16.
pub const BFLOAT16: i32 = 16;
/// ONNX's code of complex64.
pub const COMPLEX64: i32 = 14;
/// ONNX's code of complex128.
pub const COMPLEX128: i32 = 15;

/// Returns ONNX's name of an element type by its code, as in `tensor(float16)`, or `type CODE`.
#[must_use]
pub fn type_name(code: i32) -> String {
    match DataType::from_i32(code) {
        Some(known) => known.proto_name().to_ascii_lowercase(),
        None => format!("type {code}"),
    }
}
