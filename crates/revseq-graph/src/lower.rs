//! From an operator and its shapes to the descriptor.

use revseq_kernels::{DataType, Dims, ReverseSubsequencesDesc, TensorDesc};

use crate::operator::check_shape;
use crate::{ElementType, Error, ErrorKind, Operator};

/// A tensor's element type and sizes in elements, all known.
#[derive(Clone, Copy, Debug)]
pub struct TensorType<'a> {
    /// The type of its elements.
    pub element_type: ElementType,
    /// Its sizes in elements.
    pub sizes: &'a [u64],
}

impl Operator {
    /// The descriptor of the operator for inputs of these types and sizes.
    ///
    /// Whatever the rank, the dimensions before, between and after the axes
    /// collapse into one each, and the descriptor has the four dimensions that
    /// every DirectML feature level takes, or five if none of the three is
    /// empty. ReverseSequence's lengths have stride 1 on the batch axis and 0
    /// elsewhere, ReverseSubsequences' are packed. Both tensors are packed.
    ///
    /// Lengths that are signed in ONNX are unsigned in the descriptor, as
    /// DirectML has them: once checked they are not negative, and their bits
    /// are the same. Strings have no fixed size; their descriptor counts them
    /// as one byte each, for
    /// [`cpu::reverse_in_place`](revseq_kernels::cpu::reverse_in_place).
    ///
    /// # Errors
    /// Types, ranks, axes or sizes that the schema does not allow, naming `node`.
    pub fn lower(
        self,
        node: &str,
        data: TensorType<'_>,
        lengths: TensorType<'_>,
    ) -> Result<ReverseSubsequencesDesc, Error> {
        self.lower_checked(data, lengths).map_err(|kind| Error {
            node: node.to_owned(),
            op_type: self.op_type().to_owned(),
            kind: Box::new(kind),
        })
    }

    fn lower_checked(
        self,
        data: TensorType<'_>,
        lengths: TensorType<'_>,
    ) -> Result<ReverseSubsequencesDesc, ErrorKind> {
        let operator = self.normalize(data.sizes.len())?;
        // Which version a model imports is checked where the node is read.
        operator.check_type(0, data.element_type, true)?;
        operator.check_type(1, lengths.element_type, true)?;
        let [data_name, lengths_name] = operator.input_names();
        let known = |sizes: &[u64]| sizes.iter().copied().map(Some).collect::<Vec<_>>();
        let expected = known(&operator.lengths_shape(data.sizes, 1));
        check_shape(lengths_name, &expected, &known(lengths.sizes))?;
        let collapsed = |sizes: &[u64]| {
            let neighbours = TensorDesc::packed(DataType::Uint8, sizes.iter().copied());
            neighbours
                .element_count()
                .ok_or_else(|| ErrorKind::SizeOverflow {
                    input: data_name,
                    sizes: data.sizes.to_vec(),
                })
        };

        let (time, batch) = operator.axes();
        let mut shape = Collapsed::default();
        let mut next = 0;
        for (dimension, &size) in data.sizes.iter().enumerate() {
            if dimension != time && Some(dimension) != batch {
                continue;
            }
            if next < dimension {
                shape.push(collapsed(&data.sizes[next..dimension])?, 0);
            }
            if dimension == time {
                shape.axis = shape.sizes.len();
            }
            shape.push(size, u64::from(Some(dimension) == batch));
            next = dimension + 1;
        }
        if next < data.sizes.len() {
            shape.push(collapsed(&data.sizes[next..])?, 0);
        }
        shape.pad_to_four();

        let data_type = match data.element_type {
            ElementType::Fixed(data_type) => data_type,
            ElementType::String => DataType::Uint8,
        };
        let lengths_type = match lengths.element_type {
            ElementType::Fixed(DataType::Int32 | DataType::Uint32) => DataType::Uint32,
            _ => DataType::Uint64,
        };
        let axis = shape.axis as u32;
        let mut desc = ReverseSubsequencesDesc::packed(data_type, &shape.sizes, lengths_type, axis);
        if batch.is_some() {
            let sizes = desc.sequence_lengths.sizes;
            desc.sequence_lengths = TensorDesc::strided(lengths_type, sizes, shape.lengths_strides);
        }
        Ok(desc)
    }
}

/// The dimensions that are left once neighbours have collapsed.
#[derive(Default)]
struct Collapsed {
    sizes: Dims,
    lengths_strides: Dims,
    axis: usize,
}

impl Collapsed {
    fn push(&mut self, size: u64, lengths_stride: u64) {
        self.sizes.push(size);
        self.lengths_strides.push(lengths_stride);
    }

    /// Puts dimensions of size 1 in front: DirectML's lower levels take no fewer than four.
    fn pad_to_four(&mut self) {
        while self.sizes.len() < 4 {
            self.sizes.insert(0, 1);
            self.lengths_strides.insert(0, 0);
            self.axis += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lower(operator: Operator, sizes: &[u64], lengths: &[u64]) -> ReverseSubsequencesDesc {
        let data = TensorType {
            element_type: ElementType::Fixed(DataType::Float32),
            sizes,
        };
        let lengths = TensorType {
            element_type: ElementType::Fixed(DataType::Int64),
            sizes: lengths,
        };
        operator.lower("node", data, lengths).unwrap()
    }

    #[test]
    fn any_axes_collapse_to_four_or_five_dimensions() {
        let check = |batch_axis, time_axis, sizes: &[u64], expected: (&[u64], u32, &[u64])| {
            let operator = Operator::ReverseSequence {
                batch_axis,
                time_axis,
            };
            let batch = operator.normalize(sizes.len()).unwrap().axes().1.unwrap();
            let desc = lower(operator, sizes, &[sizes[batch]]);
            let strides = desc.sequence_lengths.strides.unwrap();
            let found = (&desc.input.sizes[..], desc.axis, &strides[..]);
            assert_eq!(found, expected, "{operator:?} {sizes:?}");
        };
        check(1, 0, &[7, 3], (&[1, 1, 7, 3], 2, &[0, 0, 0, 1]));
        check(0, 1, &[7, 3, 2], (&[1, 7, 3, 2], 2, &[0, 1, 0, 0]));
        check(-1, -3, &[7, 3, 2, 5], (&[7, 3, 2, 5], 1, &[0, 0, 0, 1]));
        check(
            1,
            3,
            &[2, 3, 4, 5, 6, 7],
            (&[2, 3, 4, 5, 42], 3, &[0, 1, 0, 0, 0]),
        );
        check(
            4,
            2,
            &[2, 3, 4, 5, 6, 7],
            (&[6, 4, 5, 6, 7], 1, &[0, 0, 0, 1, 0]),
        );
    }

    #[test]
    fn a_length_for_every_subsequence_stays_packed() {
        let operator = Operator::ReverseSubsequences { axis: -2 };
        let desc = lower(operator, &[2, 3, 4, 5], &[2, 3, 1, 5]);
        assert_eq!(
            desc,
            ReverseSubsequencesDesc::packed(DataType::Float32, &[1, 6, 4, 5], DataType::Uint64, 2)
        );
        let desc = lower(Operator::ReverseSubsequences { axis: 0 }, &[9], &[1]);
        assert_eq!(desc.input.sizes.as_slice(), [1, 1, 1, 9]);
        assert_eq!(desc.axis, 3);
    }

    #[test]
    fn sizes_that_overflow_are_an_error_unless_one_is_zero() {
        let huge = TensorType {
            element_type: ElementType::String,
            sizes: &[2, 2, u64::MAX, 2],
        };
        let lengths = TensorType {
            element_type: ElementType::Fixed(DataType::Int64),
            sizes: &[2],
        };
        let operator = Operator::ReverseSequence {
            batch_axis: 0,
            time_axis: 1,
        };
        let error = operator.lower("node", huge, lengths).unwrap_err();
        assert!(
            matches!(*error.kind, ErrorKind::SizeOverflow { .. }),
            "{error}"
        );
        let empty = TensorType {
            sizes: &[2, 2, u64::MAX, 0],
            ..huge
        };
        let desc = operator.lower("node", empty, lengths).unwrap();
        assert_eq!(desc.input.sizes.as_slice(), [1, 2, 2, 0]);
    }
}
