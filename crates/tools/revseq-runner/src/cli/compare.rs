//! The arguments of `revseq compare`.

use std::path::PathBuf;

use clap::Args;

use super::{BackendsArguments, Format, InputArguments, ReportArguments, ToleranceArguments};

pub(super) const EXAMPLES: &str = "\
The others are compared with the first backend that runs the model; without --backend these are tract \
and ort, or tract alone for two models. Inputs are those of the folder's first data set, or random \
numbers. The exit status is 1 if an output differs by more than `revseq verify` allows, or if a \
backend refuses a model that another one runs.

Examples:
  revseq compare model.onnx
      tract beside ONNX Runtime with this project's provider
  revseq compare model.onnx --backend ort-plain,ort
  revseq compare model.onnx --values
      which node is the first to differ
  revseq compare model.onnx rewritten.onnx --dim batch=2 --rtol 1e-3";

#[derive(Debug, Args)]
pub(crate) struct CompareArguments {
    /// An ONNX model, or a folder with a model.onnx and perhaps a test_data_set_0
    pub(crate) model: PathBuf,
    /// Another model, with the same inputs and outputs
    pub(crate) other: Option<PathBuf>,
    /// Compare the values between the nodes as well, and name the first node that differs
    ///
    /// Every value of the main graph is made an output, so that backends fuse fewer nodes than
    /// usual. The values within loops and branches are not compared.
    #[arg(long)]
    pub(crate) values: bool,
    /// How to print the results
    #[arg(long, value_enum, default_value_t = Format::Text)]
    pub(crate) format: Format,
    #[command(flatten)]
    pub(crate) report: ReportArguments,
    #[command(flatten)]
    pub(crate) tolerance: ToleranceArguments,
    #[command(flatten)]
    pub(crate) inputs: InputArguments,
    #[command(flatten)]
    pub(crate) on: BackendsArguments,
}
