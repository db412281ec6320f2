//! Decodes and encodes models.

use buffa::encoding::{Tag, WireType, decode_varint, skip_field};
use buffa::{DecodeError, DecodeOptions, EncodeError, Message};

use std::collections::BTreeSet;
use std::path::Path;

use crate::proto::{ModelProto, TensorProto};
use crate::{Error, check, external_files, file, memory};

/// A model of ONNX that can be read, as ONNX's own checker has it.
#[derive(Clone, Debug, PartialEq)]
pub struct Model {
    /// The message, for the other crates of this workspace.
    #[doc(hidden)]
    pub proto: ModelProto,
}

impl Model {
    /// Reads the model in a file and checks it; the data in files beside it becomes part of it.
    ///
    /// # Errors
    /// The file cannot be read, is not a model, or is not a valid one.
    pub fn open(path: &Path) -> Result<Self, Error> {
        let proto = file::open(path)?;
        Ok(Self { proto })
    }

    /// Decodes a model and checks it. Data in other files stays there, under the same relative paths.
    ///
    /// # Errors
    /// The bytes are not a model, or not a valid one; they nest too deeply, or would take far more memory
    /// than they are, or than there is.
    pub fn decode(bytes: &[u8]) -> Result<Self, Error> {
        let proto = decode(bytes)?;
        check(&proto)?;
        Ok(Self { proto })
    }

    /// Encodes the model.
    ///
    /// # Errors
    /// It exceeds protobuf's 2 GiB, or the memory that there is.
    pub fn encode(&self) -> Result<Vec<u8>, Error> {
        encode(&self.proto)
    }

    /// Returns the files of its data, as the model names them: paths below its folder, if it can be
    /// trusted.
    #[must_use]
    pub fn external_files(&self) -> BTreeSet<String> {
        external_files(&self.proto)
    }
}

/// The maximum nesting depth of messages, the same as in other ONNX readers.
const MAXIMUM_DEPTH: u32 = 100;

/// The memory allowed for messages, in bytes: a constant plus a multiple of the file size.
const MEMORY_ALLOWANCE: usize = 1 << 30;
const MEMORY_PER_BYTE: usize = 8;

/// The most memory that a decoded model is expected to take beside its bytes.
const EXPECTED_OVERHEAD: usize = 128 << 20;

/// Decodes a model. Fields unknown to this version of ONNX are kept.
///
/// # Errors
///
/// If the bytes are not a model, nest too deeply, would take far more memory than they have bytes,
/// or more than there is.
pub fn decode(bytes: &[u8]) -> Result<ModelProto, Error> {
    file::check_start(bytes).map_err(Error::invalid)?;
    let memory = allowed_memory(bytes);
    let overhead = EXPECTED_OVERHEAD.min(MEMORY_PER_BYTE.saturating_mul(bytes.len()));
    memory::check(bytes.len().saturating_add(overhead))?;
    let options = DecodeOptions::new()
        .with_recursion_limit(MAXIMUM_DEPTH)
        .with_unknown_field_limit(usize::MAX)
        .with_element_memory_limit(memory);
    let decoded: Result<ModelProto, _> = options.decode_from_slice(bytes);
    let model = decoded.map_err(|error| match error {
        DecodeError::ElementMemoryLimitExceeded => Error::Memory {
            bytes: bytes.len(),
            limit: memory,
        },
        error => {
            if let Some(what) = file::text(bytes) {
                return Error::Invalid(format!("{}: {what}", file::NO_MODEL));
            }
            match expected_length(bytes) {
                Some(expected) => Error::Truncated {
                    bytes: bytes.len(),
                    expected,
                },
                None => Error::Decode(error.into()),
            }
        }
    })?;
    if model.graph.is_unset() {
        return Err(Error::NoGraph);
    }
    Ok(model)
}

/// Decodes a file that holds one tensor.
///
/// # Errors
///
/// If the bytes are not a tensor.
pub fn decode_tensor(bytes: &[u8]) -> Result<TensorProto, Error> {
    let options = DecodeOptions::new()
        .with_recursion_limit(MAXIMUM_DEPTH)
        .with_element_memory_limit(allowed_memory(bytes));
    options
        .decode_from_slice(bytes)
        .map_err(|error| Error::DecodeTensor(error.into()))
}

/// The memory that messages may take: a message of two bytes takes hundreds in memory.
fn allowed_memory(bytes: &[u8]) -> usize {
    let memory = MEMORY_PER_BYTE.saturating_mul(bytes.len());
    memory.saturating_add(MEMORY_ALLOWANCE)
}

/// Encodes a model, or a part of one, with fields in numerical order like ONNX's own writers, so that
/// an untouched model of theirs gives the same file.
///
/// # Errors
///
/// If it exceeds protobuf's 2 GiB, or the memory that there is.
pub fn encode(model: &impl Message) -> Result<Vec<u8>, Error> {
    let size = model.try_encoded_len().map_err(too_large)?;
    let mut bytes = Vec::new();
    memory::reserve(&mut bytes, size as usize)?;
    model.try_encode(&mut bytes).map_err(too_large)?;
    Ok(bytes)
}

fn too_large(error: EncodeError) -> Error {
    Error::Encode(error.into())
}

/// The least length of a file whose last field is cut off; `None` if it is not.
fn expected_length(file: &[u8]) -> Option<usize> {
    let mut rest = file;
    while !rest.is_empty() {
        let tag = Tag::decode(&mut rest).ok()?;
        if tag.wire_type() != WireType::LengthDelimited {
            skip_field(tag, &mut rest).ok()?;
            continue;
        }
        let length = usize::try_from(decode_varint(&mut rest).ok()?).ok()?;
        let after = rest.get(length..);
        match after {
            Some(after) => rest = after,
            None => return (file.len() - rest.len()).checked_add(length),
        }
    }
    None
}
