//! Tensors to ONNX Runtime's and back.

use anyhow::{Context, Result, bail};
use half::bf16;
use ort::sys::ONNXTensorElementDataType;
use ort::value::{DynValue, ValueType};
use revseq_graph::ElementType;
use revseq_kernels::DataType;

use crate::tensor::plain::{Plain, match_plain};
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
    use ort::value::Tensor;
    let shape = tensor.shape();
    Ok(match tensor.data() {
        Data::Fixed(data_type, bytes) => match_plain!(
            data_type,
            T => Tensor::from_array((shape, T::read(bytes)))?.into_dyn(),
            DataType::Bfloat16 => Tensor::from_array((shape, bf16::read(bytes)))?.into_dyn(),
            _ => bail!("ONNX Runtime has no {data_type}")
        ),
        Data::Strings(strings) => {
            Tensor::from_string_array((shape, strings.as_slice()))?.into_dyn()
        }
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
    // Its codes are ONNX's.
    let element_type = ElementType::from_onnx_code(ONNXTensorElementDataType::from(ty) as i32)
        .with_context(|| {
            format!("its elements are of ONNX Runtime's type {ty}, which is not printed")
        })?;
    let data = match element_type {
        ElementType::String => Data::Strings(value.try_extract_strings()?.1),
        ElementType::Fixed(data_type) => Data::Fixed(
            data_type,
            match_plain!(
                data_type,
                T => T::write(value.try_extract_tensor::<T>()?.1),
                DataType::Bfloat16 => bf16::write(value.try_extract_tensor()?.1),
                _ => bail!("ONNX Runtime has no {data_type}")
            ),
        ),
    };
    Tensor::new(shape, data)
}
