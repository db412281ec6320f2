//! The errors of a run.

/// Why a run ended without results.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// [`Stop`](recurrent_layers::Stop) ended the run.
    #[error("the run was stopped")]
    Stopped,
    /// The system has no more memory to give.
    #[error("not enough memory for {bytes} bytes")]
    OutOfMemory {
        /// The number of bytes asked for.
        bytes: usize,
    },
    /// The loop goes on after the most steps that [`Limits`](crate::Limits) allow.
    #[error("more than {limit} steps")]
    Steps {
        /// The limit.
        limit: u64,
    },
    /// The memory of the run is more than [`Limits`](crate::Limits) allow.
    #[error("{bytes} bytes, more than {limit}")]
    Bytes {
        /// The number of bytes that the run needs.
        bytes: u64,
        /// The limit.
        limit: u64,
    },
    /// An index that a step computes is outside the axis that it is of.
    #[error("index {index} is out of range: expected {} to {}", -(*size as i128), *size as i128 - 1)]
    Index {
        /// The index found.
        index: i64,
        /// The size of the axis.
        size: usize,
    },
    /// The values of a run do not fit each other, or what the loop does with them.
    #[error("{0}")]
    Values(String),
    /// The caller refused to give room for an output.
    #[error("output {index} has no room: {reason}")]
    Output {
        /// The index of the output.
        index: usize,
        /// What the caller says.
        reason: String,
    },
}

impl From<recurrent_layers::Error> for Error {
    fn from(error: recurrent_layers::Error) -> Self {
        match error {
            recurrent_layers::Error::Stopped => Self::Stopped,
            recurrent_layers::Error::OutOfMemory { bytes } => Self::OutOfMemory { bytes },
            other => Self::Values(other.to_string()),
        }
    }
}

/// Returns an error about values.
pub(crate) fn values<T>(message: impl Into<String>) -> Result<T, Error> {
    Err(Error::Values(message.into()))
}
