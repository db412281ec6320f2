//! The two operators, read from a node.

use revseq_kernels::{DataType, LengthsPolicy};

use crate::{AttributeValue, ElementType, Error, ErrorKind, Input, Node};

/// The domain of `ReverseSubsequences`.
pub const DOMAIN: &str = "revseq";

/// A node's operator and its axes.
///
/// An axis counts from the end if negative, as in numpy, until the rank is
/// known ([`normalize`](Self::normalize)).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Operator {
    /// ONNX `ReverseSequence`: inputs `input` (rank ≥ 2) and `sequence_lens`
    /// (int64 `[batch_size]`).
    ///
    /// ONNX's text allows 0 and 1 as axes; exporters write any, and any two
    /// distinct ones are taken.
    ReverseSequence {
        /// The dimension that `sequence_lens` runs along; 1 by default.
        batch_axis: i64,
        /// The dimension to reverse along; 0 by default.
        time_axis: i64,
    },
    /// `revseq::ReverseSubsequences`: inputs `data` (rank ≥ 1) and
    /// `sequence_lengths` (uint32, uint64, int32 or int64, the sizes of `data`
    /// but 1 on the axis).
    ReverseSubsequences {
        /// The dimension to reverse along. Required.
        axis: i64,
    },
}

/// The parts of an operator's schemas that are checked.
struct Schema {
    first_version: i64,
    inputs: [&'static str; 2],
    attributes: &'static str,
    minimum_rank: usize,
    lengths_types: &'static [DataType],
}

const REVERSE_SEQUENCE: Schema = Schema {
    first_version: 10,
    inputs: ["input", "sequence_lens"],
    attributes: "batch_axis and time_axis",
    minimum_rank: 2,
    lengths_types: &[DataType::Int64],
};

const REVERSE_SUBSEQUENCES: Schema = Schema {
    first_version: 1,
    inputs: ["data", "sequence_lengths"],
    attributes: "axis",
    minimum_rank: 1,
    lengths_types: &[
        DataType::Uint32,
        DataType::Uint64,
        DataType::Int32,
        DataType::Int64,
    ],
};

/// The first version of ONNX whose ReverseSequence takes bfloat16.
const BFLOAT16_VERSION: i64 = 28;

impl Operator {
    /// Whether a node with this domain and operator is one of the two.
    #[must_use]
    pub fn is_known(domain: &str, op_type: &str) -> bool {
        match op_type {
            "ReverseSequence" => matches!(domain, "" | "ai.onnx"),
            "ReverseSubsequences" => domain == DOMAIN,
            _ => false,
        }
    }

    /// Reads a node: its attributes, and the known types and shapes of its inputs.
    ///
    /// The axes come back normalised if the rank is known.
    ///
    /// # Errors
    /// The first violation of the schema. [`lower`](Self::lower) checks the inputs
    /// that are unknown here.
    pub fn from_node(node: &Node<'_>) -> Result<Self, Error> {
        let refuse = |kind| Error {
            node: node.name.to_owned(),
            op_type: node.op_type.to_owned(),
            kind: Box::new(kind),
        };
        if !Self::is_known(node.domain, node.op_type) {
            return Err(refuse(ErrorKind::UnknownOperator {
                domain: node.domain.to_owned(),
            }));
        }
        let operator = if node.op_type == "ReverseSequence" {
            Self::ReverseSequence {
                batch_axis: int_attribute(node, "batch_axis")
                    .map_err(refuse)?
                    .unwrap_or(1),
                time_axis: int_attribute(node, "time_axis")
                    .map_err(refuse)?
                    .unwrap_or(0),
            }
        } else {
            let axis = int_attribute(node, "axis").map_err(refuse)?;
            Self::ReverseSubsequences {
                axis: axis
                    .ok_or_else(|| refuse(ErrorKind::MissingAttribute { attribute: "axis" }))?,
            }
        };
        operator.check_node(node).map_err(refuse)
    }

    /// The operator's name in ONNX.
    #[must_use]
    pub fn op_type(self) -> &'static str {
        match self {
            Self::ReverseSequence { .. } => "ReverseSequence",
            Self::ReverseSubsequences { .. } => "ReverseSubsequences",
        }
    }

    /// The names of the two inputs in the schema.
    #[must_use]
    pub fn input_names(self) -> [&'static str; 2] {
        self.schema().inputs
    }

    /// The default policy for lengths out of range: ReverseSequence rejects them,
    /// like ONNX Runtime; ReverseSubsequences clamps them, as DirectML's page
    /// specifies.
    #[must_use]
    pub fn lengths_policy(self) -> LengthsPolicy {
        match self {
            Self::ReverseSequence { .. } => LengthsPolicy::Reject,
            Self::ReverseSubsequences { .. } => LengthsPolicy::Clamp,
        }
    }

    /// The same operator with its axes counted from the start.
    ///
    /// # Errors
    /// A rank that is too small, an axis out of range, or two axes that are one.
    pub fn normalize(self, rank: usize) -> Result<Self, ErrorKind> {
        let minimum = self.schema().minimum_rank;
        if rank < minimum {
            return Err(ErrorKind::RankTooSmall {
                input: self.input_names()[0],
                actual: rank,
                minimum,
            });
        }
        let normal = |attribute, axis: i64| {
            let counted = if axis < 0 { axis + rank as i64 } else { axis };
            match (0..rank as i64).contains(&counted) {
                true => Ok(counted),
                false => Err(ErrorKind::AxisOutOfRange {
                    attribute,
                    actual: axis,
                    rank,
                }),
            }
        };
        match self {
            Self::ReverseSequence {
                batch_axis,
                time_axis,
            } => {
                let normalized = (
                    normal("batch_axis", batch_axis)?,
                    normal("time_axis", time_axis)?,
                );
                if normalized.0 == normalized.1 {
                    return Err(ErrorKind::SameAxis {
                        batch_axis,
                        time_axis,
                    });
                }
                Ok(Self::ReverseSequence {
                    batch_axis: normalized.0,
                    time_axis: normalized.1,
                })
            }
            Self::ReverseSubsequences { axis } => Ok(Self::ReverseSubsequences {
                axis: normal("axis", axis)?,
            }),
        }
    }

    /// The shape of the lengths, for data of these sizes.
    ///
    /// Sizes may be numbers or a host's symbols; `one` is the 1 among them. The
    /// operator has to be [normalised](Self::normalize) for the rank.
    #[must_use]
    pub fn lengths_shape<D: Clone>(self, sizes: &[D], one: D) -> Vec<D> {
        let (time, batch) = self.axes();
        if let Some(batch) = batch {
            return vec![sizes[batch].clone()];
        }
        let mut sizes = sizes.to_vec();
        sizes[time] = one;
        sizes
    }

    /// The axis to reverse along, and the one that the lengths run along if it
    /// is only one. The operator has to be [normalised](Self::normalize).
    #[must_use]
    pub fn axes(self) -> (usize, Option<usize>) {
        match self {
            Self::ReverseSequence {
                batch_axis,
                time_axis,
            } => (time_axis as usize, Some(batch_axis as usize)),
            Self::ReverseSubsequences { axis } => (axis as usize, None),
        }
    }

    /// Checks an input's element type against the schema of a version.
    ///
    /// `input` is 0 for the data, 1 for the lengths.
    ///
    /// # Errors
    /// [`ErrorKind::InputType`].
    pub(crate) fn check_type(
        self,
        input: usize,
        actual: ElementType,
        bfloat16: bool,
    ) -> Result<(), ErrorKind> {
        let allows = |element_type: ElementType| match element_type {
            _ if input == 0 => bfloat16 || element_type != DataType::Bfloat16.into(),
            ElementType::Fixed(data_type) => self.schema().lengths_types.contains(&data_type),
            ElementType::String => false,
        };
        if allows(actual) {
            return Ok(());
        }
        Err(ErrorKind::InputType {
            input: self.input_names()[input],
            actual,
            allowed: ElementType::all()
                .filter(|&element_type| allows(element_type))
                .collect(),
        })
    }

    fn schema(self) -> &'static Schema {
        match self {
            Self::ReverseSequence { .. } => &REVERSE_SEQUENCE,
            Self::ReverseSubsequences { .. } => &REVERSE_SUBSEQUENCES,
        }
    }

    fn check_node(self, node: &Node<'_>) -> Result<Self, ErrorKind> {
        let schema = self.schema();
        if node.since_version < schema.first_version {
            return Err(ErrorKind::UnsupportedVersion {
                actual: node.since_version,
                first: schema.first_version,
            });
        }
        for attribute in node.attributes {
            let mut known = schema.attributes.split(" and ");
            if !known.any(|known| known == attribute.name) {
                return Err(ErrorKind::UnknownAttribute {
                    attribute: attribute.name.to_owned(),
                    allowed: schema.attributes,
                });
            }
        }
        let [data, lengths] = self.check_inputs(node)?;
        let Some(shape) = data.shape else {
            return Ok(self);
        };
        let normalized = self.normalize(shape.len())?;
        if let Some(lengths_shape) = lengths.shape {
            // An unknown size is checked once it is known.
            let expected = normalized.lengths_shape(shape, Some(1));
            check_shape(schema.inputs[1], &expected, lengths_shape)?;
        }
        Ok(normalized)
    }

    fn check_inputs<'a>(self, node: &Node<'a>) -> Result<[Input<'a>; 2], ErrorKind> {
        let names = self.input_names();
        let &[data, lengths] = node.inputs else {
            return Err(ErrorKind::InputCount {
                expected: names.len(),
                actual: node.inputs.len(),
            });
        };
        let takes_bfloat16 = match self {
            Self::ReverseSequence { .. } => node.since_version >= BFLOAT16_VERSION,
            Self::ReverseSubsequences { .. } => true,
        };
        for (index, input) in [data, lengths].into_iter().enumerate() {
            if input.name.is_empty() {
                return Err(ErrorKind::MissingInput {
                    input: names[index],
                });
            }
            if let Some(element_type) = input.element_type {
                self.check_type(index, element_type, takes_bfloat16)?;
            }
        }
        Ok([data, lengths])
    }
}

/// Checks a shape against the expected one, as far as both are known.
pub(crate) fn check_shape(
    input: &'static str,
    expected: &[Option<u64>],
    actual: &[Option<u64>],
) -> Result<(), ErrorKind> {
    if actual.len() != expected.len() {
        return Err(ErrorKind::RankMismatch {
            input,
            expected: expected.len(),
            actual: actual.len(),
        });
    }
    for (dimension, (&expected, &actual)) in expected.iter().zip(actual).enumerate() {
        if let (Some(expected), Some(actual)) = (expected, actual)
            && expected != actual
        {
            return Err(ErrorKind::SizeMismatch {
                input,
                dimension,
                expected,
                actual,
            });
        }
    }
    Ok(())
}

fn int_attribute(node: &Node<'_>, name: &'static str) -> Result<Option<i64>, ErrorKind> {
    let found = node
        .attributes
        .iter()
        .find(|attribute| attribute.name == name);
    match found.map(|attribute| attribute.value) {
        None => Ok(None),
        Some(AttributeValue::Int(value)) => Ok(Some(value)),
        Some(AttributeValue::Other(actual)) => Err(ErrorKind::AttributeType {
            attribute: name,
            actual: actual.to_owned(),
        }),
    }
}
