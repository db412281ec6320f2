//! The arguments of `revseq rewrite`.

use std::ffi::OsStr;
use std::path::PathBuf;

use clap::builder::{PossibleValue, StringValueParser, TypedValueParser};
use clap::{Arg, Args, ValueEnum};

use super::{
    BackendsArguments, Format, OverwriteArguments, SizeArguments, ToleranceArguments,
    ValueArguments,
};

pub(super) const EXAMPLES: &str = "\
Without --portable, --fast, --for or --pass, only those passes of --fast run that keep outputs the same bit \
for bit. What cannot be proved from the graph is left alone, and the report says why.

Examples:
  revseq rewrite model.onnx -o portable.onnx --portable
      neither ReverseSequence nor ReverseSubsequences: runs wherever ONNX runs
  revseq rewrite model.onnx -o fast.onnx --fast --assume right-padded --check
      loops of Keras become LSTM, GRU and RNN; both models are run and compared
  revseq rewrite model.onnx -o vino.onnx --fast --for openvino
      the same, in the form that OpenVINO computes rightly";

/// Sizes become part of the model.
pub(super) fn written(sizes: Arg) -> Arg {
    let help = "Write a size into the model, in place of a symbolic one";
    let long = "SIZE replaces NAME wherever it is declared; INPUT.NUMBER, as in x.0, is a dimension of an input.";
    sizes.help(help).long_help(format!("{help}\n\n{long}"))
}

/// An assumption that the caller guarantees.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Assumption {
    /// In every mask, the valid steps come first
    RightPadded,
    /// No caller replaces an initializer that is an input as well, as old exporters list all
    ConstantInitializers,
}

#[derive(Debug, Args)]
pub(crate) struct RewriteArguments {
    /// An ONNX model, a folder with a model.onnx and perhaps data sets, or - for standard input
    pub(crate) model: PathBuf,
    /// The file to write; - for standard output, where the report goes to standard error
    #[arg(short, long, value_name = "FILE")]
    pub(crate) output: PathBuf,
    /// Leave no ReverseSequence and no ReverseSubsequences
    #[arg(long)]
    pub(crate) portable: bool,
    /// Make the model cheaper to run
    #[arg(long)]
    pub(crate) fast: bool,
    /// Bring the model into a form that a runtime reads and computes rightly
    #[arg(long = "for", value_name = "RUNTIME", value_parser = RUNTIMES)]
    pub(crate) runtime: Option<String>,
    /// Run this pass, too
    #[arg(long = "pass", value_name = "NAME", value_parser = PASSES)]
    pub(crate) passes: Vec<String>,
    /// Assume properties that no graph can prove
    #[arg(long, value_enum, value_name = "WHAT")]
    pub(crate) assume: Vec<Assumption>,
    /// Run both models and compare their outputs
    ///
    /// Inputs are those of --input and --fill, the data sets in DATA or beside the model, or else made
    /// up. Without --backend, both run on tract and, if it is found, on ort-plain. If outputs differ,
    /// the exit status is 1 and nothing is written.
    #[arg(long, value_name = "DATA", num_args = 0..=1)]
    pub(crate) check: Option<Option<PathBuf>>,
    #[command(flatten)]
    pub(crate) sizes: SizeArguments,
    #[command(flatten)]
    pub(crate) overwrite: OverwriteArguments,
    /// How to print the report
    #[arg(long, value_enum, default_value_t = Format::Text)]
    pub(crate) format: Format,
    #[command(flatten)]
    pub(crate) values: ValueArguments,
    #[command(flatten)]
    pub(crate) tolerance: ToleranceArguments,
    #[command(flatten)]
    pub(crate) on: BackendsArguments,
}

/// Takes any name, which `rewrite` refuses in one line, and completes those that it lists.
#[derive(Clone)]
struct Named(fn() -> Vec<PossibleValue>);

const PASSES: Named = Named(|| {
    let passes = revseq_rewrite::PASSES.iter();
    passes.map(|pass| PossibleValue::new(pass.name)).collect()
});

const RUNTIMES: Named = Named(|| {
    let runtimes = revseq_rewrite::RUNTIMES.iter();
    runtimes
        .map(|runtime| PossibleValue::new(runtime.name).help(runtime.why))
        .collect()
});

impl TypedValueParser for Named {
    type Value = String;

    fn parse_ref(
        &self,
        command: &clap::Command,
        argument: Option<&clap::Arg>,
        value: &OsStr,
    ) -> Result<String, clap::Error> {
        StringValueParser::new().parse_ref(command, argument, value)
    }

    fn possible_values(&self) -> Option<Box<dyn Iterator<Item = PossibleValue> + '_>> {
        Some(Box::new(self.0().into_iter()))
    }
}
