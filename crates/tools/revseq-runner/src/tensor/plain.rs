//! The element types of a fixed size that Rust and the runtimes have, in one table.

use half::{bf16, f16};

/// An element that a tensor holds as bytes, the lowest first.
pub(crate) trait Plain: Copy {
    /// The elements of a tensor's bytes.
    fn read(bytes: &[u8]) -> Vec<Self>;
    /// The bytes of elements.
    fn write(elements: &[Self]) -> Vec<u8>;
}

macro_rules! plain {
    ($($number:ty)*) => {$(
        impl Plain for $number {
            fn read(bytes: &[u8]) -> Vec<Self> {
                let (elements, _) = bytes.as_chunks();
                elements.iter().map(|&bytes| Self::from_le_bytes(bytes)).collect()
            }

            fn write(elements: &[Self]) -> Vec<u8> {
                elements.iter().flat_map(|element| element.to_le_bytes()).collect()
            }
        }
    )*};
}

plain!(u8 u16 u32 u64 i8 i16 i32 i64 f16 bf16 f32 f64);

impl Plain for bool {
    fn read(bytes: &[u8]) -> Vec<Self> {
        bytes.iter().map(|&byte| byte != 0).collect()
    }

    fn write(elements: &[Self]) -> Vec<u8> {
        elements.iter().map(|&element| u8::from(element)).collect()
    }
}

/// Matches `match_plain!(data_type, T => expression of Rust's type T, other patterns => …)`: the
/// other patterns are for the types that not all of Rust, tract and ONNX Runtime have.
macro_rules! match_plain {
    ($data_type:expr, $plain:ident => $then:expr, $($rest:tt)*) => {
        $crate::tensor::plain::match_plain!(@rows $data_type, $plain, $then, { $($rest)* }
            Float32 f32, Float64 f64, Float16 half::f16, Bool bool,
            Uint8 u8, Uint16 u16, Uint32 u32, Uint64 u64,
            Int8 i8, Int16 i16, Int32 i32, Int64 i64)
    };
    (@rows $data_type:expr, $plain:ident, $then:expr, { $($rest:tt)* } $($name:ident $type:ty),*) => {
        match $data_type {
            $(revseq_kernels::DataType::$name => {
                type $plain = $type;
                $then
            })*
            $($rest)*
        }
    };
}
pub(crate) use match_plain;
