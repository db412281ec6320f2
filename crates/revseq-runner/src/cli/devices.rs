//! The arguments of `revseq devices`.

use std::path::PathBuf;

use clap::Args;

use super::{Format, ReportArguments};

#[derive(Debug, Args)]
pub(crate) struct DevicesArguments {
    /// The shared library of ONNX Runtime
    ///
    /// By default ORT_DYLIB_PATH, or else the Python package onnxruntime.
    #[arg(long, value_name = "PATH")]
    pub(crate) ort_lib: Option<PathBuf>,
    /// The shared library of the execution provider
    ///
    /// By default REVSEQ_EP_LIBRARY, or else the library beside revseq or in the Python package
    /// onnxruntime-ep-revseq.
    #[arg(long, value_name = "PATH")]
    pub(crate) ep_lib: Option<PathBuf>,
    /// How to print it
    #[arg(long, value_enum, default_value_t = Format::Text)]
    pub(crate) format: Format,
    #[command(flatten)]
    pub(crate) report: ReportArguments,
}
