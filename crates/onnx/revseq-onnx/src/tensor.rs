//! The data of tensors: whether it is what type and sizes promise, and as little-endian bytes.
//!
//! The rules are those of `TensorProto` in onnx.proto.

use std::borrow::Cow;
use std::fmt::Display;

use anyhow::{Context, Result, anyhow, bail, ensure};

use crate::Error;
use crate::model::{
    BFLOAT16, BOOL, COMPLEX64, COMPLEX128, DOUBLE, FLOAT, FLOAT16, INT8, INT16, INT32, INT64,
    ModelProto, STRING, TensorProto, UINT8, UINT16, UINT32, UINT64, type_name,
};
use crate::visit::for_each_tensor;

/// The most dimensions of a tensor, as in NumPy.
pub const MAXIMUM_RANK: usize = 64;

/// The size of an element in bytes, by ONNX's code, and 1 for a string; `None` for the types of 8
/// bits and less that came later.
#[must_use]
pub fn element_size(code: i32) -> Option<usize> {
    Some(match code {
        UINT8 | INT8 | BOOL | STRING => 1,
        UINT16 | INT16 | FLOAT16 | BFLOAT16 => 2,
        FLOAT | INT32 | UINT32 => 4,
        INT64 | DOUBLE | UINT64 | COMPLEX64 => 8,
        COMPLEX128 => 16,
        _ => return None,
    })
}

/// Checks that a tensor holds exactly the data that its type and sizes promise, and returns its
/// sizes. Data in another file, and data of a type without an [`element_size`], is not looked at.
///
/// # Errors
/// What does not hold.
pub fn check(tensor: &TensorProto) -> Result<Vec<usize>, Error> {
    checked(tensor).map_err(Error::invalid)
}

/// Returns the elements of a tensor as little-endian bytes, row-major; those of strings are empty.
///
/// # Errors
/// Its data is not what [`check`] wants, is in another file, or is of a type without an
/// [`element_size`]; a value is out of range for its type.
pub fn bytes(tensor: &TensorProto) -> Result<Cow<'_, [u8]>, Error> {
    let bytes = || {
        checked(tensor)?;
        ensure!(
            !tensor.is_external(),
            "its data is external, which is supported in models only"
        );
        let code = tensor.code();
        ensure!(
            element_size(code).is_some(),
            "its element type {} is not supported",
            type_name(code)
        );
        let bytes = match tensor.raw() {
            [] => Cow::Owned(typed_bytes(tensor)?),
            raw => Cow::Borrowed(raw),
        };
        check_bools(code, &bytes)?;
        Ok(bytes)
    };
    bytes().map_err(Error::invalid)
}

/// Rewrites a tensor's data as `raw_data`, which every reader takes alike. Strings, which have to be
/// UTF-8, stay as they are, as do data in another file and types without an [`element_size`].
///
/// # Errors
/// As those of [`bytes`].
pub fn to_raw(tensor: &mut TensorProto) -> Result<(), Error> {
    if tensor.is_external() || element_size(tensor.code()).is_none() || tensor.code() == STRING {
        check(tensor)?;
        let is_text = |bytes: &Vec<u8>| std::str::from_utf8(bytes).is_ok();
        return match tensor.string_data.iter().position(|it| !is_text(it)) {
            Some(index) => Err(Error::Invalid(format!("string {index} is not UTF-8"))),
            None => Ok(()),
        };
    }
    if let Cow::Owned(bytes) = bytes(tensor)? {
        tensor.raw_data = Some(bytes);
        tensor.float_data = Vec::new();
        tensor.int32_data = Vec::new();
        tensor.int64_data = Vec::new();
        tensor.double_data = Vec::new();
        tensor.uint64_data = Vec::new();
    }
    Ok(())
}

/// Rewrites the data of all tensors of a model as `raw_data` ([`to_raw`]).
///
/// # Errors
/// As those of [`bytes`], and the place.
pub fn all_to_raw(model: &mut ModelProto) -> Result<(), Error> {
    for_each_tensor(model, &mut |tensor| Ok(to_raw(tensor)?)).map_err(Error::invalid)
}

/// Checks that there are no more dimensions than [`MAXIMUM_RANK`].
pub(crate) fn check_rank(rank: usize) -> Result<()> {
    ensure!(
        rank <= MAXIMUM_RANK,
        "it has {rank} dimensions, at most {MAXIMUM_RANK} are supported"
    );
    Ok(())
}

/// The size of a tensor's data in bytes, for strings in elements; `None` if its type has no size.
pub(crate) fn promised(tensor: &TensorProto, sizes: &[usize]) -> Result<Option<usize>> {
    let code = tensor.code();
    let Some(element) = element_size(code) else {
        ensure!(code > 0, "it has no element type");
        return Ok(None);
    };
    let count = match sizes.contains(&0) {
        true => Some(0),
        false => sizes
            .iter()
            .try_fold(1_usize, |all, &size| all.checked_mul(size)),
    };
    let size = count.and_then(|count| count.checked_mul(element));
    let size = size.filter(|&size| isize::try_from(size).is_ok());
    size.map(Some).with_context(|| {
        let what = type_and_sizes(code, sizes);
        format!("{what} is more than memory can address")
    })
}

pub(crate) fn checked(tensor: &TensorProto) -> Result<Vec<usize>> {
    ensure!(
        tensor.segment.is_unset(),
        "it is a segment of a tensor, which is not supported"
    );
    check_rank(tensor.dims.len())?;
    let sizes = tensor.dims.iter().map(|&size| usize::try_from(size).ok());
    let sizes: Option<Vec<usize>> = sizes.collect();
    let sizes = sizes.with_context(|| format!("its sizes {:?} are not all valid", tensor.dims))?;
    let Some(promised) = promised(tensor, &sizes)? else {
        return Ok(sizes);
    };
    let fields = [
        ("raw_data", tensor.raw().len()),
        ("float_data", tensor.float_data.len()),
        ("int32_data", tensor.int32_data.len()),
        ("string_data", tensor.string_data.len()),
        ("int64_data", tensor.int64_data.len()),
        ("double_data", tensor.double_data.len()),
        ("uint64_data", tensor.uint64_data.len()),
    ];
    let code = tensor.code();
    let mut held = fields.into_iter().filter(|&(_, length)| length > 0);
    let first = held.next();
    if let (Some((one, _)), Some((other, _))) = (first, held.next()) {
        bail!("it has both {one} and {other}");
    }
    if tensor.is_external() {
        ensure!(code != STRING, "strings cannot be external");
        ensure!(first.is_none(), "it has both inline and external data");
        return Ok(sizes);
    }
    let (typed, bytes) = typed_field(code);
    let (field, found) = first.unwrap_or((typed, 0));
    let expected = match field {
        "raw_data" if code != STRING => promised,
        field if field == typed => promised / bytes,
        field => {
            let name = type_name(code);
            bail!("it has {field}, but {name} elements are in {typed}")
        }
    };
    ensure!(
        found == expected,
        "{} has {found} {} in {field}, expected {expected}",
        type_and_sizes(code, &sizes),
        if field == "raw_data" {
            "bytes"
        } else {
            "values"
        },
    );
    Ok(sizes)
}

/// The field that holds elements of a type, and how many bytes of the tensor each of its values
/// stands for.
fn typed_field(code: i32) -> (&'static str, usize) {
    match code {
        STRING => ("string_data", 1),
        FLOAT | COMPLEX64 => ("float_data", 4),
        DOUBLE | COMPLEX128 => ("double_data", 8),
        INT64 => ("int64_data", 8),
        UINT64 => ("uint64_data", 8),
        UINT32 => ("uint64_data", 4),
        _ => ("int32_data", element_size(code).unwrap_or(1)),
    }
}

/// The bytes of data that is in a field of its type.
fn typed_bytes(tensor: &TensorProto) -> Result<Vec<u8>> {
    let code = tensor.code();
    let ints = &tensor.int32_data;
    Ok(match code {
        FLOAT | COMPLEX64 => little_endian(&tensor.float_data, |it| it.to_le_bytes()),
        DOUBLE | COMPLEX128 => little_endian(&tensor.double_data, |it| it.to_le_bytes()),
        INT64 => little_endian(&tensor.int64_data, |it| it.to_le_bytes()),
        UINT64 => little_endian(&tensor.uint64_data, |it| it.to_le_bytes()),
        INT32 => little_endian(ints, |it| it.to_le_bytes()),
        UINT32 => narrow(code, &tensor.uint64_data, u32::to_le_bytes)?,
        INT16 => narrow(code, ints, i16::to_le_bytes)?,
        INT8 => narrow(code, ints, i8::to_le_bytes)?,
        UINT8 | BOOL => narrow(code, ints, u8::to_le_bytes)?,
        // The 16-bit floats are stored as the bits of an unsigned integer.
        UINT16 | FLOAT16 | BFLOAT16 => narrow(code, ints, u16::to_le_bytes)?,
        _ => Vec::new(),
    })
}

fn little_endian<T: Copy, const N: usize>(values: &[T], bytes: impl Fn(T) -> [u8; N]) -> Vec<u8> {
    values.iter().flat_map(|&value| bytes(value)).collect()
}

/// The bytes of values as a narrower type.
fn narrow<T: Copy + Display, U: TryFrom<T>, const N: usize>(
    code: i32,
    values: &[T],
    bytes: impl Fn(U) -> [u8; N],
) -> Result<Vec<u8>> {
    let mut narrow = Vec::with_capacity(values.len() * N);
    for (index, &value) in values.iter().enumerate() {
        let value = U::try_from(value).map_err(|_| {
            let name = type_name(code);
            anyhow!("value {index} is {value}, out of range for {name}")
        })?;
        narrow.extend(bytes(value));
    }
    Ok(narrow)
}

/// Checks that elements are 0 or 1, if they are bools.
fn check_bools(code: i32, bytes: &[u8]) -> Result<()> {
    if code == BOOL
        && let Some(index) = bytes.iter().position(|&byte| byte > 1)
    {
        let found = bytes[index];
        bail!("element {index} is {found}, expected 0 or 1 for a bool");
    }
    Ok(())
}

/// A type and sizes, as in `float[4,5,3]`.
fn type_and_sizes(code: i32, sizes: &[usize]) -> String {
    let sizes: Vec<String> = sizes.iter().map(usize::to_string).collect();
    format!("{}[{}]", type_name(code), sizes.join(","))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn data_is_what_type_and_sizes_promise() {
        let tensor = |code, dims: &[i64]| TensorProto {
            data_type: Some(code),
            dims: dims.to_vec(),
            ..TensorProto::default()
        };
        let shorts = TensorProto {
            int32_data: vec![-2, 3],
            ..tensor(INT16, &[2])
        };
        assert_eq!(&*bytes(&shorts).unwrap(), [0xfe, 0xff, 3, 0]);
        let mut raw = shorts.clone();
        to_raw(&mut raw).unwrap();
        assert_eq!(
            (raw.raw(), raw.int32_data.len()),
            (&[0xfe, 0xff, 3, 0][..], 0)
        );
        let errors = [
            (tensor(INT16, &[-1]), "its sizes [-1] are not all valid"),
            (
                tensor(FLOAT, &[2]),
                "float[2] has 0 values in float_data, expected 2",
            ),
            (tensor(0, &[2]), "it has no element type"),
            (
                TensorProto {
                    int32_data: vec![40000, 0],
                    ..tensor(INT16, &[2])
                },
                "value 0 is 40000, out of range for int16",
            ),
            (
                TensorProto {
                    raw_data: Some(vec![0, 2]),
                    ..tensor(BOOL, &[2])
                },
                "element 1 is 2, expected 0 or 1 for a bool",
            ),
            (
                TensorProto {
                    int64_data: vec![1],
                    ..tensor(FLOAT, &[1])
                },
                "it has int64_data, but float elements are in float_data",
            ),
            (
                tensor(DOUBLE, &[i64::MAX, 8]),
                "double[9223372036854775807,8] is more than memory can address",
            ),
        ];
        for (tensor, expected) in errors {
            assert_eq!(bytes(&tensor).unwrap_err().to_string(), expected);
        }
    }
}
