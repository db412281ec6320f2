//! Files, read with bounds; files that are no models are recognised by their first bytes, before
//! gigabytes are read.

use std::fs::File;
use std::io::Read;
use std::path::Path;

use anyhow::{Result, bail, ensure};
use buffa::encoding::{Tag, WireType, decode_varint};

use crate::pointer::{POINTER, check_fetched};
use crate::{Error, ModelProto, check, decode, external, memory};

/// The largest file that is read, in bytes. Protobuf itself ends at 2 GiB.
const MAXIMUM_FILE: u64 = 4 << 30;

/// Reads the model in a file, checks it ([`check()`](crate::check())), and loads its data
/// ([`external::load`]).
///
/// # Errors
/// The file cannot be read, is not a model, or is not a valid one.
pub fn open(path: &Path) -> Result<ModelProto, Error> {
    let mut model = decode(&read_model(path)?)?;
    check(&model)?;
    external::load(&mut model, path)?;
    Ok(model)
}

/// Reads a regular file of at most 4 GiB, no longer than it is said to be.
///
/// # Errors
/// It is not a regular file, cannot be read, or is a pointer of Git LFS.
pub fn read(path: &Path) -> Result<Vec<u8>, Error> {
    read_checked(path, check_fetched).map_err(Error::invalid)
}

/// Reads a regular file of at most 4 GiB, unless its first bytes show that it is no model.
///
/// # Errors
/// It is not a regular file, cannot be read, or is of a kind that is recognised.
pub fn read_model(path: &Path) -> Result<Vec<u8>, Error> {
    read_checked(path, check_start).map_err(Error::invalid)
}

/// Reads a stream of at most 4 GiB to its end, unless its first bytes show that it is no model.
///
/// # Errors
/// It cannot be read, is too long, or is of a kind that is recognised.
pub fn read_model_from(mut input: impl Read) -> Result<Vec<u8>, Error> {
    let read = || {
        let mut bytes = Vec::new();
        input.by_ref().take(START).read_to_end(&mut bytes)?;
        check_start(&bytes)?;
        // One more byte, to see whether it ends there.
        let rest = MAXIMUM_FILE + 1 - bytes.len() as u64;
        input.take(rest).read_to_end(&mut bytes)?;
        check_length(bytes.len() as u64)?;
        Ok(bytes)
    };
    read().map_err(Error::invalid)
}

/// Reads a file whose first bytes pass a check.
fn read_checked(path: &Path, check: impl FnOnce(&[u8]) -> Result<()>) -> Result<Vec<u8>> {
    // A pipe or a device would block or never end: look before opening.
    let kind = std::fs::metadata(path)?;
    ensure!(!kind.is_dir(), "it is a folder");
    ensure!(kind.is_file(), "it is not a regular file");
    let mut file = File::open(path)?;
    let metadata = file.metadata()?;
    ensure!(metadata.is_file(), "it is not a regular file");
    let length = metadata.len();
    check_length(length)?;
    let mut bytes = Vec::new();
    let beginning = length.min(START);
    file.by_ref().take(beginning).read_to_end(&mut bytes)?;
    check(&bytes)?;
    let rest = length - bytes.len() as u64;
    memory::reserve(&mut bytes, rest as usize)?;
    file.take(rest).read_to_end(&mut bytes)?;
    Ok(bytes)
}

fn check_length(length: u64) -> Result<()> {
    ensure!(
        length <= MAXIMUM_FILE,
        "it is longer than the limit of {} GiB",
        MAXIMUM_FILE >> 30
    );
    Ok(())
}

/// Number of bytes at the start of a file that are looked at.
const START: u64 = 64;

/// The beginning of a message about a file that is no model.
pub(crate) const NO_MODEL: &str = "it is not an ONNX model";

/// The magic bytes, at an offset, of other files that people pass as models.
const OTHERS: [(usize, &[u8], &str); 20] = [
    (
        0,
        POINTER,
        "it is a Git LFS pointer: `git lfs pull` gets the model",
    ),
    (0, b"<!DOCTYPE", "it is an HTML page"),
    (0, b"<html", "it is an HTML page"),
    (0, b"<?xml", "it is an XML file"),
    (
        0,
        b"\x89HDF",
        "it is an HDF5 file, perhaps a Keras model: export it to ONNX",
    ),
    (
        0,
        b"PK\x03\x04",
        "it is a zip archive, perhaps of a PyTorch or Keras model: export it to ONNX",
    ),
    (4, b"TFL3", "it is a TFLite model: convert it to ONNX"),
    (
        4,
        b"ORTM",
        "it is in ONNX Runtime's own format: use the ONNX model that it was made of",
    ),
    (
        0,
        b"ftrt",
        "it is a TensorRT engine, for one GPU: use the ONNX model that it was built of",
    ),
    (0, b"\x93NUMPY", "it is a NumPy array"),
    (0, b"\x89PNG", "it is a PNG image"),
    (0, b"\xff\xd8\xff", "it is a JPEG image"),
    (0, b"\x1f\x8b", "it is a gzip archive: unpack it first"),
    (
        0,
        b"GGUF",
        "it is a GGUF file, which has weights and no graph: export the model to ONNX",
    ),
    // A length of 8 bytes, of which the upper ones are 0, and JSON.
    (
        4,
        b"\0\0\0\0{\"",
        "it is a safetensors file, which has weights and no graph: export the model to ONNX",
    ),
    (
        0,
        b"\x80\x02\x8a\x0a",
        "it is a pickle of PyTorch: export the model to ONNX",
    ),
    (0, b"\x80\x02", PICKLE),
    (0, b"\x80\x03", PICKLE),
    (0, b"\x80\x04", PICKLE),
    (0, b"\x80\x05", PICKLE),
];

/// A pickle of a version of Python's protocol.
const PICKLE: &str =
    "it is a pickle, perhaps of a PyTorch or scikit-learn model: export it to ONNX";

/// Checks that a file may be a model.
///
/// # Errors
/// The kind of file, if it is recognised.
pub(crate) fn check_start(bytes: &[u8]) -> Result<()> {
    let start = &bytes[..bytes.len().min(START as usize)];
    let other = OTHERS.iter().find(|(offset, magic, _)| {
        let at = start.get(*offset..);
        at.is_some_and(|start| start.starts_with(magic))
    });
    if let Some((.., what)) = other {
        bail!("{NO_MODEL}: {what}");
    }
    if let Some(what) = described_model(start).or_else(|| other_message(start)) {
        bail!("{NO_MODEL}: {what}");
    }
    ensure!(!start.is_empty(), "{NO_MODEL}: it is empty");
    if !begins_a_model(start) {
        match text(start) {
            Some(what) => bail!("{NO_MODEL}: {what}"),
            None => bail!(NO_MODEL),
        }
    }
    Ok(())
}

/// Says of a file whose beginning is text that it is. A model may begin with a letter, but it has
/// lengths of fields, which are no text.
pub(crate) fn text(bytes: &[u8]) -> Option<&'static str> {
    let start = &bytes[..bytes.len().min(START as usize)];
    let text = match std::str::from_utf8(start) {
        Ok(text) => text,
        // A character that the beginning cuts off.
        Err(error) if error.error_len().is_none() => {
            std::str::from_utf8(&start[..error.valid_up_to()]).ok()?
        }
        Err(_) => return None,
    };
    let is_text = |character: char| !character.is_control() || "\t\r\n".contains(character);
    text.chars()
        .all(is_text)
        .then(|| match text.trim_start().starts_with(['{', '[']) {
            true => "it is a JSON file",
            false => "it is a text file",
        })
}

/// Says of a message whose second field is a message, where a model has the name of its producer, whose
/// it is: behind its version, TensorFlow's has a graph and Core ML's a description. The first field of
/// that is the first again, in which Core ML has the name of an input.
fn described_model(start: &[u8]) -> Option<&'static str> {
    let [8, version @ 1..0x80, 18, rest @ ..] = start else {
        return None;
    };
    let mut fields = rest;
    let mut inner = || {
        let end = fields.iter().position(|&byte| byte < 0x80)?;
        fields = &fields[end + 1..];
        let (tag, rest) = fields.split_first()?;
        fields = rest;
        Some(*tag)
    };
    if inner()? != 0x0a {
        return None;
    }
    Some(match (version, inner()) {
        (1, None | Some(0x12..)) => "it is a SavedModel of TensorFlow: convert it with tf2onnx",
        _ => "it is a Core ML model: convert what it was made of to ONNX",
    })
}

/// Says of a message that is none of a ModelProto whose it is. A tensor has its sizes, one by one or in a list,
/// and then a number where a model has the name of its producer. A graph begins with a node, and that with
/// text and text.
fn other_message(mut start: &[u8]) -> Option<&'static str> {
    let mut node = None;
    while let Ok(tag) = Tag::decode(&mut start) {
        match (tag.field_number(), tag.wire_type()) {
            (1, WireType::Varint) => drop(decode_varint(&mut start).ok()?),
            (1, WireType::LengthDelimited) => {
                let length = decode_varint(&mut start).ok()? as usize;
                node = node.or(Some(start));
                start = start.get(length..).unwrap_or_default();
            }
            (2, WireType::Varint) => {
                return Some(
                    "it is one tensor, as data sets have for an input: give the model's file",
                );
            }
            _ => break,
        }
    }
    let &[0x0a, length @ ..0x80, ref rest @ ..] = node? else {
        return None;
    };
    let behind = rest.get(usize::from(length));
    matches!(behind, None | Some(0x12)).then_some(
        "it is a graph without a model around it, perhaps a GraphDef of TensorFlow: convert that with tf2onnx",
    )
}

/// Whether the first field may be one of a ModelProto, known or not: it has no groups and no
/// numbers of a fixed size.
fn begins_a_model(mut start: &[u8]) -> bool {
    let Ok(tag) = Tag::decode(&mut start) else {
        return false;
    };
    match (tag.field_number(), tag.wire_type()) {
        (1 | 5, wire_type) => wire_type == WireType::Varint,
        (2..=4 | 6..=8 | 14 | 20 | 25, wire_type) => wire_type == WireType::LengthDelimited,
        (number, WireType::Varint | WireType::LengthDelimited) => number < 100,
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn other_files_are_named() {
        for (start, why) in [
            (
                &b"version https://git-lfs.github.com/spec/v1\n"[..],
                "git lfs pull",
            ),
            (b"<!DOCTYPE html>", "an HTML page"),
            (b"\x89HDF\r\n\x1a\n", "an HDF5 file"),
            (b"PK\x03\x04\x14", "a zip archive"),
            (b"\x1c\0\0\0TFL3", "a TFLite model"),
            (b"\x93NUMPY\x01", "a NumPy array"),
            (b"\x89PNG\r\n\x1a\n", "a PNG image"),
            (b"\xff\xd8\xff\xe0", "a JPEG image"),
            (b"\x1f\x8b\x08\0", "a gzip archive"),
            (b"GGUF\x03\0\0\0", "a GGUF file"),
            (b"\x80\x02\x8a\x0al\xfc", "a pickle of PyTorch"),
            (b"\x40\0\0\0\0\0\0\0{\"w\":{", "a safetensors file"),
            (b"\x08\x01\x12\xa4\x05\x0a\x10", "a SavedModel"),
            (b"\x08\x01\x12\x40\x0a\x10", "a SavedModel"),
            (b"\x08\x01\x12\xa4\x05\x0a\x10\x12\x04", "a SavedModel"),
            (b"\x08\x01\x12\x40\x0a\x10\x0a\x01x", "a Core ML model"),
            (b"\x08\x05\x12\xa4\x05\x0a\x10\x0a\x01x", "a Core ML model"),
            (b"\x08\x02\x08\x03\x10\x01\x4a", "one tensor"),
            (b"\x0a\x02\x0a\x03\x10\x01\x4a", "one tensor"),
            (b"\x10\x07\x4a\x08", "one tensor"),
            (b"\x0a\x08\x0a\x01x\x12\x03Neg", "a GraphDef"),
            (b"\x0a\xff\x01\x0a\x50long", "a GraphDef"),
            (b"\x20\0\0\0ORTM\0\0", "ONNX Runtime's own format"),
            (b"ftrt\x1f\0\0\0", "a TensorRT engine"),
            (b"\x80\x02}q\0", "a pickle, perhaps"),
            (b"\x80\x04\x95\x2a\0\0\0", "a pickle, perhaps"),
            (b"", "it is empty"),
            (b"\0\0\0\0", "not an ONNX model"),
            (b"{\"model\": 1}", "a JSON file"),
            (b"no model", "a text file"),
            (b"no model \xc3", "a text file"),
            (b"no model \xc3\x01", "not an ONNX model"),
            (b"\x0d\0\0\0\0", "not an ONNX model"),
        ] {
            let error = super::check_start(start).unwrap_err().to_string();
            assert!(error.contains(why), "{start:?}: {error}");
        }
        // An IR version, a producer, a graph, and a field that is not known yet.
        for start in [
            &b"\x08\x0a"[..],
            b"\x08\x01\x12\x04CNTK",
            b"\x12\x01a",
            b"\x3a\x05",
            b"\xda\x01\x02",
        ] {
            assert!(super::check_start(start).is_ok(), "{start:?}");
        }
    }
}
