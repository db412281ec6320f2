//! Tensors as ONNX stores them: `TensorProto` (onnx/onnx.proto).

use anyhow::{Context, Result, bail, ensure};
use revseq_graph::ElementType;
use revseq_onnx::model::{TensorProto, type_name};
use revseq_onnx::tensor;

use super::{Data, Tensor};

/// Decodes a file that holds one tensor; returns its name, too.
pub(crate) fn decode(bytes: &[u8]) -> Result<(String, Tensor)> {
    ensure!(!bytes.is_empty(), "it is empty");
    let proto = revseq_onnx::decode_tensor(bytes)?;
    let tensor = from_proto(&proto)?;
    Ok((proto.name().to_owned(), tensor))
}

/// Encodes a tensor with `raw_data`, or strings with `string_data`.
pub(crate) fn encode(tensor: &Tensor, name: &str) -> Result<Vec<u8>> {
    let mut proto = TensorProto {
        name: Some(name.to_owned()),
        data_type: Some(tensor.element_type().onnx_code()),
        dims: tensor.shape.iter().map(|&size| size as i64).collect(),
        ..TensorProto::default()
    };
    match &tensor.data {
        Data::Fixed(_, bytes) => proto.raw_data = Some(bytes.clone()),
        Data::Strings(strings) => {
            let strings = strings.iter().map(|it| it.clone().into_bytes());
            proto.string_data = strings.collect();
        }
    }
    Ok(revseq_onnx::encode(&proto)?)
}

/// The tensor that a message with its own data holds.
pub(crate) fn from_proto(proto: &TensorProto) -> Result<Tensor> {
    let bytes = tensor::bytes(proto)?;
    let Some(element_type) = ElementType::from_onnx_code(proto.code()) else {
        bail!(
            "its element type {} is not supported",
            type_name(proto.code())
        );
    };
    let data = match element_type {
        ElementType::Fixed(data_type) => Data::Fixed(data_type, bytes.into_owned()),
        ElementType::String => {
            let strings = proto.string_data.iter().enumerate();
            let strings = strings.map(|(index, bytes)| {
                let string = String::from_utf8(bytes.clone());
                string.with_context(|| format!("string {index} is not UTF-8"))
            });
            Data::Strings(strings.collect::<Result<_>>()?)
        }
    };
    Tensor::new(tensor::check(proto)?, data)
}
