//! The arguments of `revseq inspect`.

use std::path::PathBuf;

use clap::Args;

use super::{BackendsArguments, Format, ReportArguments, SizeArguments};

pub(super) const EXAMPLES: &str = "\
Without --backend, the model is tried on tract.

Examples:
  revseq inspect model.onnx
  revseq inspect model.onnx --dim batch=4 --dim time=100
  revseq inspect model.onnx --backend tract,ort,ort-plain
      which of them run it, and why not
  revseq inspect model.onnx --format json";

#[derive(Debug, Args)]
pub(crate) struct InspectArguments {
    /// An ONNX model, a folder with a model.onnx, or - for standard input
    pub(crate) model: PathBuf,
    #[command(flatten)]
    pub(crate) sizes: SizeArguments,
    /// How to print it
    #[arg(long, value_enum, default_value_t = Format::Text)]
    pub(crate) format: Format,
    #[command(flatten)]
    pub(crate) report: ReportArguments,
    #[command(flatten)]
    pub(crate) on: BackendsArguments,
}
