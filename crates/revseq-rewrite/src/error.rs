//! What can go wrong.

/// Why a model cannot be rewritten.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The bytes are no model.
    #[error("it is not an ONNX model")]
    Decode(#[source] buffa::DecodeError),
    /// The model has no graph.
    #[error("the model has no graph")]
    NoGraph,
    /// The model does not fit into a file.
    #[error("the rewritten model cannot be written")]
    Encode(#[source] buffa::EncodeError),
    /// A pass that there is not.
    #[error("there is no pass {name:?}; the passes are {known}")]
    UnknownPass {
        /// What was asked for.
        name: String,
        /// What there is.
        known: String,
    },
    /// Functions that call themselves, or multiply.
    #[error(
        "its functions cannot be inlined: they come to more than {nodes} nodes, or call each \
         other more than {depth} deep"
    )]
    Functions {
        /// The most nodes that they may come to.
        nodes: usize,
        /// How deep they may call each other.
        depth: usize,
    },
    /// More rewriting than any model needs: the passes undo each other.
    #[error("the passes do not come to an end: {steps} steps were taken")]
    Endless {
        /// How many steps were taken.
        steps: usize,
    },
}
