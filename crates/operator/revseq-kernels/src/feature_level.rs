//! DirectML's feature levels: which descriptors DirectML itself takes.
//!
//! The tables come from the reference page of
//! `DML_REVERSE_SUBSEQUENCES_OPERATOR_DESC`, the rules on sizes, strides, total
//! size and alignment from `DML_BUFFER_TENSOR_DESC` (directml.h) and its page.
//! Where these are silent, the rules follow DirectML 1.15.4.

use std::fmt;

use crate::{DataType, Error, ReverseSubsequencesDesc, Tensor, TensorDesc, overlap};

/// A DirectML feature level at which REVERSE_SUBSEQUENCES takes more than before.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[non_exhaustive]
pub enum FeatureLevel {
    /// `DML_FEATURE_LEVEL_2_1`, which introduced the operator.
    V2_1,
    /// `DML_FEATURE_LEVEL_3_0`.
    V3_0,
    /// `DML_FEATURE_LEVEL_4_0`.
    V4_0,
    /// `DML_FEATURE_LEVEL_5_0` and above.
    V5_0,
}

/// The types of the levels below 5.0, of up to 32 bits.
const TYPES_TO_4_0: &[DataType] = &[
    DataType::Float32,
    DataType::Float16,
    DataType::Int32,
    DataType::Int16,
    DataType::Int8,
    DataType::Uint32,
    DataType::Uint16,
    DataType::Uint8,
];

const TYPES_FROM_5_0: &[DataType] = &[
    DataType::Float64,
    DataType::Float32,
    DataType::Float16,
    DataType::Int64,
    DataType::Int32,
    DataType::Int16,
    DataType::Int8,
    DataType::Uint64,
    DataType::Uint32,
    DataType::Uint16,
    DataType::Uint8,
];

/// The most elements that a DirectML tensor has, padding between strides included.
const MAXIMUM_ELEMENTS: u64 = u32::MAX as u64;

/// The least alignment that DirectML takes as a guarantee, in bytes.
const MINIMUM_ALIGNMENT: u32 = 16;

impl FeatureLevel {
    /// The levels from the lowest to the highest.
    pub const ALL: [Self; 4] = [Self::V2_1, Self::V3_0, Self::V4_0, Self::V5_0];

    /// The value of `DML_FEATURE_LEVEL_…` (DirectML.h).
    #[must_use]
    pub const fn directml_code(self) -> u32 {
        match self {
            Self::V2_1 => 0x2100,
            Self::V3_0 => 0x3000,
            Self::V4_0 => 0x4000,
            Self::V5_0 => 0x5000,
        }
    }

    /// The fewest and the most dimensions of each tensor.
    #[must_use]
    pub const fn dimension_counts(self) -> (usize, usize) {
        match self {
            Self::V2_1 => (4, 4),
            Self::V3_0 => (4, 5),
            Self::V4_0 | Self::V5_0 => (1, 8),
        }
    }

    /// The data types of a tensor, in the order of the page.
    #[must_use]
    pub const fn data_types(self, tensor: Tensor) -> &'static [DataType] {
        match (self, tensor) {
            (Self::V5_0, Tensor::SequenceLengths) => &[DataType::Uint64, DataType::Uint32],
            (_, Tensor::SequenceLengths) => &[DataType::Uint32],
            (Self::V5_0, _) => TYPES_FROM_5_0,
            (_, _) => TYPES_TO_4_0,
        }
    }
}

impl fmt::Display for FeatureLevel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::V2_1 => "DML_FEATURE_LEVEL_2_1",
            Self::V3_0 => "DML_FEATURE_LEVEL_3_0",
            Self::V4_0 => "DML_FEATURE_LEVEL_4_0",
            Self::V5_0 => "DML_FEATURE_LEVEL_5_0",
        })
    }
}

impl ReverseSubsequencesDesc {
    /// Checks the descriptor by DirectML's rules at a feature level.
    ///
    /// This is DirectML's rule book, not this crate's: a [`Plan`](crate::Plan)
    /// takes much that DirectML refuses.
    ///
    /// # Errors
    /// The first violation: the dimension counts and data types of the level,
    /// then the axis, the sizes, the strides, and each tensor's element count,
    /// total size and alignment.
    pub fn validate(&self, level: FeatureLevel) -> Result<(), Error> {
        let (minimum, maximum) = level.dimension_counts();
        for (tensor, desc) in self.tensors() {
            let actual = desc.dimension_count();
            if !(minimum..=maximum).contains(&actual) {
                return Err(Error::UnsupportedDimensionCount {
                    tensor,
                    level,
                    actual,
                    minimum,
                    maximum,
                });
            }
            let supported = level.data_types(tensor);
            if !supported.contains(&desc.data_type) {
                return Err(Error::UnsupportedDataType {
                    tensor,
                    level: Some(level),
                    actual: desc.data_type,
                    supported,
                });
            }
        }
        self.check_shapes()?;
        for (tensor, desc) in self.tensors() {
            if let Some(dimension) = desc.sizes.iter().position(|&size| size == 0) {
                return Err(Error::ZeroSize { tensor, dimension });
            }
            check_buffer(tensor, desc)?;
        }
        overlap::check_output(&self.output)
    }

    /// The lowest feature level that takes the descriptor.
    ///
    /// # Errors
    /// Why even the highest level refuses it.
    pub fn lowest_feature_level(&self) -> Result<FeatureLevel, Error> {
        let mut refused = Ok(FeatureLevel::V5_0);
        for level in FeatureLevel::ALL {
            match self.validate(level) {
                Ok(()) => return Ok(level),
                Err(error) => refused = Err(error),
            }
        }
        refused
    }
}

/// Checks one tensor without a size of 0 by the rules of `DML_BUFFER_TENSOR_DESC`.
fn check_buffer(tensor: Tensor, desc: &TensorDesc) -> Result<(), Error> {
    let overflow = || desc.overflow(tensor);
    let elements = desc.element_count().ok_or_else(overflow)?;
    if elements > MAXIMUM_ELEMENTS {
        return Err(Error::TooManyElements {
            tensor,
            actual: elements,
            maximum: MAXIMUM_ELEMENTS,
        });
    }
    let required = desc.minimum_total_size_in_bytes().ok_or_else(overflow)?;
    let actual = desc.total_size_in_bytes.unwrap_or(required);
    if actual < required {
        return Err(Error::TotalSizeTooSmall {
            tensor,
            actual,
            required,
        });
    }
    let element_size = desc.data_type.size();
    let maximum = MAXIMUM_ELEMENTS * element_size as u64;
    if actual > maximum {
        return Err(Error::TotalSizeTooLarge {
            tensor,
            actual,
            maximum,
            element_size,
        });
    }
    let actual = desc.guaranteed_base_offset_alignment;
    if actual != 0 && !(actual.is_power_of_two() && actual >= MINIMUM_ALIGNMENT) {
        return Err(Error::InvalidAlignment {
            tensor,
            actual,
            minimum: MINIMUM_ALIGNMENT,
        });
    }
    Ok(())
}

impl TensorDesc {
    pub(crate) fn overflow(&self, tensor: Tensor) -> Error {
        Error::SizeOverflow {
            tensor,
            sizes: self.sizes.to_vec(),
            strides: self.strides.as_ref().map(|strides| strides.to_vec()),
            element_size: self.data_type.size(),
        }
    }
}
