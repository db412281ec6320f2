//! Errors.

/// What the codec of the messages says.
type Source = Box<dyn std::error::Error + Send + Sync>;

/// Reason why a model cannot be read or written.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The bytes are not a model.
    #[error("it is not an ONNX model")]
    Decode(#[source] Source),
    /// The bytes are not a tensor.
    #[error("it is not a TensorProto")]
    DecodeTensor(#[source] Source),
    /// The bytes are the beginning of a model.
    #[error("it ends too early: it has {bytes} bytes of at least {expected}")]
    Truncated {
        /// The number of bytes.
        bytes: usize,
        /// The least number of bytes that a model with this beginning has.
        expected: usize,
    },
    /// The model would take far more memory than it has bytes.
    #[error("decoding its {bytes} bytes would take more than {} MiB", limit >> 20)]
    Memory {
        /// The number of bytes.
        bytes: usize,
        /// The memory allowed, in bytes.
        limit: usize,
    },
    /// The system has no more memory to give.
    #[error("not enough memory for {bytes} bytes")]
    OutOfMemory {
        /// The number of bytes asked for.
        bytes: usize,
    },
    /// The model has no graph.
    #[error("it has no graph: it is not an ONNX model")]
    NoGraph,
    /// A file cannot be read, or a model is not valid: what does not hold, and where.
    #[error("{0}")]
    Invalid(String),
    /// The model does not fit into a file.
    #[error("the model cannot be written")]
    Encode(#[source] Source),
}

impl Error {
    /// The error that these words describe.
    pub(crate) fn invalid(error: anyhow::Error) -> Self {
        match error.downcast_ref() {
            Some(&Self::OutOfMemory { bytes }) => Self::OutOfMemory { bytes },
            _ => Self::Invalid(format!("{error:#}")),
        }
    }
}
