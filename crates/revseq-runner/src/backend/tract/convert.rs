//! Tensors to tract's and back.

use anyhow::{Result, bail};
use half::f16;
use revseq_graph::ElementType;
use revseq_kernels::DataType;
use tract_onnx::prelude::*;
use tract_onnx::tract_hir::internal::TDim;

use crate::model::values::ValueType;
use crate::tensor::{Data, Tensor};

/// tract's name of a type.
pub(super) fn datum_type(element_type: ElementType) -> Result<DatumType> {
    let ElementType::Fixed(data_type) = element_type else {
        return Ok(DatumType::String);
    };
    Ok(match data_type {
        DataType::Float32 => DatumType::F32,
        DataType::Float16 => DatumType::F16,
        DataType::Float64 => DatumType::F64,
        DataType::Uint8 => DatumType::U8,
        DataType::Uint16 => DatumType::U16,
        DataType::Uint32 => DatumType::U32,
        DataType::Uint64 => DatumType::U64,
        DataType::Int8 => DatumType::I8,
        DataType::Int16 => DatumType::I16,
        DataType::Int32 => DatumType::I32,
        DataType::Int64 => DatumType::I64,
        DataType::Bool => DatumType::Bool,
        _ => bail!("tract has no {element_type}"),
    })
}

/// ONNX's name of a type of tract's, whose own of sizes stands for an integer.
pub(super) fn element_type(known: DatumType) -> Option<ElementType> {
    if known == TDim::datum_type() {
        return Some(ElementType::Fixed(DataType::Int64));
    }
    let mut types = (1..=16).filter_map(ElementType::from_onnx_code);
    types.find(|&element_type| datum_type(element_type).is_ok_and(|found| found == known))
}

/// A tensor as tract's.
pub(super) fn to_tract(tensor: &Tensor) -> Result<tract_onnx::prelude::Tensor> {
    let shape = tensor.shape();
    let bytes = match tensor.data() {
        Data::Bytes(bytes) => bytes,
        Data::Strings(strings) => {
            let array = tract_ndarray::ArrayD::from_shape_vec(shape, strings.clone())?;
            return Ok(array.into());
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
            tract_onnx::prelude::Tensor::from_shape(shape, &elements)
        }};
    }
    match datum_type(tensor.element_type())? {
        DatumType::F32 => elements!(u32, f32::from_bits),
        DatumType::F64 => elements!(u64, f64::from_bits),
        DatumType::F16 => elements!(u16, f16::from_bits),
        DatumType::U8 => elements!(u8, std::convert::identity),
        DatumType::U16 => elements!(u16, std::convert::identity),
        DatumType::U32 => elements!(u32, std::convert::identity),
        DatumType::U64 => elements!(u64, std::convert::identity),
        DatumType::I8 => elements!(i8, std::convert::identity),
        DatumType::I16 => elements!(i16, std::convert::identity),
        DatumType::I32 => elements!(i32, std::convert::identity),
        DatumType::I64 => elements!(i64, std::convert::identity),
        DatumType::Bool => elements!(u8, |byte| byte != 0),
        other => bail!("{other:?} is not one of ONNX's types"),
    }
}

/// A tensor from tract's. Its own integer type of sizes is what was declared.
pub(super) fn from_tract(
    tensor: tract_onnx::prelude::Tensor,
    declared: &ValueType,
) -> Result<Tensor> {
    let tensor = if tensor.datum_type() == TDim::datum_type() {
        let integer = match declared.known_element_type() {
            Some(ElementType::Fixed(DataType::Int32)) => DatumType::I32,
            _ => DatumType::I64,
        };
        tensor.cast_to_dt(integer)?.into_owned()
    } else {
        tensor
    };
    let shape = tensor.shape().to_vec();
    macro_rules! bytes {
        ($element:ty, $data_type:ident) => {{
            let view = tensor.to_plain_array_view::<$element>()?;
            let bytes = view
                .iter()
                .flat_map(|element| element.to_le_bytes())
                .collect();
            (ElementType::Fixed(DataType::$data_type), Data::Bytes(bytes))
        }};
    }
    let (element_type, data) = match tensor.datum_type() {
        DatumType::F32 => bytes!(f32, Float32),
        DatumType::F64 => bytes!(f64, Float64),
        DatumType::F16 => bytes!(f16, Float16),
        DatumType::U8 => bytes!(u8, Uint8),
        DatumType::U16 => bytes!(u16, Uint16),
        DatumType::U32 => bytes!(u32, Uint32),
        DatumType::U64 => bytes!(u64, Uint64),
        DatumType::I8 => bytes!(i8, Int8),
        DatumType::I16 => bytes!(i16, Int16),
        DatumType::I32 => bytes!(i32, Int32),
        DatumType::I64 => bytes!(i64, Int64),
        DatumType::Bool => {
            let view = tensor.to_plain_array_view::<bool>()?;
            let bytes = view.iter().map(|&element| u8::from(element)).collect();
            (ElementType::Fixed(DataType::Bool), Data::Bytes(bytes))
        }
        DatumType::String => {
            let view = tensor.to_plain_array_view::<String>()?;
            (
                ElementType::String,
                Data::Strings(view.iter().cloned().collect()),
            )
        }
        other => bail!("an output has tract's type {other:?}, which is none of ONNX's"),
    };
    Tensor::new(element_type, shape, data)
}
