//! Tensors to tract's and back.

use anyhow::{Context, Result, anyhow, bail};
use revseq_graph::ElementType;
use tract_onnx::prelude::*;
use tract_onnx::tract_hir::internal::TDim;

use crate::model::values::ValueType;
use crate::tensor::plain::{Plain, match_plain};
use crate::tensor::{Data, Tensor};

/// tract's name of a type.
pub(super) fn datum_type(element_type: ElementType) -> Result<DatumType> {
    let ElementType::Fixed(data_type) = element_type else {
        return Ok(DatumType::String);
    };
    match_plain!(data_type, T => Ok(T::datum_type()), _ => bail!("tract has no {element_type}"))
}

/// ONNX's name of a type of tract's, whose type of sizes counts as an integer.
pub(super) fn element_type(known: DatumType) -> Option<ElementType> {
    if known == TDim::datum_type() {
        return Some(ElementType::Fixed(revseq_kernels::DataType::Int64));
    }
    ElementType::all()
        .find(|&element_type| datum_type(element_type).is_ok_and(|found| found == known))
}

/// A tensor as tract's.
pub(super) fn to_tract(tensor: &Tensor) -> Result<tract_onnx::prelude::Tensor> {
    let shape = tensor.shape();
    match (tensor.data(), tensor.element_type()) {
        (Data::Bytes(bytes), ElementType::Fixed(data_type)) => match_plain!(
            data_type,
            T => tract_onnx::prelude::Tensor::from_shape(shape, &T::read(bytes)),
            _ => bail!("tract has no {data_type}")
        ),
        (Data::Strings(strings), _) => {
            Ok(tract_ndarray::ArrayD::from_shape_vec(shape, strings.clone())?.into())
        }
        (Data::Bytes(_), ElementType::String) => bail!("the data is not of strings"),
    }
}

/// A tensor from tract's. tract's integer type of sizes becomes the declared type.
pub(super) fn from_tract(
    tensor: tract_onnx::prelude::Tensor,
    declared: &ValueType,
) -> Result<Tensor> {
    let tensor = if tensor.datum_type() == TDim::datum_type() {
        let integer = match declared.known_element_type().map(datum_type) {
            Some(Ok(DatumType::I32)) => DatumType::I32,
            _ => DatumType::I64,
        };
        let numbers = tensor.cast_to_dt(integer).map_err(|_| {
            anyhow!(
                "an output depends on a size that comes from data, of a value whose elements nothing \
                 reads; tract does not compute it; --backend ort may run the model"
            )
        })?;
        numbers.into_owned()
    } else {
        tensor
    };
    let datum_type = tensor.datum_type();
    let element_type = element_type(datum_type).with_context(|| {
        format!("an output has tract's type {datum_type:?}, which ONNX does not have")
    })?;
    let plain = tensor.try_as_plain_ram()?;
    let data = match element_type {
        ElementType::String => Data::Strings(plain.as_slice()?.to_vec()),
        ElementType::Fixed(data_type) => match_plain!(
            data_type,
            T => Data::Bytes(T::write(plain.as_slice()?)),
            _ => bail!("tract has no {data_type}")
        ),
    };
    Tensor::new(element_type, tensor.shape().to_vec(), data)
}
