//! Tensors as ONNX stores them: `TensorProto` (onnx/onnx.proto).

use anyhow::{Context, Result, bail, ensure};
use prost::Message;
use revseq_graph::ElementType;
use revseq_kernels::DataType;
use tract_onnx::pb::TensorProto;
use tract_onnx::pb::tensor_proto::{self, DataLocation};

use super::{Data, Tensor, check_rank, size, type_and_shape};

/// Decodes a file that holds one tensor; returns its name, too.
pub(crate) fn decode(bytes: &[u8]) -> Result<(String, Tensor)> {
    let proto = TensorProto::decode(bytes).context("it is not a TensorProto")?;
    if is_external(&proto) {
        bail!("its data is external, which is supported in models only");
    }
    let tensor = from_proto(&proto)?;
    Ok((proto.name, tensor))
}

/// Encodes a tensor with `raw_data`, or strings with `string_data`.
pub(crate) fn encode(tensor: &Tensor, name: &str) -> Vec<u8> {
    let mut proto = TensorProto {
        name: name.to_owned(),
        data_type: tensor.element_type.onnx_code(),
        dims: tensor.shape.iter().map(|&size| size as i64).collect(),
        ..TensorProto::default()
    };
    match &tensor.data {
        Data::Bytes(bytes) => proto.raw_data = bytes.clone(),
        Data::Strings(strings) => {
            proto.string_data = strings
                .iter()
                .map(|string| string.clone().into_bytes())
                .collect();
        }
    }
    proto.encode_to_vec()
}

/// Whether a tensor's data is in another file.
pub(crate) fn is_external(proto: &TensorProto) -> bool {
    proto.data_location == Some(DataLocation::External as i32)
}

/// The name of an element type by its code, known or not.
pub(crate) fn type_name(code: i32) -> String {
    if let Some(element_type) = ElementType::from_onnx_code(code) {
        return element_type.name().to_owned();
    }
    match tensor_proto::DataType::try_from(code) {
        Ok(known) => known.as_str_name().to_ascii_lowercase(),
        Err(_) => format!("type {code}"),
    }
}

/// The tensor's sizes, if they are sizes.
pub(crate) fn shape(proto: &TensorProto) -> Result<Vec<usize>> {
    proto
        .dims
        .iter()
        .map(|&dim| usize::try_from(dim).ok())
        .collect::<Option<Vec<_>>>()
        .with_context(|| format!("its sizes {:?} are not all valid", proto.dims))
}

/// Checks that a tensor holds exactly the data that its type and sizes promise.
/// Ignores data in another file.
///
/// `None` for a type that [`ElementType`] lacks, whose data is ignored.
pub(crate) fn check(proto: &TensorProto) -> Result<Option<(ElementType, Vec<usize>)>> {
    ensure!(
        proto.segment.is_none(),
        "it is a segment of a tensor, which is not supported"
    );
    check_rank(proto.dims.len())?;
    let shape = shape(proto)?;
    let Some(element_type) = ElementType::from_onnx_code(proto.data_type) else {
        ensure!(proto.data_type > 0, "it has no element type");
        return Ok(None);
    };
    let promised = size(element_type, &shape).with_context(|| {
        format!(
            "{} is more than memory can address",
            type_and_shape(element_type, &shape)
        )
    })?;
    let fields = [
        ("raw_data", proto.raw_data.len()),
        ("float_data", proto.float_data.len()),
        ("int32_data", proto.int32_data.len()),
        ("string_data", proto.string_data.len()),
        ("int64_data", proto.int64_data.len()),
        ("double_data", proto.double_data.len()),
        ("uint64_data", proto.uint64_data.len()),
    ];
    let mut held = fields.into_iter().filter(|&(_, len)| len > 0);
    let first = held.next();
    if let (Some((one, _)), Some((other, _))) = (first, held.next()) {
        bail!("it has both {one} and {other}");
    }
    if is_external(proto) {
        ensure!(
            element_type != ElementType::String,
            "strings cannot be external"
        );
        ensure!(first.is_none(), "it has both inline and external data");
        return Ok(Some((element_type, shape)));
    }
    let typed = typed_field(element_type);
    let expected = match first {
        Some(("raw_data", _)) if element_type != ElementType::String => promised,
        Some((field, _)) if field != typed.0 => {
            bail!(
                "it has {field}, but {element_type} elements are in {}",
                typed.0
            )
        }
        _ => promised / typed.1,
    };
    let (field, found) = first.unwrap_or((typed.0, 0));
    ensure!(
        found == expected,
        "{} has {found} {} in {field}, expected {expected}",
        type_and_shape(element_type, &shape),
        if field == "raw_data" {
            "bytes"
        } else {
            "values"
        },
    );
    Ok(Some((element_type, shape)))
}

/// The field that holds elements of a type, and how many bytes of the tensor
/// each of its values stands for.
fn typed_field(element_type: ElementType) -> (&'static str, usize) {
    let ElementType::Fixed(data_type) = element_type else {
        return ("string_data", 1);
    };
    match data_type {
        DataType::Float32 | DataType::Complex64 => ("float_data", 4),
        DataType::Float64 | DataType::Complex128 => ("double_data", 8),
        DataType::Int64 => ("int64_data", 8),
        DataType::Uint64 => ("uint64_data", 8),
        DataType::Uint32 => ("uint64_data", 4),
        _ => ("int32_data", data_type.size()),
    }
}

/// The tensor that a message with its own data holds.
pub(crate) fn from_proto(proto: &TensorProto) -> Result<Tensor> {
    let Some((element_type, shape)) = check(proto)? else {
        bail!(
            "its element type {} is not supported",
            type_name(proto.data_type)
        );
    };
    let ElementType::Fixed(data_type) = element_type else {
        let strings = proto.string_data.iter().enumerate().map(|(index, bytes)| {
            String::from_utf8(bytes.clone()).with_context(|| format!("string {index} is not UTF-8"))
        });
        return Tensor::new(
            element_type,
            shape,
            Data::Strings(strings.collect::<Result<_>>()?),
        );
    };
    let bytes = if proto.raw_data.is_empty() {
        typed_bytes(proto, data_type)?
    } else {
        proto.raw_data.clone()
    };
    check_bools(data_type, &bytes)?;
    Tensor::new(element_type, shape, Data::Bytes(bytes))
}

/// Checks that elements are 0 or 1, if they are bools.
fn check_bools(data_type: DataType, bytes: &[u8]) -> Result<()> {
    if data_type == DataType::Bool
        && let Some(index) = bytes.iter().position(|&byte| byte > 1)
    {
        bail!(
            "element {index} is {}, expected 0 or 1 for a bool",
            bytes[index]
        );
    }
    Ok(())
}

fn typed_bytes(proto: &TensorProto, data_type: DataType) -> Result<Vec<u8>> {
    let out_of_range = |index: usize, value: &dyn std::fmt::Display| {
        anyhow::anyhow!(
            "value {index} is {value}, out of range for {}",
            ElementType::from(data_type)
        )
    };
    let ints = || proto.int32_data.iter().copied().enumerate();
    Ok(match data_type {
        DataType::Float32 | DataType::Complex64 => proto
            .float_data
            .iter()
            .flat_map(|value| value.to_le_bytes())
            .collect(),
        DataType::Float64 | DataType::Complex128 => proto
            .double_data
            .iter()
            .flat_map(|value| value.to_le_bytes())
            .collect(),
        DataType::Int64 => proto
            .int64_data
            .iter()
            .flat_map(|value| value.to_le_bytes())
            .collect(),
        DataType::Uint64 => proto
            .uint64_data
            .iter()
            .flat_map(|value| value.to_le_bytes())
            .collect(),
        DataType::Int32 => proto
            .int32_data
            .iter()
            .flat_map(|value| value.to_le_bytes())
            .collect(),
        DataType::Uint32 => {
            let mut bytes = Vec::with_capacity(proto.uint64_data.len() * 4);
            for (index, &value) in proto.uint64_data.iter().enumerate() {
                let value = u32::try_from(value).map_err(|_| out_of_range(index, &value))?;
                bytes.extend(value.to_le_bytes());
            }
            bytes
        }
        DataType::Int16 => {
            let mut bytes = Vec::with_capacity(proto.int32_data.len() * 2);
            for (index, value) in ints() {
                let value = i16::try_from(value).map_err(|_| out_of_range(index, &value))?;
                bytes.extend(value.to_le_bytes());
            }
            bytes
        }
        DataType::Int8 => ints()
            .map(|(index, value)| match i8::try_from(value) {
                Ok(value) => Ok(value.to_le_bytes()[0]),
                Err(_) => Err(out_of_range(index, &value)),
            })
            .collect::<Result<_>>()?,
        DataType::Uint8 | DataType::Bool => ints()
            .map(|(index, value)| u8::try_from(value).map_err(|_| out_of_range(index, &value)))
            .collect::<Result<_>>()?,
        // The 16-bit floats are stored as the bits of an unsigned integer.
        _ => {
            let mut bytes = Vec::with_capacity(proto.int32_data.len() * 2);
            for (index, value) in ints() {
                let value = u16::try_from(value).map_err(|_| out_of_range(index, &value))?;
                bytes.extend(value.to_le_bytes());
            }
            bytes
        }
    })
}

/// Rewrites a tensor's data as `raw_data`, which every reader takes alike.
///
/// Strings are only checked. Data in another file and types that [`ElementType`] lacks stay as they are.
pub(crate) fn normalize(proto: &mut TensorProto) -> Result<()> {
    let Some((element_type, _)) = check(proto)? else {
        return Ok(());
    };
    if is_external(proto) {
        return Ok(());
    }
    // In place, as it may be most of the model.
    if let (ElementType::Fixed(data_type), false) = (element_type, proto.raw_data.is_empty()) {
        return check_bools(data_type, &proto.raw_data);
    }
    if let Data::Bytes(bytes) = from_proto(proto)?.data {
        proto.raw_data = bytes;
    }
    proto.float_data.clear();
    proto.int32_data.clear();
    proto.int64_data.clear();
    proto.double_data.clear();
    proto.uint64_data.clear();
    Ok(())
}
