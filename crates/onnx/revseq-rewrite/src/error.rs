//! Errors of a rewrite as a whole.
//!
//! A node that no pass can prove is no error: it stays as it is, and the report says why.

/// Reason why a model cannot be rewritten.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The model cannot be read or written.
    #[error(transparent)]
    Model(#[from] revseq_onnx::Error),
    /// An unknown pass.
    #[error("there is no pass {name:?}; the passes are {known}")]
    UnknownPass {
        /// The requested pass.
        name: String,
        /// The existing passes.
        known: String,
    },
    /// An unknown runtime.
    #[error("there is no runtime {name:?} to rewrite for; there are {known}")]
    UnknownRuntime {
        /// The requested runtime.
        name: String,
        /// The existing runtimes.
        known: String,
    },
    /// Functions that call themselves, or expand too much.
    #[error(
        "its functions cannot be inlined: they come to more than {nodes} nodes, or call each \
         other more than {depth} deep"
    )]
    Functions {
        /// The maximum number of nodes they may expand to.
        nodes: usize,
        /// The maximum depth of calls.
        depth: usize,
    },
    /// The passes undo each other without end.
    #[error("the passes do not come to an end: {steps} steps were taken")]
    Endless {
        /// The number of steps taken.
        steps: usize,
    },
}
