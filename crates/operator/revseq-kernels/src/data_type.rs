//! Element types, named and numbered as DirectML names and numbers them.

use std::fmt;

/// The type of a tensor's elements.
///
/// The first eleven, in the order of their codes, are the types of `DML_TENSOR_DATA_TYPE` (DirectML.h) that
/// REVERSE_SUBSEQUENCES takes; the last four exist only in ONNX.
/// Kernels move elements and never read them, so only [`size`](Self::size)
/// matters to a [`Plan`](crate::Plan).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[non_exhaustive]
pub enum DataType {
    /// 32-bit IEEE 754 float.
    Float32,
    /// 16-bit IEEE 754 float.
    Float16,
    /// 32-bit unsigned integer.
    Uint32,
    /// 16-bit unsigned integer.
    Uint16,
    /// 8-bit unsigned integer.
    Uint8,
    /// 32-bit signed integer.
    Int32,
    /// 16-bit signed integer.
    Int16,
    /// 8-bit signed integer.
    Int8,
    /// 64-bit IEEE 754 float.
    Float64,
    /// 64-bit unsigned integer.
    Uint64,
    /// 64-bit signed integer.
    Int64,
    /// One byte, 0 or 1. Not in DirectML.
    Bool,
    /// The upper half of a 32-bit float. Not in DirectML.
    Bfloat16,
    /// Two 32-bit floats. Not in DirectML.
    Complex64,
    /// Two 64-bit floats. Not in DirectML.
    Complex128,
}

impl DataType {
    /// Every data type: DirectML's in the order of their codes, then the others.
    pub const ALL: [Self; 15] = [
        Self::Float32,
        Self::Float16,
        Self::Uint32,
        Self::Uint16,
        Self::Uint8,
        Self::Int32,
        Self::Int16,
        Self::Int8,
        Self::Float64,
        Self::Uint64,
        Self::Int64,
        Self::Bool,
        Self::Bfloat16,
        Self::Complex64,
        Self::Complex128,
    ];

    /// The size of one element in bytes: 1, 2, 4, 8 or 16.
    #[must_use]
    pub const fn size(self) -> usize {
        match self {
            Self::Uint8 | Self::Int8 | Self::Bool => 1,
            Self::Float16 | Self::Bfloat16 | Self::Uint16 | Self::Int16 => 2,
            Self::Float32 | Self::Uint32 | Self::Int32 => 4,
            Self::Float64 | Self::Uint64 | Self::Int64 | Self::Complex64 => 8,
            Self::Complex128 => 16,
        }
    }

    /// The value of this type in `DML_TENSOR_DATA_TYPE` (DirectML.h), or
    /// `None` for a type that DirectML lacks.
    #[must_use]
    pub const fn directml_code(self) -> Option<u32> {
        let code = self as u32 + 1;
        if code <= Self::Int64 as u32 + 1 {
            Some(code)
        } else {
            None
        }
    }

    /// The name in capitals, as DirectML's documentation writes it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Float32 => "FLOAT32",
            Self::Float16 => "FLOAT16",
            Self::Uint32 => "UINT32",
            Self::Uint16 => "UINT16",
            Self::Uint8 => "UINT8",
            Self::Int32 => "INT32",
            Self::Int16 => "INT16",
            Self::Int8 => "INT8",
            Self::Float64 => "FLOAT64",
            Self::Uint64 => "UINT64",
            Self::Int64 => "INT64",
            Self::Bool => "BOOL",
            Self::Bfloat16 => "BFLOAT16",
            Self::Complex64 => "COMPLEX64",
            Self::Complex128 => "COMPLEX128",
        }
    }
}

impl fmt::Display for DataType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

#[cfg(test)]
mod tests {
    use super::DataType;

    #[test]
    fn codes_are_directml_s() {
        for (index, data_type) in DataType::ALL.into_iter().enumerate() {
            let code = u32::try_from(index + 1).ok().filter(|&code| code <= 11);
            assert_eq!(data_type.directml_code(), code, "{data_type}");
        }
    }
}
