//! The errors of the provider.

use ort_sys::OrtErrorCode;

use super::EP_NAME_STR;
use crate::plugin::error::{self as plugin, Failure};

/// An error of this crate, with the values that caused it and those that would be right.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub(crate) enum Error {
    /// An error that any plugin can have.
    #[error(transparent)]
    Plugin(#[from] plugin::Error),
    /// An error of a node.
    #[error("{node}: {source}")]
    InNode { node: String, source: Box<Self> },
    /// A provider option is unknown.
    #[error(
        "unknown provider option {key:?} of {EP_NAME_STR}, expected \"lengths\", \"layers\", \"loops\" or \
         \"assume\""
    )]
    UnknownOption { key: String },
    /// A provider option has a value that it cannot have.
    #[error("provider option {key:?} is {value:?}, expected {expected}")]
    OptionValue {
        key: &'static str,
        value: String,
        expected: &'static str,
    },
    /// A session assumes something of loops that stay.
    #[error(
        "provider option \"assume\" is about loops that become layers, and \"loops\" is not given, \
         expected \"layers\" beside it"
    )]
    AssumesWithoutLoops,
    /// The variable that switches layers and loops off has another value.
    #[error("the environment has REVSEQ_EP={value}, expected REVSEQ_EP=off or REVSEQ_EP=on")]
    Switch { value: String },
    /// The node or its shapes violate its schema. Names the node.
    #[error(transparent)]
    Node(#[from] revseq_graph::Error),
    /// A tensor has a type that no kernel moves.
    #[error("input {input:?} has elements of type {actual}, expected a type of fixed size")]
    ElementType { input: &'static str, actual: String },
    /// A run failed.
    #[error(transparent)]
    Run(#[from] revseq_kernels::Error),
    /// A layer's input has other sizes than it should have, in ONNX Runtime's words.
    #[error("Input {input} must have {expected}. Actual:{{{}}}", list(actual))]
    LayerShape {
        input: &'static str,
        expected: String,
        actual: Vec<i64>,
    },
    /// A sequence's length is out of range, in ONNX Runtime's words.
    #[error(
        "Invalid value/s in sequence_lens. All values must be >= 0 and <= seq_length. \
         seq_length={steps}"
    )]
    LayerLengths { steps: usize },
    /// A layer's input has another type than its schema has.
    #[error(
        "input {input} has elements of ONNXTensorElementDataType {actual}, expected {expected}"
    )]
    LayerType {
        input: &'static str,
        actual: i32,
        expected: &'static str,
    },
    /// The replacement of a loop cannot be written.
    #[error("the layers of a loop cannot be written: {problem}; keep it with the option \"loops\"")]
    Replacement { problem: String },
    /// A session that replaces loops is to write them into a model with an EPContext.
    #[error(
        "a loop that layers replace cannot be written into an EPContext: make the session without \
         \"ep.context_enable\", or with the provider option \"loops\" as \"keep\""
    )]
    Context,
    /// A model has an operator that only replacements of loops have.
    #[error("masked layers are made by {EP_NAME_STR} and have no meaning in a model")]
    MaskedLayer,
    /// Some operands of a layer do not fit it.
    #[error(transparent)]
    Layer(recurrent_layers::Error),
    /// A loop's values do not fit it, or a step of it fails.
    #[error(transparent)]
    Steps(recurrent_steps::Error),
    /// Two outputs of a layer are in one memory.
    #[error("the memory of outputs {} and {} overlaps; use separate buffers", outputs[0], outputs[1])]
    LayerOverlap { outputs: [&'static str; 2] },
    /// Two tensors share memory though they are not the same.
    #[error(
        "the output's memory overlaps that of input {input:?}; use separate buffers, or the data's \
         own to run in place"
    )]
    Overlap { input: &'static str },
}

/// Sizes as ONNX Runtime writes them.
pub(super) fn list(sizes: &[i64]) -> String {
    let sizes: Vec<String> = sizes.iter().map(ToString::to_string).collect();
    sizes.join(",")
}

impl Error {
    /// The error with the node that it is of, unless it names that already.
    #[cold]
    pub(super) fn of_node(self, node: String) -> Self {
        match self {
            Self::InNode { .. } | Self::Node(_) => self,
            source => Self::InNode {
                node,
                source: Box::new(source),
            },
        }
    }
}

impl From<recurrent_layers::Error> for Error {
    fn from(error: recurrent_layers::Error) -> Self {
        match error {
            recurrent_layers::Error::Stopped => plugin::Error::Ended.into(),
            error => Self::Layer(error),
        }
    }
}

impl From<recurrent_steps::Error> for Error {
    fn from(error: recurrent_steps::Error) -> Self {
        match error {
            recurrent_steps::Error::Stopped => plugin::Error::Ended.into(),
            error => Self::Steps(error),
        }
    }
}

impl Failure for Error {
    fn code(&self) -> OrtErrorCode {
        match self {
            Self::Plugin(source) => source.code(),
            Self::InNode { source, .. } => source.code(),
            Self::Layer(recurrent_layers::Error::OutOfMemory { .. })
            | Self::Steps(recurrent_steps::Error::OutOfMemory { .. }) => {
                OrtErrorCode::ORT_RUNTIME_EXCEPTION
            }
            _ => OrtErrorCode::ORT_INVALID_ARGUMENT,
        }
    }
}
