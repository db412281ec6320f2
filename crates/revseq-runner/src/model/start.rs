//! Recognises files that are no models by their first bytes, before gigabytes are read.

use anyhow::{Result, bail, ensure};
use prost::encoding::{WireType, decode_key};

/// How many bytes are looked at.
pub(super) const LENGTH: u64 = 64;

/// The magic bytes, at an offset, of other files that people pass as models.
const OTHERS: [(usize, &[u8], &str); 8] = [
    (
        0,
        b"version https://git-lfs",
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
    (0, b"\x93NUMPY", "it is a NumPy array"),
];

/// Checks that a file may be a model.
///
/// # Errors
/// The kind of file, if it is recognised.
pub(super) fn check(start: &[u8]) -> Result<()> {
    for (offset, magic, what) in OTHERS {
        if start
            .get(offset..)
            .is_some_and(|start| start.starts_with(magic))
        {
            bail!("it is not an ONNX model: {what}");
        }
    }
    // An empty file is a model without a graph.
    ensure!(
        start.is_empty() || begins_a_model(start),
        "it is not an ONNX model"
    );
    Ok(())
}

/// Whether the first field may be one of a ModelProto, known or not: it has no groups and no
/// numbers of a fixed size.
fn begins_a_model(mut start: &[u8]) -> bool {
    match decode_key(&mut start) {
        Ok((1 | 5, wire_type)) => wire_type == WireType::Varint,
        Ok((2..=4 | 6..=8 | 14 | 20 | 25, wire_type)) => wire_type == WireType::LengthDelimited,
        Ok((number, WireType::Varint | WireType::LengthDelimited)) => number < 100,
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
            (b"\0\0\0\0", "not an ONNX model"),
            (b"{\"model\": 1}", "not an ONNX model"),
            (b"\x0d\0\0\0\0", "not an ONNX model"),
        ] {
            let error = super::check(start).unwrap_err().to_string();
            assert!(error.contains(why), "{start:?}: {error}");
        }
        // An IR version, a producer, a graph, and a field that is not known yet.
        for start in [
            &b""[..],
            b"\x08\x0a",
            b"\x12\x01a",
            b"\x3a\x05",
            b"\xda\x01\x02",
        ] {
            assert!(super::check(start).is_ok(), "{start:?}");
        }
    }
}
