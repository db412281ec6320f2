//! Rust's types of elements.

use crate::DataType;

/// A type of elements: slices of it are moved as they are.
///
/// Complex numbers are pairs, the real part first. With the feature `half`, the
/// two floats of 16 bits are those of the crate `half`.
pub trait Element: sealed::Element {
    /// The data type that this is.
    const DATA_TYPE: DataType;
}

mod sealed {
    /// A type without padding, of the size of its data type.
    pub trait Element: Copy + Send + Sync + 'static {}
}

macro_rules! elements {
    ($($type:ty: $data_type:ident),* $(,)?) => {$(
        impl Element for $type {
            const DATA_TYPE: DataType = DataType::$data_type;
        }
        impl sealed::Element for $type {}
        const _: () = assert!(size_of::<$type>() == DataType::$data_type.size());
    )*};
}
elements!(
    f32: Float32,
    f64: Float64,
    u8: Uint8,
    u16: Uint16,
    u32: Uint32,
    u64: Uint64,
    i8: Int8,
    i16: Int16,
    i32: Int32,
    i64: Int64,
    bool: Bool,
    [f32; 2]: Complex64,
    [f64; 2]: Complex128,
);
#[cfg(feature = "half")]
elements!(half::f16: Float16, half::bf16: Bfloat16);
