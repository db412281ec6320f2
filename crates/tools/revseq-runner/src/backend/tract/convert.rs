//! Tensors to tract's and back.

use anyhow::{Context, Result, bail};
use revseq_graph::ElementType;
use tract_onnx::prelude::*;

use crate::tensor::plain::{Plain, match_plain};
use crate::tensor::{Data, Tensor};

/// A tensor as tract's.
pub(super) fn to_tract(tensor: &Tensor) -> Result<tract_onnx::prelude::Tensor> {
    let shape = tensor.shape();
    match tensor.data() {
        Data::Fixed(data_type, bytes) => match_plain!(
            data_type,
            T => tract_onnx::prelude::Tensor::from_shape(shape, &T::read(bytes)),
            _ => bail!("tract has no {data_type}")
        ),
        Data::Strings(strings) => {
            Ok(tract_ndarray::ArrayD::from_shape_vec(shape, strings.clone())?.into())
        }
    }
}

/// A tensor from tract's.
pub(super) fn from_tract(tensor: &tract_onnx::prelude::Tensor) -> Result<Tensor> {
    let datum_type = tensor.datum_type();
    let element_type = revseq_tract::element_type(datum_type).with_context(|| {
        format!("an output has tract's type {datum_type:?}, which ONNX does not have")
    })?;
    let plain = tensor.try_as_plain_ram()?;
    let data = match element_type {
        ElementType::String => Data::Strings(plain.as_slice()?.to_vec()),
        ElementType::Fixed(data_type) => match_plain!(
            data_type,
            T => Data::Fixed(data_type, T::write(plain.as_slice()?)),
            _ => bail!("tract has no {data_type}")
        ),
    };
    Tensor::new(tensor.shape().to_vec(), data)
}
