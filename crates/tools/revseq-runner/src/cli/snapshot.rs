//! The arguments of `revseq snapshot`.

use std::path::PathBuf;

use clap::Args;

use super::{BackendArguments, Format, InputArguments, ToleranceArguments};

pub(super) const EXAMPLES: &str = "\
Inputs are random numbers, the same each time, unless they are given. Of several models, sizes and \
names are for those that have them. The data set is written beside the model: for NAME.onnx into \
NAME.snapshots, for model.onnx into its own folder.

Examples:
  revseq snapshot encoder.onnx --dim batch=2 --dim time=7
  revseq snapshot encoder.onnx --add --input hard.npz --rtol 1e-3
  revseq verify encoder.onnx";

#[derive(Debug, Args)]
pub(crate) struct SnapshotArguments {
    /// ONNX models, and folders that are searched for those without a data set
    #[arg(required = true, value_name = "MODEL")]
    pub(crate) models: Vec<PathBuf>,
    /// Record another data set for a model that has one
    #[arg(long)]
    pub(crate) add: bool,
    /// How to print the list of snapshots
    #[arg(long, value_enum, default_value_t = Format::Text)]
    pub(crate) format: Format,
    #[command(flatten)]
    pub(crate) tolerance: ToleranceArguments,
    #[command(flatten)]
    pub(crate) inputs: InputArguments,
    #[command(flatten)]
    pub(crate) on: BackendArguments,
}
