//! How much memory a message takes once decoded, found before it is.
//!
//! Two bytes are an empty attribute, which takes over a kilobyte in memory: a
//! file of some megabytes could otherwise ask for all there is.

use anyhow::{Result, ensure};
use prost::bytes::Buf;
use prost::encoding::{DecodeContext, WireType, decode_key, decode_varint, skip_field};
use tract_onnx::pb;

/// The memory that messages may take for any file, in bytes.
const ALLOWANCE: u64 = 1 << 30;

/// The additional memory that they may take for each byte of the file.
const PER_BYTE: u64 = 8;

/// How deep the decoder follows messages; deeper ones are its error.
const MAXIMUM_DEPTH: usize = 100;

/// The messages that hold others or that there may be many of (onnx/onnx.proto).
#[derive(Clone, Copy)]
enum Kind {
    Model,
    Graph,
    Node,
    Attribute,
    Tensor,
    SparseTensor,
    ValueInfo,
    Type,
    TensorType,
    Shape,
    Dimension,
    Function,
    OperatorSet,
    Entry,
    Training,
    Annotation,
}

impl Kind {
    /// The message in a field.
    fn field(self, number: u32) -> Option<Self> {
        Some(match (self, number) {
            (Self::Model, 7) => Self::Graph,
            (Self::Model, 8) | (Self::Function, 9) => Self::OperatorSet,
            (Self::Model, 14) | (Self::Tensor, 13) | (Self::Annotation, 2) => Self::Entry,
            (Self::Model, 20) => Self::Training,
            (Self::Model, 25) => Self::Function,
            (Self::Training, 1 | 2) => Self::Graph,
            (Self::Training, 3 | 4) => Self::Entry,
            (Self::Graph, 1) | (Self::Function, 7) => Self::Node,
            (Self::Graph, 5) => Self::Tensor,
            (Self::Graph, 11..=13) => Self::ValueInfo,
            (Self::Graph, 14) => Self::Annotation,
            (Self::Graph, 15) => Self::SparseTensor,
            (Self::Node, 5) | (Self::Function, 11) => Self::Attribute,
            (Self::Attribute, 5 | 10) => Self::Tensor,
            (Self::Attribute, 6 | 11) => Self::Graph,
            (Self::Attribute, 15) => Self::Type,
            (Self::Attribute, 22 | 23) => Self::SparseTensor,
            (Self::SparseTensor, 1 | 2) => Self::Tensor,
            (Self::ValueInfo, 2) => Self::Type,
            (Self::Type, 1) => Self::TensorType,
            (Self::TensorType, 2) => Self::Shape,
            (Self::Shape, 1) => Self::Dimension,
            _ => return None,
        })
    }

    /// The size of the message itself in memory, in bytes.
    fn size(self) -> u64 {
        (match self {
            Self::Model => size_of::<pb::ModelProto>(),
            Self::Graph => size_of::<pb::GraphProto>(),
            Self::Node => size_of::<pb::NodeProto>(),
            Self::Attribute => size_of::<pb::AttributeProto>(),
            Self::Tensor => size_of::<pb::TensorProto>(),
            Self::SparseTensor => size_of::<pb::SparseTensorProto>(),
            Self::ValueInfo => size_of::<pb::ValueInfoProto>(),
            Self::Type => size_of::<pb::TypeProto>(),
            Self::TensorType => size_of::<pb::type_proto::Tensor>(),
            Self::Shape => size_of::<pb::TensorShapeProto>(),
            Self::Dimension => size_of::<pb::tensor_shape_proto::Dimension>(),
            Self::Function => size_of::<pb::FunctionProto>(),
            Self::OperatorSet => size_of::<pb::OperatorSetIdProto>(),
            Self::Entry => size_of::<pb::StringStringEntryProto>(),
            Self::Training => size_of::<pb::TrainingInfoProto>(),
            Self::Annotation => size_of::<pb::TensorAnnotation>(),
        }) as u64
    }
}

/// Checks that a model does not take far more memory than its file.
pub(super) fn check(file: &[u8]) -> Result<()> {
    let allowed = ALLOWANCE + PER_BYTE * file.len() as u64;
    let mut total = 0;
    // The decoder reports invalid protobuf.
    let _ = scan(file, Kind::Model, 0, &mut total, allowed);
    ensure!(
        total <= allowed,
        "decoding its {} bytes would take more than {} MiB",
        file.len(),
        allowed >> 20
    );
    Ok(())
}

/// Describes how much a truncated file lacks; `None` if it is not truncated.
pub(super) fn missing(file: &[u8]) -> Option<String> {
    let mut rest = file;
    while rest.has_remaining() {
        let (number, wire_type) = decode_key(&mut rest).ok()?;
        if wire_type != WireType::LengthDelimited {
            skip_field(wire_type, number, &mut rest, DecodeContext::default()).ok()?;
            continue;
        }
        let length = usize::try_from(decode_varint(&mut rest).ok()?).ok()?;
        if length > rest.len() {
            let expected = file.len() - rest.len() + length;
            return Some(format!(
                "it ends too early: it has {} bytes of at least {expected}",
                file.len()
            ));
        }
        rest.advance(length);
    }
    None
}

/// Adds up the memory of messages; stops at the first that exceeds the limit or is invalid.
fn scan(mut message: &[u8], kind: Kind, depth: usize, total: &mut u64, allowed: u64) -> Option<()> {
    *total += kind.size();
    if *total > allowed || depth > MAXIMUM_DEPTH {
        return None;
    }
    while message.has_remaining() {
        let (number, wire_type) = decode_key(&mut message).ok()?;
        match (wire_type, kind.field(number)) {
            (WireType::LengthDelimited, Some(inner)) => {
                let length = usize::try_from(decode_varint(&mut message).ok()?).ok()?;
                scan(message.get(..length)?, inner, depth + 1, total, allowed)?;
                message.advance(length);
            }
            _ => skip_field(wire_type, number, &mut message, DecodeContext::default()).ok()?,
        }
    }
    Some(())
}
