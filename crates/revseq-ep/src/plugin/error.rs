//! What can go wrong between a plugin and its host.

use std::fmt;

use ort_sys::OrtErrorCode;

use super::abi::API_VERSION;

/// An error of what every plugin does.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub(crate) enum Error {
    /// The host is older than the plugin interface.
    #[error(
        "{} {} needs ONNX Runtime 1.{API_VERSION} or later, found {actual}",
        env!("CARGO_PKG_NAME"),
        env!("CARGO_PKG_VERSION"),
    )]
    HostTooOld { actual: String },
    /// The host calls a function with arguments that it must not have.
    #[error("{function}: {problem}")]
    HostArgument {
        function: &'static str,
        problem: &'static str,
    },
    /// A function of the host failed.
    #[error("{function}: {message}")]
    Host {
        function: &'static str,
        message: String,
    },
    /// A panic was caught. It is a bug of the plugin.
    #[error("{} panicked: {message}; this is a bug in {0}, please report it", env!("CARGO_PKG_NAME"))]
    Panic { message: String },
}

/// An error that a callback may return: a plugin's own, which holds those above as well.
pub(crate) trait Failure: fmt::Display + From<Error> {
    /// What the failure amounts to for the host.
    ///
    /// Never `ORT_EP_FAIL`: ONNX Runtime's Python binding takes that as leave
    /// to run everything again on the CPU EP, silently.
    fn code(&self) -> OrtErrorCode;
}

impl Failure for Error {
    fn code(&self) -> OrtErrorCode {
        match self {
            Self::HostTooOld { .. } => OrtErrorCode::ORT_NOT_IMPLEMENTED,
            Self::HostArgument { .. } => OrtErrorCode::ORT_INVALID_ARGUMENT,
            Self::Host { .. } | Self::Panic { .. } => OrtErrorCode::ORT_RUNTIME_EXCEPTION,
        }
    }
}
