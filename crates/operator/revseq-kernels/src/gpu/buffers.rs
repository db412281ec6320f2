//! The caller's buffers, checked before anything is bound.

use std::ops::Range;

use super::Error;
use super::params::Offsets;
use super::slabs::LengthsLayout;
use crate::lengths::LENGTHS_DATA_TYPES;
use crate::{DataType, Plan, Tensor};

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

/// The buffers of a motion and where the tensors start in them.
#[derive(Clone, Copy)]
pub(super) struct Buffers<'a> {
    /// The input of a copy, and the second halves of the pairs of a swap.
    pub(super) input: &'a wgpu::Buffer,
    pub(super) lengths: &'a wgpu::Buffer,
    pub(super) output: &'a wgpu::Buffer,
    pub(super) offsets: Offsets,
    pub(super) layout: LengthsLayout,
    /// Whether a tensor that is read shares the buffer that is written.
    pub(super) shared: bool,
}

impl<'a> Buffers<'a> {
    /// The caller's: `output`, called `written`, of so many bytes, and the tensors that are read,
    /// which must not overlap it.
    pub(super) fn new(
        plan: &Plan,
        input: Option<wgpu::BufferSlice<'a>>,
        lengths: LengthsSlice<'a>,
        written: &'static str,
        (output, output_bytes): (wgpu::BufferSlice<'a>, usize),
    ) -> Result<Self, Error> {
        let layout = layout(lengths.data_type)?;
        let output_range = range(Tensor::Output, output, output_bytes)?;
        let lengths_bytes = plan.lengths_count() * lengths.data_type.size();
        let of_input = input.map(|input| (Tensor::Input, input, plan.input_bytes()));
        let of_lengths = (Tensor::SequenceLengths, lengths.slice, lengths_bytes);
        let mut shared = false;
        for (tensor, slice, bytes) in of_input.into_iter().chain([of_lengths]) {
            let range = range(tensor, slice, bytes)?;
            if slice.buffer() != output.buffer() {
                continue;
            }
            shared = true;
            if range.start < output_range.end && output_range.start < range.end {
                return Err(Error::Overlap {
                    tensor,
                    start: range.start,
                    end: range.end,
                    written,
                    written_start: output_range.start,
                    written_end: output_range.end,
                });
            }
        }
        let [input, lengths] = [input.unwrap_or(output), lengths.slice];
        Ok(Self {
            input: input.buffer(),
            lengths: lengths.buffer(),
            output: output.buffer(),
            offsets: Offsets {
                input: input.offset(),
                lengths: lengths.offset(),
                output: output.offset(),
            },
            layout,
            shared,
        })
    }
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
fn range(tensor: Tensor, slice: wgpu::BufferSlice<'_>, bytes: usize) -> Result<Range<u64>, Error> {
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
