//! Lowering of an operator and its shapes to the descriptor.

use revseq_kernels::{DataType, ReverseSubsequencesDesc, TensorDesc};

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
    /// For any rank, the dimensions before, between and after the axes
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
        self.checked(data, lengths)
            .and_then(|(operator, types)| operator.collapsed(data.sizes, types))
            .map_err(|kind| self.refuse(node, kind))
    }

    /// The same for data that is not packed, such as a view: `strides` are its own,
    /// in elements, from the one at coordinate 0 on.
    ///
    /// The descriptor has the dimensions of the data, and its output is packed.
    ///
    /// # Errors
    /// As [`lower`](Self::lower), and [`ErrorKind::StrideCount`].
    pub fn lower_strided(
        self,
        node: &str,
        data: TensorType<'_>,
        strides: &[u64],
        lengths: TensorType<'_>,
    ) -> Result<ReverseSubsequencesDesc, Error> {
        let (operator, types) = self
            .checked(data, lengths)
            .map_err(|kind| self.refuse(node, kind))?;
        if strides.len() != data.sizes.len() {
            let kind = ErrorKind::StrideCount {
                input: self.input_names()[0],
                expected: data.sizes.len(),
                actual: strides.len(),
            };
            return Err(self.refuse(node, kind));
        }
        let mut desc = desc_of(data.sizes, operator.axes(), types);
        desc.input.strides = Some(strides.into());
        Ok(desc)
    }

    fn refuse(self, node: &str, kind: ErrorKind) -> Error {
        Error {
            node: node.to_owned(),
            op_type: self.op_type().to_owned(),
            kind: Box::new(kind),
        }
    }

    /// Checks the inputs against the schema, now that all is known of them. Returns the operator with
    /// its axes counted from the start, and the descriptor's types of the data and the lengths.
    fn checked(
        self,
        data: TensorType<'_>,
        lengths: TensorType<'_>,
    ) -> Result<(Self, [DataType; 2]), ErrorKind> {
        let operator = self.normalize(data.sizes.len())?;
        // Which version a model imports is checked where the node is read.
        operator.check_type(0, data.element_type, true)?;
        operator.check_type(1, lengths.element_type, true)?;
        let known = |sizes: &[u64]| sizes.iter().copied().map(Some).collect::<Vec<_>>();
        let expected = known(&operator.lengths_shape(data.sizes, 1));
        check_shape(operator.input_names()[1], &expected, &known(lengths.sizes))?;
        let data_type = match data.element_type {
            ElementType::Fixed(data_type) => data_type,
            ElementType::String => DataType::Uint8,
        };
        let lengths_type = match lengths.element_type {
            ElementType::Fixed(DataType::Int32 | DataType::Uint32) => DataType::Uint32,
            _ => DataType::Uint64,
        };
        Ok((operator, [data_type, lengths_type]))
    }

    /// The descriptor of packed data, with as few dimensions as DirectML takes.
    fn collapsed(
        self,
        sizes: &[u64],
        types: [DataType; 2],
    ) -> Result<ReverseSubsequencesDesc, ErrorKind> {
        let product = |neighbours: &[u64]| {
            let neighbours = TensorDesc::packed(DataType::Uint8, neighbours.iter().copied());
            neighbours
                .element_count()
                .ok_or_else(|| ErrorKind::SizeOverflow {
                    input: self.input_names()[0],
                    sizes: sizes.to_vec(),
                })
        };
        let (time, batch) = self.axes();
        let mut axes: Vec<usize> = batch.into_iter().chain([time]).collect();
        axes.sort_unstable();
        // The dimensions that are left, and the place of each axis among them.
        let (mut left, mut places) = (vec![], vec![0; sizes.len()]);
        let mut next = 0;
        for axis in axes {
            if next < axis {
                left.push(product(&sizes[next..axis])?);
            }
            places[axis] = left.len();
            left.push(sizes[axis]);
            next = axis + 1;
        }
        if next < sizes.len() {
            left.push(product(&sizes[next..])?);
        }
        // DirectML's lower levels take no fewer than four.
        let before = 4_usize.saturating_sub(left.len());
        left.splice(0..0, std::iter::repeat_n(1, before));
        let place = |axis: usize| before + places[axis];
        Ok(desc_of(&left, (place(time), batch.map(place)), types))
    }
}

/// The descriptor of packed tensors, with a length for every entry of the batch axis, or for every
/// subsequence if there is none.
fn desc_of(
    sizes: &[u64],
    (time, batch): (usize, Option<usize>),
    [data_type, lengths_type]: [DataType; 2],
) -> ReverseSubsequencesDesc {
    let time = time as u32;
    let Some(batch) = batch else {
        return ReverseSubsequencesDesc::packed(data_type, sizes, lengths_type, time);
    };
    ReverseSubsequencesDesc::reverse_sequence(data_type, sizes, batch as u32, time, lengths_type)
        .expect("the axes were normalised")
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
    fn views_keep_their_dimensions_and_strides() {
        let operator = Operator::ReverseSequence {
            batch_axis: -2,
            time_axis: 0,
        };
        let data = TensorType {
            element_type: ElementType::Fixed(DataType::Float16),
            sizes: &[7, 3, 5],
        };
        let lengths = TensorType {
            element_type: ElementType::Fixed(DataType::Int64),
            sizes: &[3],
        };
        let desc = operator.lower_strided("view", data, &[5, 35, 1], lengths);
        let desc = desc.unwrap();
        assert_eq!(*desc.input.sizes, [7, 3, 5]);
        assert_eq!(desc.input.strides.as_deref(), Some(&[5, 35, 1][..]));
        assert_eq!(
            desc.sequence_lengths.strides.as_deref(),
            Some(&[0, 1, 0][..])
        );
        assert_eq!((desc.axis, desc.output.strides), (0, None));
        let error = operator.lower_strided("view", data, &[35, 1], lengths);
        let message = error.unwrap_err().to_string();
        assert!(message.contains("2 strides"), "{message}");
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
        assert_eq!(*desc.input.sizes, [1, 1, 1, 9]);
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
        assert_eq!(*desc.input.sizes, [1, 2, 2, 0]);
    }
}
