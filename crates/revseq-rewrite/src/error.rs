//! Errors.

/// Why a model cannot be rewritten.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The bytes are not a model.
    #[error("it is not an ONNX model")]
    Decode(#[source] buffa::DecodeError),
    /// The model has no graph.
    #[error("the model has no graph")]
    NoGraph,
    /// The model does not fit into a file.
    #[error("the rewritten model cannot be written")]
    Encode(#[source] buffa::EncodeError),
    /// An unknown pass.
    #[error("there is no pass {name:?}; the passes are {known}")]
    UnknownPass {
        /// The requested pass.
        name: String,
        /// The existing passes.
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
