//! The arguments.

mod backend;
mod bench;
mod compare;
mod devices;
mod inputs;
mod inspect;
mod output;
mod rewrite;
mod run;
mod snapshot;
mod values;
mod verify;

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand};
use clap_complete::Shell;

pub(crate) use backend::{
    Backend, BackendArguments, EngineArguments, Lengths, Optimization, OrtArguments,
};
pub(crate) use bench::{BenchArguments, BenchFormat};
pub(crate) use compare::CompareArguments;
pub(crate) use devices::DevicesArguments;
pub(crate) use inputs::{InputArguments, ToleranceArguments};
pub(crate) use inspect::{InspectArguments, InspectFormat};
pub(crate) use output::{Format, OverwriteArguments, ReportArguments};
pub(crate) use rewrite::{Assumption, RewriteArguments, Runtime};
pub(crate) use run::RunArguments;
pub(crate) use snapshot::SnapshotArguments;
pub(crate) use values::NamedFile;
pub(crate) use verify::{VerifyArguments, VerifyFormat};

/// Run, verify, inspect and rewrite ONNX models with ReverseSequence and ReverseSubsequences.
#[derive(Debug, Parser)]
#[command(
    name = "revseq",
    version,
    subcommand_required = true,
    arg_required_else_help = true,
    max_term_width = 100,
    after_help = "Exit status: 0 success, 1 a comparison failed, 2 bad usage or bad input.\n\
        Colours follow the terminal; NO_COLOR turns them off."
)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    pub(crate) command: Command,
    #[command(flatten)]
    pub(crate) notes: NoteArguments,
}

/// How much is said beside the results.
#[derive(Clone, Copy, Debug, Args)]
pub(crate) struct NoteArguments {
    /// Print results and errors only: neither notes nor progress
    #[arg(short, long, global = true, conflicts_with = "verbose")]
    pub(crate) quiet: bool,
    /// Say more on standard error: libraries, and how long each step takes
    #[arg(short, long, global = true)]
    pub(crate) verbose: bool,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Run a model on inputs from files, or on made-up ones
    #[command(after_help = run::EXAMPLES)]
    Run(RunArguments),
    /// Run models on their test data and compare the outputs
    #[command(after_help = verify::EXAMPLES)]
    Verify(VerifyArguments),
    /// Record the outputs of models, for `verify` to compare with
    #[command(after_help = snapshot::EXAMPLES)]
    Snapshot(SnapshotArguments),
    /// Run a model on two backends, or two models, and compare the outputs
    #[command(after_help = compare::EXAMPLES)]
    Compare(CompareArguments),
    /// Show every ReverseSequence and ReverseSubsequences of a model, and how it runs
    #[command(after_help = inspect::EXAMPLES)]
    Inspect(InspectArguments),
    /// Rewrite a model: to standard operators, or to cheaper ones
    #[command(after_help = rewrite::EXAMPLES)]
    Rewrite(RewriteArguments),
    /// Measure the kernels beside a copy of the same bytes
    #[command(after_help = bench::EXAMPLES)]
    Bench(BenchArguments),
    /// Show the CPU, the GPUs and the ONNX Runtime that are found
    Devices(DevicesArguments),
    /// Print a completion script for a shell
    #[command(after_help = "Example:\n  \
        revseq completions bash > ~/.local/share/bash-completion/completions/revseq")]
    Completions {
        /// The shell
        shell: Shell,
    },
    /// Write manual pages
    #[command(hide = true)]
    Man {
        /// The folder to write them into
        folder: PathBuf,
    },
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    #[test]
    fn the_arguments_make_sense() {
        super::Arguments::command().debug_assert();
    }
}
