//! The arguments of `revseq inspect`.

use std::path::PathBuf;

use clap::{Args, ValueEnum};

use super::{BackendsArguments, ReportArguments, SizeArguments};

pub(super) const EXAMPLES: &str = "\
Without --backend, the model is tried on tract.

Examples:
  revseq inspect model.onnx
  revseq inspect model.onnx --dim batch=4 --dim time=100
  revseq inspect model.onnx --backend tract,ort,ort-plain
      which of them run it, and why not
  revseq inspect model.onnx --format html -o model.html
  revseq inspect model.onnx --format dot | dot -Tsvg > model.svg";

/// Format of a model's description.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum InspectFormat {
    /// For people
    Text,
    /// For programs
    Json,
    /// For Graphviz
    Dot,
    /// For a browser: a page with a picture of each node and its neighbours
    Html,
}

#[derive(Debug, Args)]
pub(crate) struct InspectArguments {
    /// An ONNX model, a folder with a model.onnx, or - for standard input
    pub(crate) model: PathBuf,
    #[command(flatten)]
    pub(crate) sizes: SizeArguments,
    /// How to print it
    #[arg(long, value_enum, default_value_t = InspectFormat::Text)]
    pub(crate) format: InspectFormat,
    #[command(flatten)]
    pub(crate) report: ReportArguments,
    #[command(flatten)]
    pub(crate) on: BackendsArguments,
}
