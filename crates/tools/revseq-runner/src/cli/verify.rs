//! The arguments of `revseq verify`.

use std::path::PathBuf;

use clap::{Args, ValueEnum};

use super::{BackendArguments, ReportArguments, ToleranceArguments};

pub(super) const EXAMPLES: &str = "\
A test is a folder with a model.onnx and test_data_set_<n>/{input,output}_<i>.pb, as ONNX's backend \
tests are, or a model NAME.onnx with such data sets in NAME.snapshots. Outputs must match bit for \
bit. Only floats that a model computes may differ, by 1e-4 of the expected value plus 1e-5, or by \
the tolerance of the snapshot. A model that the backend does not support is skipped, which fails if \
its data set was recorded on this backend, or if nothing else was tested. With -q, only tests that \
failed have a line, before the counts.

Examples:
  revseq verify models
  revseq verify models --backend ort --format junit -o results.xml
  revseq verify model.onnx --rtol 1e-3 --atol probabilities=1e-4
  revseq verify model.onnx --update
      accept the new outputs";

/// Format of the results of `verify`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum VerifyFormat {
    /// For people
    Text,
    /// For programs
    Json,
    /// For CI servers: JUnit's XML
    Junit,
}

#[derive(Debug, Args)]
pub(crate) struct VerifyArguments {
    /// Models with data sets, or folders to search for tests
    #[arg(required = true, value_name = "PATH")]
    pub(crate) paths: Vec<PathBuf>,
    /// Where outputs differ, accept them as the expected ones
    ///
    /// Where inputs, outputs or their sizes have changed, the data set is recorded anew, with the
    /// inputs that still fit.
    #[arg(long)]
    pub(crate) update: bool,
    /// Fail models without a snapshot
    #[arg(long)]
    pub(crate) require_snapshots: bool,
    /// Accept that all tests were skipped, or some that this backend recorded
    #[arg(long)]
    pub(crate) allow_skips: bool,
    /// How to print the results
    #[arg(long, value_enum, default_value_t = VerifyFormat::Text)]
    pub(crate) format: VerifyFormat,
    #[command(flatten)]
    pub(crate) report: ReportArguments,
    #[command(flatten)]
    pub(crate) tolerance: ToleranceArguments,
    #[command(flatten)]
    pub(crate) on: BackendArguments,
}
