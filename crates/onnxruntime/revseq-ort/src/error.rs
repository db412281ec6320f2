//! Errors of this crate.

use std::path::PathBuf;

use crate::NAME;

/// An error of the provider in a session.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The library cannot be registered.
    #[error("{}: no {NAME}: {problem}", path.display())]
    Register {
        /// The library's path.
        path: PathBuf,
        /// The reason.
        problem: String,
    },
    /// Nodes of the provider's operators are with other providers.
    #[error("not with {NAME}: {}", nodes.join("; "))]
    Elsewhere {
        /// Each node with the provider that it is with.
        nodes: Vec<String>,
    },
    /// A session has no report.
    #[error("no report: {problem}")]
    Report {
        /// The reason.
        problem: String,
    },
    /// The model cannot be read or rewritten.
    #[cfg(feature = "rewrite")]
    #[error("{model}: {problem}")]
    Rewrite {
        /// The model's path, or that it is in memory.
        model: String,
        /// The reason.
        problem: String,
    },
    /// ONNX Runtime fails.
    #[error(transparent)]
    Ort(#[from] ort::Error),
}
