//! The reasons why nodes are not taken.

use crate::ElementType;

/// A node that is refused, and why.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{op_type}{}: {kind}", named(node))]
#[non_exhaustive]
pub struct Error {
    /// The node's name; empty if it has none.
    pub node: String,
    /// Its operator.
    pub op_type: String,
    /// The kind of error.
    pub kind: Box<ErrorKind>,
}

impl Error {
    /// Whether the node is valid but unsupported here, so that a host may assign it elsewhere.
    #[must_use]
    pub fn is_unsupported(&self) -> bool {
        matches!(
            *self.kind,
            ErrorKind::UnknownOperator { .. } | ErrorKind::UnsupportedVersion { .. }
        )
    }
}

/// The reason why a node is refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ErrorKind {
    /// The operator is neither of the two.
    #[error(
        "domain {domain:?} has no such operator here; known are ReverseSequence of domain \"\" \
         and ReverseSubsequences of domain \"revseq\""
    )]
    UnknownOperator {
        /// The domain found.
        domain: String,
    },
    /// The schema's version is unknown.
    #[error("version {actual} of its domain has no such operator; the first that has is {first}")]
    UnsupportedVersion {
        /// The version found.
        actual: i64,
        /// The first version with the operator.
        first: i64,
    },
    /// The schema has no such attribute.
    #[error("unknown attribute {attribute:?}; it has {allowed}")]
    UnknownAttribute {
        /// The attribute found.
        attribute: String,
        /// The attributes that the schema has.
        allowed: &'static str,
    },
    /// An attribute is not an integer.
    #[error("attribute {attribute} is of type {actual}, expected an integer")]
    AttributeType {
        /// The attribute.
        attribute: &'static str,
        /// The name of the type found.
        actual: String,
    },
    /// The schema requires an attribute that the node does not set.
    #[error("attribute {attribute} is missing: it has no default")]
    MissingAttribute {
        /// The attribute.
        attribute: &'static str,
    },
    /// The number of inputs is wrong.
    #[error("{actual} inputs, expected {expected}")]
    InputCount {
        /// The inputs of the schema.
        expected: usize,
        /// The number of inputs found.
        actual: usize,
    },
    /// An input is left out.
    #[error("input {input:?} is left out, but it is not optional")]
    MissingInput {
        /// The input's name in the schema.
        input: &'static str,
    },
    /// An input's element type is not one of the schema's.
    #[error(
        "input {input:?} has elements of type {actual}, expected {}",
        list(allowed)
    )]
    InputType {
        /// The input's name in the schema.
        input: &'static str,
        /// The type found.
        actual: ElementType,
        /// The types that the schema allows.
        allowed: Vec<ElementType>,
    },
    /// An input has too few dimensions.
    #[error("input {input:?} has rank {actual}, expected at least {minimum}")]
    RankTooSmall {
        /// The input's name in the schema.
        input: &'static str,
        /// The rank found.
        actual: usize,
        /// The lowest rank that the schema allows.
        minimum: usize,
    },
    /// The lengths have another rank than the schema asks for.
    #[error("input {input:?} has rank {actual}, expected {expected}")]
    RankMismatch {
        /// The input's name in the schema.
        input: &'static str,
        /// The rank expected.
        expected: usize,
        /// The rank found.
        actual: usize,
    },
    /// An axis is not a dimension.
    #[error(
        "attribute {attribute} is {actual}, expected -{rank} to {} for an input of rank {rank}",
        rank - 1
    )]
    AxisOutOfRange {
        /// The attribute.
        attribute: &'static str,
        /// The axis found.
        actual: i64,
        /// The input's rank.
        rank: usize,
    },
    /// The batch axis and the time axis are the same dimension.
    #[error(
        "attributes batch_axis {batch_axis} and time_axis {time_axis} are the same dimension, \
         expected two distinct ones"
    )]
    SameAxis {
        /// The batch axis found.
        batch_axis: i64,
        /// The time axis found.
        time_axis: i64,
    },
    /// The lengths have another size than the data asks for.
    #[error("input {input:?} has size {actual} in dimension {dimension}, expected {expected}")]
    SizeMismatch {
        /// The input's name in the schema.
        input: &'static str,
        /// The dimension.
        dimension: usize,
        /// The size expected.
        expected: u64,
        /// The size found.
        actual: u64,
    },
    /// The number of strides is not that of dimensions.
    #[error(
        "input {input:?} has {actual} strides, expected one for each of its {expected} dimensions"
    )]
    StrideCount {
        /// The input's name in the schema.
        input: &'static str,
        /// The rank.
        expected: usize,
        /// The number of strides found.
        actual: usize,
    },
    /// The product of sizes does not fit 64 bits.
    #[error("input {input:?} has sizes {sizes:?}, whose product does not fit 64 bits")]
    SizeOverflow {
        /// The input's name in the schema.
        input: &'static str,
        /// The sizes found.
        sizes: Vec<u64>,
    },
}

fn named(node: &str) -> String {
    match node {
        "" => String::new(),
        name => format!(" node {name:?}"),
    }
}

fn list(types: &[ElementType]) -> String {
    let names: Vec<_> = types.iter().map(|it| it.name()).collect();
    match &*names {
        [names @ .., last] if !names.is_empty() => format!("{} or {last}", names.join(", ")),
        names => names.concat(),
    }
}
