//! ONNX's element types.

use std::fmt;

use revseq_kernels::DataType;

/// The element type of an ONNX tensor: of a fixed size, or strings.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ElementType {
    /// Elements that are plain bytes.
    Fixed(DataType),
    /// Strings, which move but have no size.
    String,
}

/// ONNX's names and `TensorProto.DataType` codes (onnx/onnx.proto).
const TYPES: [(i32, &str, ElementType); 16] = [
    (1, "float", ElementType::Fixed(DataType::Float32)),
    (2, "uint8", ElementType::Fixed(DataType::Uint8)),
    (3, "int8", ElementType::Fixed(DataType::Int8)),
    (4, "uint16", ElementType::Fixed(DataType::Uint16)),
    (5, "int16", ElementType::Fixed(DataType::Int16)),
    (6, "int32", ElementType::Fixed(DataType::Int32)),
    (7, "int64", ElementType::Fixed(DataType::Int64)),
    (8, "string", ElementType::String),
    (9, "bool", ElementType::Fixed(DataType::Bool)),
    (10, "float16", ElementType::Fixed(DataType::Float16)),
    (11, "double", ElementType::Fixed(DataType::Float64)),
    (12, "uint32", ElementType::Fixed(DataType::Uint32)),
    (13, "uint64", ElementType::Fixed(DataType::Uint64)),
    (14, "complex64", ElementType::Fixed(DataType::Complex64)),
    (15, "complex128", ElementType::Fixed(DataType::Complex128)),
    (16, "bfloat16", ElementType::Fixed(DataType::Bfloat16)),
];

impl ElementType {
    /// Every element type, in the order of ONNX's codes.
    pub fn all() -> impl Iterator<Item = Self> {
        TYPES.into_iter().map(|(_, _, element_type)| element_type)
    }

    /// The type with this `TensorProto.DataType` code; `None` for those that no
    /// schema of the operator takes (the 4- and 8-bit floats, the 4-bit integers).
    #[must_use]
    pub fn from_onnx_code(code: i32) -> Option<Self> {
        TYPES
            .into_iter()
            .find(|row| row.0 == code)
            .map(|(_, _, element_type)| element_type)
    }

    /// The `TensorProto.DataType` code.
    #[must_use]
    pub fn onnx_code(self) -> i32 {
        self.row().0
    }

    /// ONNX's name of the type, as in `tensor(float16)`.
    #[must_use]
    pub fn name(self) -> &'static str {
        self.row().1
    }

    fn row(self) -> (i32, &'static str, Self) {
        TYPES
            .into_iter()
            .find(|row| row.2 == self)
            .expect("the table has every type")
    }
}

impl From<DataType> for ElementType {
    fn from(data_type: DataType) -> Self {
        Self::Fixed(data_type)
    }
}

impl fmt::Display for ElementType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_has_every_type_once() {
        for data_type in DataType::ALL {
            let element_type = ElementType::from(data_type);
            let code = element_type.onnx_code();
            assert_eq!(ElementType::from_onnx_code(code), Some(element_type));
        }
        assert_eq!(ElementType::String.onnx_code(), 8);
        assert_eq!(ElementType::from_onnx_code(0), None);
        assert_eq!(ElementType::from_onnx_code(17), None);
    }
}
