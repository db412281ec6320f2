//! ONNX's codes of element types (`TensorProto.DataType` of onnx.proto).

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
