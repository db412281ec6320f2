//! The errors between a plugin and its host.

use std::ffi::{CString, c_int};
use std::fmt;

use ort_sys::OrtErrorCode;

use super::abi::API_VERSION;
use super::plugin;

/// An error that any plugin may return.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
#[expect(missing_docs, reason = "messages say what the values are")]
pub enum Error {
    /// The host is older than the plugin interface.
    #[error("{} {} needs ONNX Runtime 1.{API_VERSION} or later, found {actual}", plugin().name, plugin().version)]
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
        /// An `OrtErrorCode`.
        code: c_int,
    },
    /// A value has a name that a message of ONNX cannot have.
    #[error("the name {name:?} is not UTF-8")]
    Name { name: CString },
    /// The caller of a run has ended it, in ONNX Runtime's words.
    #[error("Exiting due to terminate flag being set to true.")]
    Ended,
    /// The system has no more memory to give.
    #[error("not enough memory for {bytes} bytes")]
    OutOfMemory { bytes: usize },
    /// A panic was caught. It is a bug of the plugin.
    #[error("{} panicked: {message}; this is a bug in {0}, please report it", plugin().name)]
    Panic { message: String },
}

impl Error {
    /// The error of a call of a function with arguments that it must not have.
    pub fn argument(function: &'static str, problem: &'static str) -> Self {
        Self::HostArgument { function, problem }
    }
}

/// An error that a callback may return: a plugin's own, which holds those above as well.
pub trait Failure: fmt::Display + From<Error> {
    /// The host's code for the failure.
    ///
    /// Never `ORT_EP_FAIL`, upon which ONNX Runtime's Python binding silently runs
    /// everything again on the CPU EP.
    fn code(&self) -> OrtErrorCode;
}

impl Failure for Error {
    fn code(&self) -> OrtErrorCode {
        match self {
            Self::HostTooOld { .. } => OrtErrorCode::ORT_NOT_IMPLEMENTED,
            Self::HostArgument { .. } | Self::Name { .. } => OrtErrorCode::ORT_INVALID_ARGUMENT,
            Self::Ended => OrtErrorCode::ORT_FAIL,
            Self::Host { .. } | Self::OutOfMemory { .. } | Self::Panic { .. } => {
                OrtErrorCode::ORT_RUNTIME_EXCEPTION
            }
        }
    }
}
