//! What can go wrong, and how it is told to the host.

use std::ffi::CString;

use ort_sys::{OrtErrorCode, OrtStatusPtr};
use revseq_kernels::Device;

use crate::plugin::host::Host;

/// An error of this crate, with the values that caused it and those that would be right.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub(crate) enum Error {
    /// The host is older than the plugin interface.
    #[error(
        "this is ONNX Runtime {actual}, but revseq {} needs 1.{} or later",
        env!("CARGO_PKG_VERSION"),
        crate::plugin::abi::API_VERSION
    )]
    HostTooOld {
        /// The version that the host says it has.
        actual: String,
    },
    /// The host has no room for the EP, or passes no place for a result.
    #[error("{function}: {problem}")]
    HostArgument {
        /// The function that the host called.
        function: &'static str,
        /// What is wrong with what it passed.
        problem: &'static str,
    },
    /// A function of the host failed.
    #[error("{function}: {message}")]
    Host {
        /// The function that this crate called.
        function: &'static str,
        /// The host's message.
        message: String,
    },
    /// That of a node.
    #[error("{node}: {source}")]
    InNode {
        /// What messages call the node.
        node: String,
        /// What went wrong.
        source: Box<Self>,
    },
    /// A provider option is unknown.
    #[error(
        "unknown provider option {key:?} of {}; valid are {}",
        crate::EP_NAME_STR,
        crate::provider::options::VALID
    )]
    UnknownOption {
        /// The option found.
        key: String,
    },
    /// A provider option has a value that it cannot have.
    #[error(
        "provider option {key:?} is {value:?}; valid are {}",
        crate::provider::options::VALID
    )]
    OptionValue {
        /// The option.
        key: String,
        /// The value found.
        value: String,
    },
    /// The GPU that a session asks for cannot be had.
    #[cfg(feature = "gpu")]
    #[error("provider option \"device\" is \"{device}\": {source}")]
    OpenGpu {
        /// The option's value.
        device: Device,
        /// Why not, with the adapters that there are.
        source: revseq_kernels::gpu::Error,
    },
    /// A session asks for a GPU, and this library was built without.
    #[cfg(not(feature = "gpu"))]
    #[error(
        "provider option \"device\" is \"{device}\", but this library was built without GPUs; \
         build revseq-ep with the feature gpu"
    )]
    BuiltWithoutGpu {
        /// The option's value.
        device: Device,
    },
    /// The node or its shapes are not what its schema allows.
    #[error(transparent)]
    Node(#[from] revseq_graph::Error),
    /// A tensor has a type that no kernel moves.
    #[error(
        "{op_type} node {node:?}: input {input:?} has elements of type {actual}, which no kernel moves"
    )]
    ElementType {
        /// The node's operator.
        op_type: &'static str,
        /// The node's name.
        node: String,
        /// The input's name in the schema.
        input: &'static str,
        /// The name or number of the type found.
        actual: String,
    },
    /// A run failed.
    #[error("{op_type} node {node:?}: {source}")]
    Run {
        /// The node's operator.
        op_type: &'static str,
        /// The node's name.
        node: String,
        /// What is wrong.
        source: revseq_kernels::Error,
    },
    /// A run failed on a GPU.
    #[error("{op_type} node {node:?}: {source}")]
    RunOnGpu {
        /// The node's operator.
        op_type: &'static str,
        /// The node's name.
        node: String,
        /// What is wrong.
        source: crate::provider::gpu::RunError,
    },
    /// Two tensors share memory though they are not the same.
    #[error(
        "{op_type} node {node:?}: the memory of the output overlaps that of input {input:?}; \
         it has to be apart from it, or for the data the same"
    )]
    Overlap {
        /// The node's operator.
        op_type: &'static str,
        /// The node's name.
        node: String,
        /// The input's name in the schema.
        input: &'static str,
    },
    /// A panic was caught. It is a defect of revseq.
    #[error("revseq panicked: {message}; this is a defect of revseq, please report it")]
    Panic {
        /// The panic's message.
        message: String,
    },
}

impl Error {
    /// What a failed call of a host's function amounts to.
    ///
    /// Never `ORT_EP_FAIL`: ONNX Runtime's Python binding takes that as leave
    /// to run everything again on the CPU EP, silently.
    pub(crate) fn code(&self) -> OrtErrorCode {
        match self {
            Self::HostTooOld { .. } => OrtErrorCode::ORT_NOT_IMPLEMENTED,
            #[cfg(feature = "gpu")]
            Self::OpenGpu { .. } => OrtErrorCode::ORT_INVALID_ARGUMENT,
            #[cfg(not(feature = "gpu"))]
            Self::BuiltWithoutGpu { .. } => OrtErrorCode::ORT_NOT_IMPLEMENTED,
            Self::Node(_)
            | Self::ElementType { .. }
            | Self::HostArgument { .. }
            | Self::UnknownOption { .. }
            | Self::OptionValue { .. }
            | Self::Run { .. }
            | Self::Overlap { .. } => OrtErrorCode::ORT_INVALID_ARGUMENT,
            Self::InNode { source, .. } => source.code(),
            Self::Host { .. } | Self::RunOnGpu { .. } | Self::Panic { .. } => {
                OrtErrorCode::ORT_RUNTIME_EXCEPTION
            }
        }
    }

    /// The error with the node that it is of, unless it says that itself.
    #[cold]
    pub(crate) fn of_node(self, node: String) -> Self {
        match self {
            Self::Host { .. } | Self::HostArgument { .. } | Self::Panic { .. } => Self::InNode {
                node,
                source: Box::new(self),
            },
            named => named,
        }
    }

    /// The status that says so to the host, which then owns it.
    #[cold]
    pub(crate) fn into_status(self, host: Host) -> OrtStatusPtr {
        let text = self.to_string().replace('\0', "\\0");
        let text = CString::new(text).unwrap_or_default();
        host.create_status(self.code(), &text)
    }
}
