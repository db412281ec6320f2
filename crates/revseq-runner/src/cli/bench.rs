//! The arguments of `revseq bench`.

use std::path::PathBuf;

use clap::{Args, ValueEnum};

use super::ReportArguments;
use super::values::threads;

pub(super) const EXAMPLES: &str = "\
Every figure is a multiple of the floor: the time of the faster of two copies of the same bytes, \
measured in turns with everything else. Close other programs first.

Examples:
  revseq bench --quick
      in about two minutes, with noisy figures
  revseq bench --format html -o bench.html
  revseq bench --filter time-major";

/// Format of a benchmark's report.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum BenchFormat {
    /// For people
    Text,
    /// For programs
    Json,
    /// For a browser: a self-contained page with charts
    Html,
    /// For a document
    Markdown,
}

#[derive(Debug, Args)]
pub(crate) struct BenchArguments {
    /// Take few samples, and leave out regimes of over 512 MiB
    #[arg(long)]
    pub(crate) quick: bool,
    /// How to print the report
    #[arg(long, value_enum, default_value_t = BenchFormat::Text)]
    pub(crate) format: BenchFormat,
    #[command(flatten)]
    pub(crate) report: ReportArguments,
    /// Measure only regimes whose name contains this
    #[arg(long, value_name = "SUBSTRING")]
    pub(crate) filter: Option<String>,
    /// List the regimes instead of measuring them
    #[arg(long)]
    pub(crate) list: bool,
    /// The number of threads where threads are measured; by default one per core
    #[arg(long, value_name = "N", value_parser = threads)]
    pub(crate) threads: Option<u16>,
    /// The shared library of the ONNX Runtime to compare with
    ///
    /// By default ORT_DYLIB_PATH, or else the Python package onnxruntime, if there is one.
    #[arg(long, value_name = "PATH")]
    pub(crate) ort_lib: Option<PathBuf>,
}
