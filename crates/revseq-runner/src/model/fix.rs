//! Writes sizes into a model's file. All else stays as it is, fields that this version of ONNX does
//! not know too.

use anyhow::{Result, anyhow};
use prost::bytes::Buf;
use prost::encoding::{
    DecodeContext, WireType, decode_key, decode_varint, encode_key, encode_varint, skip_field,
};

use super::Bindings;

/// The sizes of `--dim`: those of symbols, and of an input's dimensions without a name.
#[derive(Debug, Default)]
pub(crate) struct Sizes {
    pub(crate) symbols: Bindings,
    /// By input and dimension.
    pub(crate) unnamed: Vec<(String, usize, u64)>,
}

/// The messages on the way to a size (onnx/onnx.proto).
#[derive(Clone, Copy)]
enum Kind<'a> {
    Model,
    Graph {
        is_main: bool,
    },
    Node,
    Attribute,
    Value {
        is_input: bool,
    },
    /// A type and its parts, with the sizes to write, by dimension.
    Type(&'a [(usize, u64)]),
    Tensor(&'a [(usize, u64)]),
    Shape(&'a [(usize, u64)]),
}

/// The file with these sizes.
///
/// # Errors
/// It is no protobuf.
pub(super) fn fixed(file: &[u8], sizes: &Sizes) -> Result<Vec<u8>> {
    message(file, Kind::Model, sizes).ok_or_else(|| anyhow!("it is not an ONNX model"))
}

/// A message with these sizes; `None` if it is invalid.
fn message(bytes: &[u8], kind: Kind<'_>, sizes: &Sizes) -> Option<Vec<u8>> {
    let own = match kind {
        Kind::Value { is_input: true } => by_number(name(bytes)?, sizes),
        _ => Vec::new(),
    };
    let mut out = Vec::with_capacity(bytes.len());
    let mut dimensions = 0..;
    each_field(bytes, |field| {
        let inner = match (kind, field.number) {
            (Kind::Model, 7) => Kind::Graph { is_main: true },
            (Kind::Graph { .. }, 1) => Kind::Node,
            (Kind::Graph { is_main }, 11) => Kind::Value { is_input: is_main },
            (Kind::Graph { .. }, 12 | 13) => Kind::Value { is_input: false },
            (Kind::Node, 5) => Kind::Attribute,
            (Kind::Attribute, 6 | 11) => Kind::Graph { is_main: false },
            (Kind::Value { .. }, 2) => Kind::Type(&own),
            (Kind::Type(own), 1) => Kind::Tensor(own),
            (Kind::Tensor(own), 2) => Kind::Shape(own),
            (Kind::Shape(own), 1) => {
                let number = dimensions.next()?;
                let content = field.content?;
                let given = own.iter().find(|(other, _)| *other == number);
                let size = match given {
                    Some((_, size)) => Some(*size),
                    None => symbol(content)?.and_then(|name| sizes.symbols.get(name).copied()),
                };
                match size {
                    None => out.extend_from_slice(field.all),
                    Some(size) => append(&mut out, 1, &dimension(content, size)?),
                }
                return Some(());
            }
            _ => {
                out.extend_from_slice(field.all);
                return Some(());
            }
        };
        append(
            &mut out,
            field.number,
            &message(field.content?, inner, sizes)?,
        );
        Some(())
    })?;
    Some(out)
}

struct Field<'a> {
    number: u32,
    /// With its key.
    all: &'a [u8],
    /// Of one that has a length.
    content: Option<&'a [u8]>,
}

/// Calls a function with each field of a message.
fn each_field<'a>(message: &'a [u8], mut visit: impl FnMut(Field<'a>) -> Option<()>) -> Option<()> {
    let mut rest = message;
    while rest.has_remaining() {
        let start = rest;
        let (number, wire_type) = decode_key(&mut rest).ok()?;
        let content = match wire_type {
            WireType::LengthDelimited => {
                let length = usize::try_from(decode_varint(&mut rest).ok()?).ok()?;
                let content = rest.get(..length)?;
                rest.advance(length);
                Some(content)
            }
            _ => {
                skip_field(wire_type, number, &mut rest, DecodeContext::default()).ok()?;
                None
            }
        };
        visit(Field {
            number,
            all: &start[..start.len() - rest.len()],
            content,
        })?;
    }
    Some(())
}

fn append(out: &mut Vec<u8>, number: u32, content: &[u8]) {
    encode_key(number, WireType::LengthDelimited, out);
    encode_varint(content.len() as u64, out);
    out.extend_from_slice(content);
}

/// A value's name.
fn name(value: &[u8]) -> Option<&str> {
    text(value, 1).map(Option::unwrap_or_default)
}

/// The name of a dimension's size, if it has one.
fn symbol(dimension: &[u8]) -> Option<Option<&str>> {
    text(dimension, 2)
}

/// The last text in a field of a message.
fn text(message: &[u8], number: u32) -> Option<Option<&str>> {
    let mut found = None;
    each_field(message, |field| {
        if field.number == number {
            found = Some(std::str::from_utf8(field.content?).ok()?);
        }
        Some(())
    })?;
    Some(found)
}

fn by_number(input: &str, sizes: &Sizes) -> Vec<(usize, u64)> {
    let own = sizes.unnamed.iter().filter(|(name, _, _)| name == input);
    own.map(|(_, number, size)| (*number, *size)).collect()
}

/// A dimension with a size, and the other fields of the original.
fn dimension(before: &[u8], size: u64) -> Option<Vec<u8>> {
    let mut out = Vec::new();
    encode_key(1, WireType::Varint, &mut out);
    encode_varint(size, &mut out);
    each_field(before, |field| {
        if !matches!(field.number, 1 | 2) {
            out.extend_from_slice(field.all);
        }
        Some(())
    })?;
    Some(out)
}
