//! The arguments of `revseq run`.

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;

use super::values::{NamedFile, NamedFileParser, runs, seconds};
use super::{BackendArguments, Format, InputArguments, OverwriteArguments};

pub(super) const EXAMPLES: &str = "\
Examples:
  revseq run models/lengths/graph_input
      the inputs are those of the folder's first data set
  revseq run model.onnx --input x=x.npy --input lens=lens.npy --output y.npy
  revseq run model.onnx --fill random:7 --dim batch=4 --dim time=100
  revseq run model.onnx --input in.npz --output out.npz
  revseq run model.onnx --fill iota --dim batch=64 --warmup 10 --repeat 100 --profile
      how long a run takes, and which operators take it
  revseq run model.onnx --seconds 5 --profile --trace trace.json
      a timeline for chrome://tracing
  revseq run model.onnx --fill random --backend ort --optimization none --threads 1
  revseq run model.onnx --fill random --lengths clamp --save-test-data .";

#[derive(Debug, Args)]
pub(crate) struct RunArguments {
    /// An ONNX model, a folder with a model.onnx and perhaps a test_data_set_0, or - for standard input
    pub(crate) model: PathBuf,
    /// Write an output to a file, .pb (TensorProto) or .npy, instead of printing outputs
    ///
    /// The name may be left out if the model has one output. An .npz file holds all outputs.
    #[arg(short, long = "output", value_name = "[NAME=]FILE", value_parser = NamedFileParser)]
    pub(crate) outputs: Vec<NamedFile>,
    #[command(flatten)]
    pub(crate) overwrite: OverwriteArguments,
    /// Write inputs and outputs into DIR as the next test_data_set_<n>
    #[arg(long, value_name = "DIR")]
    pub(crate) save_test_data: Option<PathBuf>,
    /// Run N times and print how long a run takes
    #[arg(short, long, allow_negative_numbers = true, value_name = "N", group = "timed", value_parser = runs)]
    pub(crate) repeat: Option<u32>,
    /// Run for S seconds and print how long a run takes
    #[arg(long, allow_negative_numbers = true, value_name = "S", group = "timed", value_parser = seconds)]
    pub(crate) seconds: Option<Duration>,
    /// Run N times first, untimed
    #[arg(
        long,
        allow_negative_numbers = true,
        value_name = "N",
        default_value_t = 0
    )]
    pub(crate) warmup: u32,
    /// Print how the time of a run is spread over the operators, from as many runs as are timed, or as many as
    /// take one to three seconds
    ///
    /// Operators have the names that the backend uses after it has optimised the model. On tract a
    /// loop that runs as a program is one of them.
    #[arg(long)]
    pub(crate) profile: bool,
    /// Write when each node ran, for chrome://tracing or Perfetto
    #[arg(long, value_name = "FILE", requires = "profile")]
    pub(crate) trace: Option<PathBuf>,
    /// How to print the outputs
    #[arg(long, value_enum, default_value_t = Format::Text)]
    pub(crate) format: Format,
    #[command(flatten)]
    pub(crate) inputs: InputArguments,
    #[command(flatten)]
    pub(crate) on: BackendArguments,
}
