//! The errors of a descriptor, its buffers and its lengths.

use std::fmt;

use crate::{DataType, FeatureLevel};

/// One of the operator's three tensors.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Tensor {
    /// `InputTensor`.
    Input,
    /// `SequenceLengthsTensor`.
    SequenceLengths,
    /// `OutputTensor`.
    Output,
}

impl fmt::Display for Tensor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Input => "the input",
            Self::SequenceLengths => "the sequence lengths",
            Self::Output => "the output",
        })
    }
}

/// An error of this crate, with the values that caused it and those that would be right.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A feature level does not take this many dimensions.
    #[error("{tensor}: {actual} dimensions, but {level} takes {}", range(*minimum, *maximum))]
    UnsupportedDimensionCount {
        /// The tensor.
        tensor: Tensor,
        /// The feature level asked for.
        level: FeatureLevel,
        /// The dimension count found.
        actual: usize,
        /// The fewest that the level takes.
        minimum: usize,
        /// The most that the level takes.
        maximum: usize,
    },
    /// A feature level, or the operator itself, does not take this data type.
    #[error(
        "{tensor}: data type {actual} is not supported{}; supported are {}",
        level.map(|level| format!(" by {level}")).unwrap_or_default(),
        names(supported)
    )]
    UnsupportedDataType {
        /// The tensor.
        tensor: Tensor,
        /// The feature level asked for; `None` where no level takes it.
        level: Option<FeatureLevel>,
        /// The data type found.
        actual: DataType,
        /// The data types that would do.
        supported: &'static [DataType],
    },
    /// A tensor's dimension count differs from the input's.
    #[error("{tensor}: {actual} dimensions, expected {expected} as for the input")]
    DimensionCountMismatch {
        /// The tensor.
        tensor: Tensor,
        /// The input's dimension count.
        expected: usize,
        /// The dimension count found.
        actual: usize,
    },
    /// The number of strides is not that of dimensions.
    #[error("{tensor}: {actual} strides, expected one for each of its {expected} dimensions")]
    StrideCountMismatch {
        /// The tensor.
        tensor: Tensor,
        /// The dimension count.
        expected: usize,
        /// The number of strides found.
        actual: usize,
    },
    /// The axis is not a dimension of the input.
    #[error("axis {axis} is out of range: the input has {dimension_count} dimensions")]
    AxisOutOfRange {
        /// The axis found.
        axis: u64,
        /// The input's dimension count, an upper bound of the axis.
        dimension_count: usize,
    },
    /// The batch axis is the time axis.
    #[error("the batch axis and the time axis are both {axis}, but have to differ")]
    SameAxis {
        /// The axis found twice.
        axis: u32,
    },
    /// DirectML takes no size of 0.
    #[error("{tensor}: dimension {dimension} has size 0, but DirectML needs at least 1")]
    ZeroSize {
        /// The tensor.
        tensor: Tensor,
        /// The dimension.
        dimension: usize,
    },
    /// A size differs from the one that the input and the axis require.
    #[error("{tensor}: dimension {dimension} has size {actual}, expected {expected}")]
    SizeMismatch {
        /// The tensor.
        tensor: Tensor,
        /// The dimension.
        dimension: usize,
        /// The input's size there, or 1 for the lengths on the axis.
        expected: u64,
        /// The size found.
        actual: u64,
    },
    /// The output's data type differs from the input's.
    #[error("the output: data type {actual}, expected {expected} as for the input")]
    DataTypeMismatch {
        /// The input's data type.
        expected: DataType,
        /// The output's data type.
        actual: DataType,
    },
    /// Two coordinates of the output share an element, or cannot be shown not to.
    #[error(
        "the output overlaps itself: dimension {dimension} (size {size}) has stride {stride}, \
         less than the dimensions of smaller strides reach"
    )]
    OverlappingOutput {
        /// The dimension whose stride is too small.
        dimension: usize,
        /// Its size in elements.
        size: u64,
        /// Its stride in elements.
        stride: u64,
    },
    /// DirectML takes at most 2^32 − 1 elements.
    #[error("{tensor}: {actual} elements, but DirectML takes at most {maximum}")]
    TooManyElements {
        /// The tensor.
        tensor: Tensor,
        /// The number of elements found.
        actual: u64,
        /// The most that DirectML takes.
        maximum: u64,
    },
    /// The tensor's end cannot be addressed.
    #[error(
        "{tensor}: sizes {sizes:?}{} with elements of {element_size} bytes reach further than {} \
         bits can address",
        strides.as_ref().map(|strides| format!(" and strides {strides:?}")).unwrap_or_default(),
        usize::BITS
    )]
    SizeOverflow {
        /// The tensor.
        tensor: Tensor,
        /// Its sizes in elements.
        sizes: Vec<u64>,
        /// Its strides in elements, if it is not packed.
        strides: Option<Vec<u64>>,
        /// The size of an element in bytes.
        element_size: usize,
    },
    /// `TotalTensorSizeInBytes` is less than the extent of sizes and strides.
    #[error("{tensor}: a total size of {actual} bytes, but its sizes and strides need {required}")]
    TotalSizeTooSmall {
        /// The tensor.
        tensor: Tensor,
        /// The total size found, in bytes.
        actual: u64,
        /// The least that is needed, in bytes.
        required: u64,
    },
    /// The total size exceeds DirectML's limit of (2^32 − 1) elements, padding included.
    #[error(
        "{tensor}: a total size of {actual} bytes, but DirectML takes at most {maximum} with \
         elements of {element_size} bytes"
    )]
    TotalSizeTooLarge {
        /// The tensor.
        tensor: Tensor,
        /// The total size in bytes: the one given, or the least for the sizes and strides.
        actual: u64,
        /// The most that DirectML takes, in bytes.
        maximum: u64,
        /// The size of an element in bytes.
        element_size: usize,
    },
    /// `GuaranteedBaseOffsetAlignment` is neither 0 nor a power of two of at least 16.
    #[error(
        "{tensor}: an alignment of {actual}, expected 0 or a power of two of at least {minimum}"
    )]
    InvalidAlignment {
        /// The tensor.
        tensor: Tensor,
        /// The alignment found, in bytes.
        actual: u32,
        /// The least that DirectML takes, in bytes.
        minimum: u32,
    },
    /// A buffer is shorter than the plan's extent.
    #[error("{tensor}: a buffer of {actual} bytes, but its sizes and strides need {required}")]
    BufferTooShort {
        /// The tensor.
        tensor: Tensor,
        /// The buffer's length in bytes.
        actual: usize,
        /// The least that is needed, in bytes.
        required: usize,
    },
    /// Elements of another size than those that the plan was made for.
    #[error("elements of {actual} bytes, but the plan moves elements of {expected}")]
    ElementSizeMismatch {
        /// The size of the plan's elements in bytes.
        expected: usize,
        /// The size found, in bytes.
        actual: usize,
    },
    /// A slice has more or fewer elements than its sizes.
    #[error("{tensor}: a slice of {actual} elements, but sizes {sizes:?} have {expected}")]
    ElementCountMismatch {
        /// The tensor.
        tensor: Tensor,
        /// Its sizes in elements.
        sizes: Vec<usize>,
        /// The slice's length in elements.
        actual: usize,
        /// The product of the sizes.
        expected: usize,
    },
    /// A slice of elements is shorter than the plan's extent.
    #[error("a slice of {actual} elements, but the sizes and strides need {required}")]
    SliceTooShort {
        /// The slice's length in elements.
        actual: usize,
        /// The least that is needed, in elements.
        required: usize,
    },
    /// The number of lengths is not the one that the plan was made for.
    #[error("{actual} sequence lengths, expected {expected}")]
    LengthCountMismatch {
        /// The number of lengths that sizes and strides reach.
        expected: usize,
        /// The number of lengths given.
        actual: usize,
    },
    /// A length is negative or longer than the axis.
    #[error("sequence length {value} at index {index} is out of range: expected 0 to {maximum}")]
    LengthOutOfRange {
        /// The index of the length in its buffer.
        index: usize,
        /// The length found.
        value: i128,
        /// The size of the axis.
        maximum: u64,
    },
    /// The lengths were checked against another plan.
    #[error(
        "these sequence lengths were checked for {actual_count} lengths of at most \
         {actual_maximum}, but the plan has {expected_count} of at most {expected_maximum}"
    )]
    LengthsOfAnotherPlan {
        /// The plan's number of lengths.
        expected_count: usize,
        /// The plan's axis size.
        expected_maximum: u64,
        /// The number of lengths that were checked.
        actual_count: usize,
        /// The axis size that they were checked against.
        actual_maximum: u64,
    },
    /// One buffer cannot be both input and output.
    #[error(
        "cannot run in place: dimension {dimension} has stride {input_stride} in the input and \
         {output_stride} in the output, but one buffer has one layout"
    )]
    NotInPlace {
        /// The first dimension in which the layouts differ.
        dimension: usize,
        /// Its stride in the input, in elements.
        input_stride: u64,
        /// Its stride in the output, in elements.
        output_stride: u64,
    },
}

fn range(minimum: usize, maximum: usize) -> String {
    match minimum == maximum {
        true => minimum.to_string(),
        false => format!("{minimum} to {maximum}"),
    }
}

fn names(data_types: &[DataType]) -> String {
    let names: Vec<_> = data_types.iter().map(|it| it.name()).collect();
    names.join(", ")
}

/// Checks the size of a buffer.
pub(crate) fn check_buffer(tensor: Tensor, actual: usize, required: usize) -> Result<(), Error> {
    if actual < required {
        return Err(Error::BufferTooShort {
            tensor,
            actual,
            required,
        });
    }
    Ok(())
}
