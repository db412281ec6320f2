//! Tensors as NumPy stores them: `.npy` files (numpy/lib/format.py).

use std::borrow::Cow;
use std::io::Write;

use anyhow::{Context, Result, bail, ensure};
use npyz::{DType, Endianness, NpyHeader, Order, TypeChar, TypeStr, WriteOptions, WriterBuilder};
use revseq_graph::ElementType;
use revseq_kernels::DataType;
use tract_onnx::prelude::tract_ndarray::{ArrayD, ShapeBuilder};

use super::{Data, MAXIMUM_BYTES, Tensor, check_rank, count, type_and_shape};
use crate::fence;

/// The longest header that is read, in bytes. A plain type's is a tenth of it.
const MAXIMUM_HEADER: usize = 4096;

/// Decodes a file: any byte order, row- or column-major.
pub(crate) fn decode(file: &[u8]) -> Result<Tensor> {
    check_header(file)?;
    let mut rest = file;
    // The parser multiplies sizes unchecked, which may panic.
    let header = fence::catch(|| NpyHeader::from_reader(&mut rest))
        .map_err(|_| anyhow::anyhow!("its header promises more than memory can address"))?
        .context("its header is not that of an .npy file")?;
    let DType::Plain(type_str) = header.dtype() else {
        bail!("its elements are records, {}", header.dtype().descr());
    };
    let sizes = header.shape();
    let shape = sizes.iter().map(|&size| usize::try_from(size));
    let shape: Vec<usize> = shape
        .collect::<Result<_, _>>()
        .with_context(|| format!("its sizes {sizes:?} are more than memory can address"))?;
    check_rank(shape.len())?;
    let element_type = element_type(&type_str).with_context(|| match type_str.type_char() {
        TypeChar::Object => {
            "it holds Python objects; if they are strings, save `array.astype(str)`".to_owned()
        }
        _ => format!("ONNX has no type like its {type_str}"),
    })?;
    let item_size = type_str.num_bytes().context("its elements have no size")?;
    check_addressable(&shape, item_size)?;
    let expected = count(&shape).and_then(|count| count.checked_mul(item_size));
    ensure!(
        expected == Some(rest.len()),
        "its header says {} ({type_str}), but {} bytes follow",
        type_and_shape(element_type, &shape),
        rest.len(),
    );
    // The remaining bytes are present: no size below is larger than the file.
    let rest = match header.order() == Order::Fortran && shape.len() > 1 {
        true => Cow::Owned(row_major(rest, &shape, item_size)?),
        false => Cow::Borrowed(rest),
    };
    let is_big_endian = type_str.endianness() == Endianness::Big;
    let data = match element_type {
        ElementType::String => {
            // Strings without a character have no bytes to count them by.
            let count = count(&shape).unwrap_or(0);
            ensure!(
                item_size > 0 || count <= file.len(),
                "it promises {count} empty strings"
            );
            let strings = (0..count).map(|index| {
                let string = string(&rest[index * item_size..][..item_size], is_big_endian);
                string.with_context(|| format!("string {index} is not Unicode"))
            });
            Data::Strings(strings.collect::<Result<_>>()?)
        }
        ElementType::Fixed(data_type) => {
            let mut bytes = rest.into_owned();
            if is_big_endian {
                let component = match data_type {
                    DataType::Complex64 | DataType::Complex128 => item_size / 2,
                    _ => item_size,
                };
                bytes.chunks_exact_mut(component).for_each(<[u8]>::reverse);
            }
            ensure!(
                data_type != DataType::Bool || bytes.iter().all(|&byte| byte <= 1),
                "it has bools that are neither 0 nor 1"
            );
            Data::Fixed(data_type, bytes)
        }
    };
    Tensor::new(shape, data)
}

/// Keeps a header that lies about itself away from the parser, which allocates
/// by the length it reads and recurses into every bracket.
fn check_header(file: &[u8]) -> Result<()> {
    ensure!(file.starts_with(b"\x93NUMPY"), "it is not an .npy file");
    let (start, length) = match file.get(6..12) {
        Some(&[1, _, low, high, ..]) => (10, usize::from(u16::from_le_bytes([low, high]))),
        Some(&[2 | 3, _, a, b, c, d]) => (12, u32::from_le_bytes([a, b, c, d]) as usize),
        Some(&[major, minor, ..]) => {
            bail!("version {major}.{minor} of the format is not supported")
        }
        _ => bail!("it ends within its header"),
    };
    ensure!(
        length <= MAXIMUM_HEADER,
        "its header is {length} bytes long, more than the limit of {MAXIMUM_HEADER}"
    );
    let header = file
        .get(start..start + length)
        .context("it ends within its header")?;
    let mut depth = 0_usize;
    for byte in header {
        match byte {
            b'(' | b'[' | b'{' => depth += 1,
            b')' | b']' | b'}' => depth = depth.saturating_sub(1),
            _ => {}
        }
        ensure!(depth <= 8, "its header nests too deeply");
    }
    Ok(())
}

/// The types that NumPy has, as it writes them for elements with the lowest byte first.
const TYPES: [(DataType, &str); 14] = [
    (DataType::Bool, "|b1"),
    (DataType::Int8, "|i1"),
    (DataType::Int16, "<i2"),
    (DataType::Int32, "<i4"),
    (DataType::Int64, "<i8"),
    (DataType::Uint8, "|u1"),
    (DataType::Uint16, "<u2"),
    (DataType::Uint32, "<u4"),
    (DataType::Uint64, "<u8"),
    (DataType::Float16, "<f2"),
    (DataType::Float32, "<f4"),
    (DataType::Float64, "<f8"),
    (DataType::Complex64, "<c8"),
    (DataType::Complex128, "<c16"),
];

fn element_type(type_str: &TypeStr) -> Option<ElementType> {
    if type_str.type_char() == TypeChar::UnicodeStr {
        return Some(ElementType::String);
    }
    // Whatever its order of bytes.
    let written = type_str.to_string();
    let mut types = TYPES.iter();
    let (data_type, _) = types.find(|(_, own)| written.get(1..) == Some(&own[1..]))?;
    Some(ElementType::Fixed(*data_type))
}

/// A string of UTF-32, padded with zeros.
fn string(bytes: &[u8], is_big_endian: bool) -> Option<String> {
    let units = bytes.as_chunks().0.iter().map(|unit| match is_big_endian {
        true => u32::from_be_bytes(*unit),
        false => u32::from_le_bytes(*unit),
    });
    let string: String = units.map(char::from_u32).collect::<Option<_>>()?;
    Some(string.trim_end_matches('\0').to_owned())
}

/// Elements in row-major order, from column-major order.
fn row_major(bytes: &[u8], shape: &[usize], item_size: usize) -> Result<Vec<u8>> {
    if bytes.is_empty() {
        return Ok(Vec::new());
    }
    let count = bytes.len() / item_size;
    let places = ArrayD::from_shape_vec(shape.f(), (0..count).collect())?;
    let items = places
        .iter()
        .map(|&place| &bytes[place * item_size..][..item_size]);
    Ok(items.collect::<Vec<_>>().concat())
}

/// Checks that an array of these sizes could be addressed if no size were 0. NumPy also checks
/// this for arrays without elements.
fn check_addressable(shape: &[usize], item_size: usize) -> Result<()> {
    let bytes = shape
        .iter()
        .filter(|&&size| size > 0)
        .try_fold(item_size, |bytes, &size| bytes.checked_mul(size));
    ensure!(
        bytes.is_some_and(|bytes| isize::try_from(bytes).is_ok()),
        "NumPy has no array of sizes {shape:?} and {item_size} bytes an element"
    );
    Ok(())
}

/// Encodes a tensor, little-endian and row-major.
pub(crate) fn encode(tensor: &Tensor) -> Result<Vec<u8>> {
    let (type_str, bytes) = match tensor.data() {
        Data::Fixed(data_type, bytes) => {
            let found = TYPES.iter().find(|(own, _)| own == data_type);
            let found = found.with_context(|| {
                let element_type = tensor.element_type();
                format!("NumPy has no type {element_type}: write a .pb file")
            });
            (found?.1.to_owned(), bytes.clone())
        }
        Data::Strings(strings) => encode_strings(strings)?,
    };
    let shape: Vec<u64> = tensor.shape().iter().map(|&size| size as u64).collect();
    let type_str: TypeStr = type_str.parse()?;
    let item_size = type_str.num_bytes().context("its elements have no size")?;
    check_addressable(tensor.shape(), item_size).context("write a .pb file")?;
    let mut file = WriteOptions::new_header_only()
        .dtype(DType::Plain(type_str))
        .shape(&shape)
        .writer(Vec::with_capacity(bytes.len() + 128))
        .write_header_only()?;
    file.write_all(&bytes)?;
    Ok(file)
}

/// Strings of UTF-32, each padded with zeros to the longest.
fn encode_strings(strings: &[String]) -> Result<(String, Vec<u8>)> {
    if let Some(index) = strings.iter().position(|string| string.ends_with('\0')) {
        bail!("string {index} ends in a zero, which NumPy would drop: write a .pb file");
    }
    // NumPy has no type of empty strings alone.
    let width = strings
        .iter()
        .map(|string| string.chars().count())
        .max()
        .unwrap_or(0)
        .max(1);
    let padded = strings.len() as u64 * width as u64 * 4;
    ensure!(
        padded <= MAXIMUM_BYTES,
        "padded to the longest, as NumPy stores strings, they are {padded} bytes: write a .pb file"
    );
    let mut bytes = Vec::new();
    for string in strings {
        let start = bytes.len();
        bytes.extend(
            string
                .chars()
                .flat_map(|character| u32::from(character).to_le_bytes()),
        );
        bytes.resize(start + 4 * width, 0);
    }
    Ok((format!("<U{width}"), bytes))
}
