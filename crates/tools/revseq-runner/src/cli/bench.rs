//! The arguments of `revseq bench`.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Arg, Args, ValueEnum};

use super::values::seconds;
use super::{EngineArguments, InputArguments, ReportArguments, ToleranceArguments};

pub(super) const EXAMPLES: &str = "\
The ways are ONNX Runtime as it is, with each option of this project's provider, with the model \
rewritten as `revseq rewrite --fast` does, and tract. They run in turns, on the same inputs: those of \
the folder's first data set, or random numbers. A time is the median of a run; outputs are compared \
with those of ONNX Runtime as it is. Then a process of its own runs each way once and tells its peak memory, on \
Linux. The exit status is 1 if those of a way differ by more than `revseq \
verify` allows, and 2 if no way runs the model.

Examples:
  revseq bench models/exported/keras_bilstm_masked --threads 1
  revseq bench model.onnx --dim batch=8 --dim time=200 --seconds 20
  revseq bench a.onnx b.onnx --format markdown -o bench.md";

/// One thread by default: those of a session wait for work for a while, in the time of the next one.
pub(super) fn one_thread(threads: Arg) -> Arg {
    threads
        .default_value("1")
        .help("The number of threads of a run")
}

/// Format of the times of a model.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum BenchFormat {
    /// For people
    Text,
    /// For programs
    Json,
    /// For a document
    Markdown,
}

#[derive(Debug, Args)]
pub(crate) struct BenchArguments {
    /// ONNX models, or folders with a model.onnx and perhaps a test_data_set_0
    #[arg(required = true, value_name = "MODEL")]
    pub(crate) models: Vec<PathBuf>,
    /// The seconds for which the ways run in turns, for each model; each runs once at least
    #[arg(long, allow_negative_numbers = true, value_name = "S", value_parser = seconds, default_value = "5")]
    pub(crate) seconds: Duration,
    /// How to print the times
    #[arg(long, value_enum, default_value_t = BenchFormat::Text)]
    pub(crate) format: BenchFormat,
    #[command(flatten)]
    pub(crate) report: ReportArguments,
    #[command(flatten)]
    pub(crate) tolerance: ToleranceArguments,
    #[command(flatten)]
    pub(crate) inputs: InputArguments,
    #[command(flatten)]
    pub(crate) engine: EngineArguments,
}
