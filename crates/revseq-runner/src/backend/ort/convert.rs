//! Tensors to ONNX Runtime's and back.

use anyhow::{Result, bail};
use half::{bf16, f16};
use ort::value::{DynValue, TensorElementType, ValueType};
use revseq_graph::ElementType;
use revseq_kernels::DataType;

use crate::tensor::{Data, Tensor};

/// Whether ONNX Runtime has tensors of a type.
pub(super) fn has_type(code: i32) -> bool {
    !matches!(
        ElementType::from_onnx_code(code),
        Some(ElementType::Fixed(
            DataType::Complex64 | DataType::Complex128
        ))
    )
}

/// A tensor as ONNX Runtime's.
pub(super) fn to_ort(tensor: &Tensor) -> Result<DynValue> {
    let shape = tensor.shape();
    let bytes = match tensor.data() {
        Data::Bytes(bytes) => bytes,
        Data::Strings(strings) => {
            let strings = ort::value::Tensor::from_string_array((shape, strings.as_slice()))?;
            return Ok(strings.into_dyn());
        }
    };
    macro_rules! elements {
        ($number:ty, $from:expr) => {{
            let elements: Vec<_> = bytes
                .as_chunks::<{ size_of::<$number>() }>()
                .0
                .iter()
                .map(|bytes| $from(<$number>::from_le_bytes(*bytes)))
                .collect();
            ort::value::Tensor::from_array((shape, elements))?.into_dyn()
        }};
    }
    let ElementType::Fixed(data_type) = tensor.element_type() else {
        bail!("the data is not of type {}", tensor.element_type());
    };
    Ok(match data_type {
        DataType::Float32 => elements!(u32, f32::from_bits),
        DataType::Float64 => elements!(u64, f64::from_bits),
        DataType::Float16 => elements!(u16, f16::from_bits),
        DataType::Bfloat16 => elements!(u16, bf16::from_bits),
        DataType::Uint8 => elements!(u8, std::convert::identity),
        DataType::Uint16 => elements!(u16, std::convert::identity),
        DataType::Uint32 => elements!(u32, std::convert::identity),
        DataType::Uint64 => elements!(u64, std::convert::identity),
        DataType::Int8 => elements!(i8, std::convert::identity),
        DataType::Int16 => elements!(i16, std::convert::identity),
        DataType::Int32 => elements!(i32, std::convert::identity),
        DataType::Int64 => elements!(i64, std::convert::identity),
        DataType::Bool => elements!(u8, |byte| byte != 0),
        _ => bail!("ONNX Runtime has no {data_type}"),
    })
}

/// A tensor from ONNX Runtime's.
pub(super) fn from_ort(value: &DynValue) -> Result<Tensor> {
    let (ty, shape) = match value.dtype() {
        ValueType::Tensor { ty, shape, .. } => (*ty, shape),
        other => bail!("it is {other}, and no tensor"),
    };
    let shape = shape
        .iter()
        .map(|&size| usize::try_from(size))
        .collect::<Result<Vec<_>, _>>()?;
    macro_rules! bytes {
        ($element:ty, $data_type:ident) => {{
            let (_, elements) = value.try_extract_tensor::<$element>()?;
            let bytes = elements
                .iter()
                .flat_map(|element| element.to_le_bytes())
                .collect();
            (ElementType::Fixed(DataType::$data_type), Data::Bytes(bytes))
        }};
    }
    let (element_type, data) = match ty {
        TensorElementType::Float32 => bytes!(f32, Float32),
        TensorElementType::Float64 => bytes!(f64, Float64),
        TensorElementType::Float16 => bytes!(f16, Float16),
        TensorElementType::Bfloat16 => bytes!(bf16, Bfloat16),
        TensorElementType::Uint8 => bytes!(u8, Uint8),
        TensorElementType::Uint16 => bytes!(u16, Uint16),
        TensorElementType::Uint32 => bytes!(u32, Uint32),
        TensorElementType::Uint64 => bytes!(u64, Uint64),
        TensorElementType::Int8 => bytes!(i8, Int8),
        TensorElementType::Int16 => bytes!(i16, Int16),
        TensorElementType::Int32 => bytes!(i32, Int32),
        TensorElementType::Int64 => bytes!(i64, Int64),
        TensorElementType::Bool => {
            let (_, elements) = value.try_extract_tensor::<bool>()?;
            let bytes = elements.iter().map(|&element| u8::from(element)).collect();
            (ElementType::Fixed(DataType::Bool), Data::Bytes(bytes))
        }
        TensorElementType::String => {
            let (_, strings) = value.try_extract_strings()?;
            (ElementType::String, Data::Strings(strings))
        }
        other => bail!("its elements are of ONNX Runtime's type {other}, which is not printed"),
    };
    Tensor::new(element_type, shape, data)
}
