//! The errors of measuring.

use crate::Contestant;

/// Reason why there is no figure.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The allocator has no more.
    #[error("not enough memory for {bytes} bytes")]
    OutOfMemory {
        /// Number of bytes that were asked for.
        bytes: usize,
    },
    /// The kernels refuse the regime.
    #[error("{regime}: {source}")]
    Kernels {
        /// The regime's name.
        regime: String,
        /// The kernels' error.
        source: revseq_kernels::Error,
    },
    /// A result that is not the operator's: a bug in the contestant.
    #[error("{regime}: {contestant} produces a wrong result")]
    WrongResult {
        /// The regime's name.
        regime: String,
        /// The contestant with that result.
        contestant: Contestant,
    },
    /// A runtime to compare with fails.
    #[error("{regime}: {contestant}: {message}")]
    Peer {
        /// The regime's name.
        regime: String,
        /// The runtime.
        contestant: Contestant,
        /// Its message.
        message: String,
    },
    /// A pool of threads does not start.
    #[error("cannot start {threads} threads: {message}")]
    Threads {
        /// Number of threads that were asked for.
        threads: usize,
        /// Reason why they do not start.
        message: String,
    },
}
