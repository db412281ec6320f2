//! The operator's descriptor, as DirectML describes it.

use crate::{DataType, Dims, Error, Tensor};

/// A tensor's type, sizes and memory layout: `DML_BUFFER_TENSOR_DESC`.
///
/// Sizes and strides are in elements, outermost dimension first.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct TensorDesc {
    /// The type of the elements.
    pub data_type: DataType,
    /// The number of elements along each dimension.
    pub sizes: Dims,
    /// The distance between neighbours along each dimension, in elements;
    /// `None` for a packed tensor. Input and lengths may repeat elements (0);
    /// larger strides than packed ones leave padding.
    pub strides: Option<Dims>,
    /// The size of the buffer in bytes (`TotalTensorSizeInBytes`), or `None`
    /// for [`minimum_total_size_in_bytes`](Self::minimum_total_size_in_bytes).
    pub total_size_in_bytes: Option<u64>,
    /// The guaranteed alignment of the buffer's address, in bytes: 0 (unknown) or a
    /// power of two of at least 16. Only
    /// [`validate`](ReverseSubsequencesDesc::validate) reads it: the kernels
    /// take data at any address.
    pub guaranteed_base_offset_alignment: u32,
}

impl TensorDesc {
    /// A packed tensor.
    pub fn packed(data_type: DataType, sizes: impl IntoIterator<Item = u64>) -> Self {
        Self {
            data_type,
            sizes: sizes.into_iter().collect(),
            strides: None,
            total_size_in_bytes: None,
            guaranteed_base_offset_alignment: 0,
        }
    }

    /// A tensor with its own strides, in elements.
    pub fn strided(
        data_type: DataType,
        sizes: impl IntoIterator<Item = u64>,
        strides: impl IntoIterator<Item = u64>,
    ) -> Self {
        Self {
            strides: Some(strides.into_iter().collect()),
            ..Self::packed(data_type, sizes)
        }
    }

    /// The number of dimensions.
    #[must_use]
    pub fn dimension_count(&self) -> usize {
        self.sizes.len()
    }

    /// The number of elements: the product of the sizes.
    ///
    /// `None` if it does not fit 64 bits.
    #[must_use]
    pub fn element_count(&self) -> Option<u64> {
        product(&self.sizes)
    }

    /// The strides in elements: those given, or the packed ones.
    ///
    /// `None` if a packed stride does not fit 64 bits, or if there are fewer strides
    /// than sizes.
    #[must_use]
    pub fn effective_strides(&self) -> Option<Dims> {
        let mut strides = self.strides_from_last().collect::<Option<Dims>>()?;
        strides.reverse();
        Some(strides)
    }

    /// The [`effective_strides`](Self::effective_strides) from the last dimension to the first.
    pub(crate) fn strides_from_last(&self) -> impl Iterator<Item = Option<u64>> {
        let mut packed = Some(1_u64);
        self.sizes
            .iter()
            .enumerate()
            .rev()
            .map(move |(dimension, &size)| {
                if let Some(strides) = &self.strides {
                    return strides.get(dimension).copied();
                }
                let stride = packed;
                // A size of 0 leaves no element to address: count it as 1, so
                // that the strides outside it stay distinct.
                packed = packed.and_then(|packed| packed.checked_mul(size.max(1)));
                stride
            })
    }

    /// The number of elements that the buffer must hold: the index of the last element
    /// that the strides reach, plus 1, or 0 for a tensor without elements.
    ///
    /// `None` if it does not fit 64 bits, or if there are fewer strides than sizes.
    #[must_use]
    pub fn extent(&self) -> Option<u64> {
        if self.sizes.contains(&0) {
            return Some(0);
        }
        let Some(strides) = &self.strides else {
            return self.element_count();
        };
        let mut last: u64 = 0;
        for (dimension, size) in self.sizes.iter().enumerate() {
            let stride = strides.get(dimension)?;
            last = last.checked_add((size - 1).checked_mul(*stride)?)?;
        }
        last.checked_add(1)
    }

    /// The least `TotalTensorSizeInBytes` by DirectML's rule: the
    /// [`extent`](Self::extent) in bytes, rounded up to a multiple of 4.
    ///
    /// The rule is `DMLCalcBufferTensorSize` (DirectML.h's helper), in checked
    /// 64-bit arithmetic: the helper itself sums in 32 bits. `None` if it does
    /// not fit 64 bits, or if there are fewer strides than sizes.
    #[must_use]
    pub fn minimum_total_size_in_bytes(&self) -> Option<u64> {
        self.extent()?
            .checked_mul(self.data_type.size() as u64)?
            .checked_next_multiple_of(4)
    }
}

/// The product of sizes; 0 if any size is 0, even if the others overflow.
fn product(sizes: &[u64]) -> Option<u64> {
    if sizes.contains(&0) {
        return Some(0);
    }
    sizes
        .iter()
        .try_fold(1_u64, |product, &size| product.checked_mul(size))
}

/// Reverses the first elements of every subsequence along an axis:
/// `DML_REVERSE_SUBSEQUENCES_OPERATOR_DESC`.
///
/// A subsequence is the run of elements along `axis` at fixed coordinates on
/// every other dimension. Its first `length` elements are reversed; the others
/// keep their place.
///
/// [`Plan::new`](crate::Plan::new) takes every meaningful descriptor;
/// [`validate`](Self::validate) checks it against DirectML's limits.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct ReverseSubsequencesDesc {
    /// The elements to reverse.
    pub input: TensorDesc,
    /// A length in elements for every subsequence: the input's sizes, but 1 on the axis.
    pub sequence_lengths: TensorDesc,
    /// The result, of the input's sizes and data type.
    pub output: TensorDesc,
    /// The dimension to reverse along.
    pub axis: u32,
}

impl ReverseSubsequencesDesc {
    /// The descriptor for packed tensors, with a length for every subsequence.
    pub fn packed(
        data_type: DataType,
        sizes: &[u64],
        lengths_data_type: DataType,
        axis: u32,
    ) -> Self {
        let mut lengths = TensorDesc::packed(lengths_data_type, sizes.iter().copied());
        if let Some(size) = lengths.sizes.get_mut(axis as usize) {
            *size = 1;
        }
        let data = TensorDesc::packed(data_type, sizes.iter().copied());
        Self {
            input: data.clone(),
            sequence_lengths: lengths,
            output: data,
            axis,
        }
    }

    /// The descriptor of ONNX's ReverseSequence for packed tensors: a length for
    /// every entry of the batch axis, which all its subsequences share.
    ///
    /// ```
    /// use revseq_kernels::{DataType, ReverseSubsequencesDesc};
    ///
    /// // 7 steps of a batch of 3, with 5 features: lengths `[3]`.
    /// let desc = ReverseSubsequencesDesc::reverse_sequence(
    ///     DataType::Float32, &[7, 3, 5], 1, 0, DataType::Int64,
    /// )?;
    /// assert_eq!(*desc.sequence_lengths.sizes, [1, 3, 5]);
    /// assert_eq!(desc.sequence_lengths.strides.as_deref(), Some(&[0, 1, 0][..]));
    /// # Ok::<(), revseq_kernels::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::AxisOutOfRange`], and [`Error::SameAxis`] for two axes that are one.
    pub fn reverse_sequence(
        data_type: DataType,
        sizes: &[u64],
        batch_axis: u32,
        time_axis: u32,
        lengths_data_type: DataType,
    ) -> Result<Self, Error> {
        for axis in [batch_axis, time_axis] {
            if axis as usize >= sizes.len() {
                return Err(Error::AxisOutOfRange {
                    axis: axis.into(),
                    dimension_count: sizes.len(),
                });
            }
        }
        if batch_axis == time_axis {
            return Err(Error::SameAxis { axis: time_axis });
        }
        let mut desc = Self::packed(data_type, sizes, lengths_data_type, time_axis);
        let strides = (0..sizes.len()).map(|it| u64::from(it == batch_axis as usize));
        desc.sequence_lengths.strides = Some(strides.collect());
        Ok(desc)
    }

    /// The tensors in the order in which they are checked.
    pub(crate) fn tensors(&self) -> [(Tensor, &TensorDesc); 3] {
        [
            (Tensor::Input, &self.input),
            (Tensor::SequenceLengths, &self.sequence_lengths),
            (Tensor::Output, &self.output),
        ]
    }

    /// Checks the rules that hold for every runtime: the dimension counts, the
    /// axis, the sizes, the numbers of strides, and the output's data type.
    ///
    /// # Errors
    /// The first violation.
    pub(crate) fn check_shapes(&self) -> Result<(), Error> {
        let expected = self.input.dimension_count();
        for (tensor, desc) in self.tensors() {
            if desc.dimension_count() != expected {
                return Err(Error::DimensionCountMismatch {
                    tensor,
                    expected,
                    actual: desc.dimension_count(),
                });
            }
            if let Some(strides) = &desc.strides
                && strides.len() != expected
            {
                return Err(Error::StrideCountMismatch {
                    tensor,
                    expected,
                    actual: strides.len(),
                });
            }
        }
        let axis = self.axis as usize;
        if axis >= expected {
            return Err(Error::AxisOutOfRange {
                axis: self.axis.into(),
                dimension_count: expected,
            });
        }
        for (dimension, &size) in self.input.sizes.iter().enumerate() {
            let lengths_size = if dimension == axis { 1 } else { size };
            for (tensor, expected, actual) in [
                (
                    Tensor::SequenceLengths,
                    lengths_size,
                    self.sequence_lengths.sizes[dimension],
                ),
                (Tensor::Output, size, self.output.sizes[dimension]),
            ] {
                if actual != expected {
                    return Err(Error::SizeMismatch {
                        tensor,
                        dimension,
                        expected,
                        actual,
                    });
                }
            }
        }
        if self.output.data_type != self.input.data_type {
            return Err(Error::DataTypeMismatch {
                expected: self.input.data_type,
                actual: self.output.data_type,
            });
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn total_size_is_the_last_element_s_end_rounded_up_to_four() {
        let minimum = |desc: &TensorDesc| desc.minimum_total_size_in_bytes();
        assert_eq!(
            minimum(&TensorDesc::packed(DataType::Uint8, [1, 5])),
            Some(8)
        );
        assert_eq!(
            minimum(&TensorDesc::packed(DataType::Float64, [3])),
            Some(24)
        );
        assert_eq!(
            minimum(&TensorDesc::strided(DataType::Float16, [2, 3], [10, 1])),
            Some(28)
        );
        assert_eq!(
            minimum(&TensorDesc::strided(DataType::Float16, [2, 3], [0, 0])),
            Some(4)
        );
        assert_eq!(
            minimum(&TensorDesc::packed(DataType::Float32, [0, u64::MAX])),
            Some(0)
        );
        // DirectML's helper would wrap here: it sums in 32 bits.
        assert_eq!(
            minimum(&TensorDesc::packed(DataType::Float32, [1 << 20, 1 << 20])),
            Some(1 << 42)
        );
        for overflowing in [
            TensorDesc::packed(DataType::Uint8, [u64::MAX, 2]),
            TensorDesc::packed(DataType::Complex128, [1 << 61]),
            TensorDesc::packed(DataType::Uint8, [u64::MAX]),
            TensorDesc::strided(DataType::Uint8, [3, 2], [u64::MAX / 2, 2]),
        ] {
            assert_eq!(minimum(&overflowing), None, "{overflowing:?}");
        }
    }

    #[test]
    fn a_tensor_that_lacks_strides_has_no_layout() {
        let desc = TensorDesc::strided(DataType::Uint8, [2, 3], [3]);
        assert_eq!(desc.effective_strides(), None);
        assert_eq!(desc.extent(), None);
        assert_eq!(desc.minimum_total_size_in_bytes(), None);
    }

    #[test]
    fn a_batch_needs_a_separate_axis() {
        let desc = |batch, time| {
            let sizes = [2, 3];
            ReverseSubsequencesDesc::reverse_sequence(
                DataType::Uint8,
                &sizes,
                batch,
                time,
                DataType::Int64,
            )
        };
        assert_eq!(*desc(0, 1).unwrap().sequence_lengths.sizes, [2, 1]);
        assert_eq!(desc(1, 1), Err(Error::SameAxis { axis: 1 }));
        for (batch, time) in [(2, 0), (0, 2)] {
            let error = Error::AxisOutOfRange {
                axis: 2,
                dimension_count: 2,
            };
            assert_eq!(desc(batch, time), Err(error));
        }
    }

    #[test]
    fn packed_strides_stay_distinct_around_a_zero_size() {
        let desc = TensorDesc::packed(DataType::Uint8, [2, 0, 3]);
        assert_eq!(*desc.effective_strides().unwrap(), [3, 3, 1]);
        assert_eq!(desc.extent(), Some(0));
    }
}
