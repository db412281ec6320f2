//! The reasons why a model is not opened or not run.

use tract_onnx::prelude::*;

/// The most characters of a name that are shown.
pub(crate) const MAXIMUM_NAME: usize = 60;

/// An error of a [`Session`](crate::Session): one line, in ONNX's words.
#[derive(Debug, thiserror::Error)]
#[error("{message}")]
pub struct Error {
    kind: ErrorKind,
    message: String,
    node: Option<String>,
    cause: Option<TractError>,
    /// Whether no other runtime runs the model, either.
    is_everywhere: bool,
}

/// The kind of an [`Error`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ErrorKind {
    /// A file cannot be read.
    Read,
    /// The model is no ONNX model, or not a valid one.
    Model,
    /// tract lacks an operator or a form of it; another runtime may run the model.
    Unsupported,
    /// tract lacks an element type, or values that are not tensors.
    Type,
    /// An input is missing, unknown, given twice, or of another type or shape than the model declares.
    Input,
    /// An output is asked for that the model does not have, or elements of another type than it has.
    Output,
    /// A value, or the steps of a loop, would exceed the limits.
    Limit,
    /// A node does not take a value, such as a length beyond its axis.
    Node,
    /// An [`Interrupt`](crate::Interrupt) or the limit of its time ended a run.
    Interrupted,
}

impl Error {
    pub(crate) fn new(kind: ErrorKind, message: impl Into<String>) -> Self {
        Self {
            kind,
            message: message.into(),
            node: None,
            cause: None,
            is_everywhere: false,
        }
    }

    /// The same of a model that no other runtime runs, either, or of one that others may.
    pub(crate) fn everywhere(self, is_everywhere: bool) -> Self {
        Self {
            is_everywhere,
            ..self
        }
    }

    /// An error that tract's own caused, at a node if it is known.
    pub(crate) fn caused(
        kind: ErrorKind,
        message: String,
        node: Option<String>,
        cause: TractError,
    ) -> Self {
        Self {
            node,
            cause: Some(cause),
            ..Self::new(kind, message)
        }
    }

    /// The kind, for programs.
    #[must_use]
    pub fn kind(&self) -> ErrorKind {
        self.kind
    }

    /// Whether another runtime may run the model: tract lacks something for it that others may have.
    #[must_use]
    pub fn may_run_elsewhere(&self) -> bool {
        self.kind == ErrorKind::Unsupported && !self.is_everywhere
    }

    /// The name of the node that the error is about, if it is known.
    #[must_use]
    pub fn node(&self) -> Option<&str> {
        self.node.as_deref()
    }

    /// tract's own error, which names its types and passes, to report it to tract.
    #[must_use]
    pub fn tract(&self) -> Option<&TractError> {
        self.cause.as_ref()
    }
}

/// An error whose message is already in ONNX's terms.
#[derive(Debug, thiserror::Error)]
#[error("{message}")]
pub(crate) struct Explained {
    pub(crate) kind: ErrorKind,
    pub(crate) message: String,
    /// The node that it is about, if a caller may ask for it.
    pub(crate) node: Option<String>,
}

/// A panic of tract's, with its message.
#[derive(Debug, thiserror::Error)]
#[error("tract panicked: {0}")]
pub(crate) struct Panicked(pub(crate) String);

/// The end of a text that is too long: the names that exporters write begin alike.
pub(crate) fn shortened(text: &str, most: usize) -> String {
    let count = text.chars().count();
    if count <= most {
        return text.to_owned();
    }
    let end: String = text.chars().skip(count - most).collect();
    format!("…{end}")
}

/// The beginning of a text that is too long.
pub(crate) fn beginning(text: &str, most: usize) -> String {
    match text.char_indices().nth(most) {
        Some((end, _)) => format!("{}…", text[..end].trim_end()),
        None => text.to_owned(),
    }
}

/// What is wrong with a node, without its name and operator: whoever reports an error adds them.
pub(crate) fn clause(error: revseq_graph::Error) -> TractError {
    (*error.kind).into()
}
