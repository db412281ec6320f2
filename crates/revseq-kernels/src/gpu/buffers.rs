//! The caller's buffers, checked before anything is bound.

use std::ops::Range;

use super::Error;
use super::params::LengthsLayout;
use crate::lengths::LENGTHS_DATA_TYPES;
use crate::{DataType, Tensor};

/// The alignment of a tensor's start in its buffer, in bytes.
const OFFSET_ALIGNMENT: u64 = 4;

/// Lengths in a buffer.
#[derive(Clone, Copy, Debug)]
pub struct LengthsSlice<'a> {
    /// The buffer, from the first length on.
    pub slice: wgpu::BufferSlice<'a>,
    /// 32- or 64-bit integers, signed or not, in little-endian order.
    pub data_type: DataType,
}

/// The memory layout of lengths of a data type.
pub(super) fn layout(data_type: DataType) -> Result<LengthsLayout, Error> {
    let (words, signed) = match data_type {
        DataType::Int32 => (1, true),
        DataType::Int64 => (2, true),
        DataType::Uint32 => (1, false),
        DataType::Uint64 => (2, false),
        actual => {
            return Err(Error::Operator(crate::Error::UnsupportedDataType {
                tensor: Tensor::SequenceLengths,
                level: None,
                actual,
                supported: LENGTHS_DATA_TYPES,
            }));
        }
    };
    Ok(LengthsLayout { words, signed })
}

/// The whole words of a tensor in its buffer.
pub(super) fn range(
    tensor: Tensor,
    slice: wgpu::BufferSlice<'_>,
    bytes: usize,
) -> Result<Range<u64>, Error> {
    let offset = slice.offset();
    if !offset.is_multiple_of(OFFSET_ALIGNMENT) {
        return Err(Error::MisalignedOffset {
            tensor,
            offset,
            alignment: OFFSET_ALIGNMENT,
        });
    }
    let words = (bytes as u64).next_multiple_of(4);
    let (actual, required) = if slice.size() < bytes as u64 {
        (slice.size(), bytes as u64)
    } else {
        (slice.buffer().size() - offset, words)
    };
    if actual < required {
        return Err(Error::Operator(crate::Error::BufferTooShort {
            tensor,
            actual: usize::try_from(actual).unwrap_or(usize::MAX),
            required: usize::try_from(required).unwrap_or(usize::MAX),
        }));
    }
    let (actual, required) = (slice.buffer().usage(), wgpu::BufferUsages::STORAGE);
    if !actual.contains(required) {
        return Err(Error::MissingUsage {
            tensor,
            actual,
            required,
        });
    }
    Ok(offset..offset + words)
}

/// Whether the tensor that is read shares the buffer that is written. They must not overlap.
pub(super) fn is_shared(
    tensor: Tensor,
    slice: wgpu::BufferSlice<'_>,
    range: &Range<u64>,
    written: &'static str,
    written_slice: wgpu::BufferSlice<'_>,
    written_range: &Range<u64>,
) -> Result<bool, Error> {
    if slice.buffer() != written_slice.buffer() {
        return Ok(false);
    }
    if range.start < written_range.end && written_range.start < range.end {
        return Err(Error::Overlap {
            tensor,
            start: range.start,
            end: range.end,
            written,
            written_start: written_range.start,
            written_end: written_range.end,
        });
    }
    Ok(true)
}
