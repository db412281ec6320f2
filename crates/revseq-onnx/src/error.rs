//! Errors.

/// Why a model cannot be read or written.
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
    #[error("the model cannot be written")]
    Encode(#[source] buffa::EncodeError),
}
