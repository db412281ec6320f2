//! The arguments.

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand, ValueEnum};
use clap_complete::Shell;
use revseq_kernels::Device;

use crate::tensor::fill::Fill;

/// Run, verify and inspect ONNX models with ReverseSequence and ReverseSubsequences.
#[derive(Debug, Parser)]
#[command(
    name = "revseq",
    version,
    subcommand_required = true,
    arg_required_else_help = true,
    max_term_width = 100,
    after_help = "Exit status: 0 done, 1 a comparison failed, 2 bad usage or bad input.\n\
        Colours follow the terminal; NO_COLOR turns them off."
)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Run a model on inputs from files, or on made-up ones
    #[command(after_help = RUN_EXAMPLES)]
    Run(RunArguments),
    /// Run models on their test data and compare the outputs
    #[command(after_help = VERIFY_EXAMPLES)]
    Verify(VerifyArguments),
    /// Show every ReverseSequence and ReverseSubsequences of a model, and how it runs
    #[command(after_help = INSPECT_EXAMPLES)]
    Inspect(InspectArguments),
    /// Rewrite a model: to standard operators, or to cheaper ones
    #[command(after_help = REWRITE_EXAMPLES)]
    Rewrite(RewriteArguments),
    /// Measure the kernels beside a copy of the same bytes
    #[command(after_help = BENCH_EXAMPLES)]
    Bench(BenchArguments),
    /// Show what the kernels run on, and the ONNX Runtime that is found
    Devices(DevicesArguments),
    /// Print a completion script for a shell
    #[command(after_help = "Example:\n  \
        revseq completions bash > ~/.local/share/bash-completion/completions/revseq")]
    Completions {
        /// The shell
        shell: Shell,
    },
}

const RUN_EXAMPLES: &str = "\
Examples:
  revseq run models/lengths/graph_input
      the inputs are those of the folder's first data set
  revseq run model.onnx --input x=x.npy --input lens=lens.npy --output y=y.npy
  revseq run model.onnx --fill random:7 --dim batch=4 --dim time=100
  revseq run model.onnx --fill iota --dim batch=64 --repeat 100
      how long a run takes";

const VERIFY_EXAMPLES: &str = "\
A folder is a test if it has a model.onnx and test_data_set_<n>/{input,output}_<i>.pb, as ONNX's
backend tests have. Outputs must be the expected ones bit for bit. Only where a model computes,
floats may be off by 1e-4 of the expected value plus 1e-5. What the backend lacks is skipped.

Examples:
  revseq verify models
  revseq verify models/types models/shapes/default_axes";

const INSPECT_EXAMPLES: &str = "\
Examples:
  revseq inspect model.onnx
  revseq inspect model.onnx --dim batch=4 --dim time=100
  revseq inspect model.onnx --format dot | dot -Tsvg > model.svg";

const REWRITE_EXAMPLES: &str = "\
Without --portable, --fast and --pass, the passes of --fast are taken whose outputs are equal bit
for bit. What cannot be proved from the graph is left alone, and the report says why.

Examples:
  revseq rewrite model.onnx -o portable.onnx --portable
      neither ReverseSequence nor ReverseSubsequences: runs wherever ONNX runs
  revseq rewrite model.onnx -o fast.onnx --fast --assume right-padded --check
      loops of Keras become LSTM, GRU and RNN; both models are run and compared";

const BENCH_EXAMPLES: &str = "\
Every figure is a multiple of the floor: the time of the faster of two copies of the same bytes,
taken in the same run, in turns with everything else. Close what else is running.

Examples:
  revseq bench --quick
      within a minute, with figures that scatter
  revseq bench --format html -o bench.html
  revseq bench --filter time-major";

/// What a model runs on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Backend {
    /// tract, in Rust, on the CPU
    Tract,
    /// ONNX Runtime, 1.24 or later, with this project's execution provider
    Ort,
}

impl Backend {
    /// As it is written on the command line.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Tract => "tract",
            Self::Ort => "ort",
        }
    }
}

/// Which execution provider ONNX Runtime uses for ReverseSequence and ReverseSubsequences.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Ep {
    /// This project's, and no other
    Revseq,
    /// None: ONNX Runtime's own kernels
    None,
}

/// What the nodes of ours run on.
#[derive(Debug, Args)]
pub(crate) struct DeviceArgument {
    /// What ReverseSequence and ReverseSubsequences run on
    ///
    /// All other operators stay on the CPU. gpu is the best hardware and never an adapter that is
    /// software, such as lavapipe; gpu:INDEX, gpu:NAME and gpu:software are any that `revseq
    /// devices` lists. Every node uploads its data and reads the result back: this is for checking,
    /// not for speed.
    #[arg(long, value_name = "cpu|gpu[:ADAPTER]", default_value_t)]
    pub(crate) device: Device,
}

/// Where ONNX Runtime is, and what it uses.
#[derive(Debug, Default, Args)]
#[command(next_help_heading = "ONNX Runtime")]
pub(crate) struct OrtArguments {
    /// The shared library of ONNX Runtime
    ///
    /// Without it: ORT_DYLIB_PATH, or else the Python package onnxruntime.
    #[arg(long, value_name = "PATH")]
    pub(crate) ort_lib: Option<PathBuf>,
    /// The shared library of the execution provider
    ///
    /// Without it: REVSEQ_EP_LIBRARY, or else the library beside revseq or in the Python package
    /// onnxruntime-ep-revseq.
    #[arg(long, value_name = "PATH")]
    pub(crate) ep_lib: Option<PathBuf>,
    /// The execution provider: revseq unless given
    #[arg(long, value_enum, value_name = "EP")]
    ep: Option<Ep>,
}

impl OrtArguments {
    pub(crate) fn ep(&self) -> Ep {
        self.ep.unwrap_or(Ep::Revseq)
    }

    /// Checks that they are given for the backend that they are about.
    pub(crate) fn check(&self, backend: Backend) -> anyhow::Result<()> {
        let given = [
            ("--ort-lib", self.ort_lib.is_some()),
            ("--ep-lib", self.ep_lib.is_some()),
            ("--ep", self.ep.is_some()),
        ];
        if let (Backend::Tract, Some((flag, _))) =
            (backend, given.iter().find(|(_, is_given)| *is_given))
        {
            anyhow::bail!("{flag} is for --backend ort");
        }
        Ok(())
    }
}

/// How results are printed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Format {
    /// For people
    Text,
    /// For programs
    Json,
}

/// How a model is shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum InspectFormat {
    /// For people
    Text,
    /// For programs
    Json,
    /// For Graphviz
    Dot,
}

#[derive(Debug, Args)]
pub(crate) struct RunArguments {
    /// An ONNX model, or a folder with a model.onnx and perhaps a test_data_set_0
    pub(crate) model: PathBuf,
    /// Feed an input from a file: .pb (TensorProto) or .npy
    #[arg(short, long = "input", value_name = "NAME=FILE", value_parser = name_and_file)]
    pub(crate) inputs: Vec<(String, PathBuf)>,
    /// Write an output to a file, .pb (TensorProto) or .npy, instead of printing outputs
    #[arg(short, long = "output", value_name = "NAME=FILE", value_parser = name_and_file)]
    pub(crate) outputs: Vec<(String, PathBuf)>,
    /// Make up the inputs that no --input gives
    ///
    /// iota counts 0, 1, 2, …; random draws floats from -1 to 1 and integers from 0 to 99, always
    /// the same for a seed. Lengths stay within their sequence.
    #[arg(short, long, value_name = "iota|random[:SEED]|zeros")]
    pub(crate) fill: Option<Fill>,
    /// Give a symbolic size its value
    #[arg(short, long = "dim", value_name = "NAME=SIZE", value_parser = name_and_size)]
    pub(crate) dims: Vec<(String, u64)>,
    /// What to run the model on
    #[arg(short, long, value_enum, default_value_t = Backend::Tract)]
    pub(crate) backend: Backend,
    #[command(flatten)]
    pub(crate) on: DeviceArgument,
    #[command(flatten)]
    pub(crate) ort: OrtArguments,
    /// Run N times and print how long a run takes
    #[arg(short, long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) repeat: Option<u32>,
    /// How to print the outputs
    #[arg(long, value_enum, default_value_t = Format::Text)]
    pub(crate) format: Format,
}

#[derive(Debug, Args)]
pub(crate) struct VerifyArguments {
    /// Folders, below which every backend test is run
    #[arg(required = true, value_name = "PATH")]
    pub(crate) paths: Vec<PathBuf>,
    /// What to run the models on
    #[arg(short, long, value_enum, default_value_t = Backend::Tract)]
    pub(crate) backend: Backend,
    #[command(flatten)]
    pub(crate) on: DeviceArgument,
    #[command(flatten)]
    pub(crate) ort: OrtArguments,
    /// How to print the results
    #[arg(long, value_enum, default_value_t = Format::Text)]
    pub(crate) format: Format,
}

#[derive(Debug, Args)]
pub(crate) struct InspectArguments {
    /// An ONNX model, or a folder with a model.onnx
    pub(crate) model: PathBuf,
    /// Give a symbolic size its value
    #[arg(short, long = "dim", value_name = "NAME=SIZE", value_parser = name_and_size)]
    pub(crate) dims: Vec<(String, u64)>,
    /// What the model is to run on: with ort, show which provider runs each node
    #[arg(short, long, value_enum, default_value_t = Backend::Tract)]
    pub(crate) backend: Backend,
    #[command(flatten)]
    pub(crate) ort: OrtArguments,
    /// How to print it
    #[arg(long, value_enum, default_value_t = InspectFormat::Text)]
    pub(crate) format: InspectFormat,
}

/// What the caller vouches for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Assumption {
    /// In every mask, the steps that count come first
    RightPadded,
}

#[derive(Debug, Args)]
pub(crate) struct RewriteArguments {
    /// An ONNX model, or a folder with a model.onnx and perhaps data sets
    pub(crate) model: PathBuf,
    /// The file to write
    #[arg(short, long, value_name = "OUT")]
    pub(crate) output: PathBuf,
    /// Leave no ReverseSequence and no ReverseSubsequences
    #[arg(long)]
    pub(crate) portable: bool,
    /// Make the model cheaper to run
    #[arg(long)]
    pub(crate) fast: bool,
    /// Take this pass, besides
    #[arg(long = "pass", value_name = "NAME")]
    pub(crate) passes: Vec<String>,
    /// What no graph can prove
    #[arg(long, value_enum, value_name = "WHAT")]
    pub(crate) assume: Vec<Assumption>,
    /// Run both models and compare, on tract and on the ONNX Runtime that is found
    ///
    /// On the data sets in DATA or beside the model, or else on made-up inputs. A difference is
    /// exit status 1, and nothing is written.
    #[arg(long, value_name = "DATA", num_args = 0..=1)]
    pub(crate) check: Option<Option<PathBuf>>,
    /// Give a symbolic size its value in made-up inputs
    #[arg(short, long = "dim", value_name = "NAME=SIZE", value_parser = name_and_size)]
    pub(crate) dims: Vec<(String, u64)>,
    /// Write even over a file that is there, such as the model itself
    #[arg(long)]
    pub(crate) overwrite: bool,
    /// The shared library of ONNX Runtime, for --check
    ///
    /// Without it: ORT_DYLIB_PATH, or else the Python package onnxruntime.
    #[arg(long, value_name = "PATH")]
    pub(crate) ort_lib: Option<PathBuf>,
    /// How to print the report
    #[arg(long, value_enum, default_value_t = Format::Text)]
    pub(crate) format: Format,
}

/// How a benchmark's report is printed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum BenchFormat {
    /// For people
    Text,
    /// For programs
    Json,
    /// For a browser: one page with charts
    Html,
    /// For a document
    Markdown,
}

#[derive(Debug, Args)]
pub(crate) struct BenchArguments {
    /// Take few samples, and leave out what needs over 512 MiB
    #[arg(long)]
    pub(crate) quick: bool,
    /// How to print the report
    #[arg(long, value_enum, default_value_t = BenchFormat::Text)]
    pub(crate) format: BenchFormat,
    /// Write the report to a file instead of standard output
    #[arg(short, long, value_name = "FILE")]
    pub(crate) output: Option<PathBuf>,
    /// Measure only what has this in its name
    #[arg(long, value_name = "SUBSTRING")]
    pub(crate) filter: Option<String>,
    /// How many threads to use where threads are measured: as many as there are cores, unless given
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1024))]
    pub(crate) threads: Option<u16>,
    /// The shared library of the ONNX Runtime to compare with
    ///
    /// Without it: ORT_DYLIB_PATH, or else the Python package onnxruntime, if there is one.
    #[arg(long, value_name = "PATH")]
    pub(crate) ort_lib: Option<PathBuf>,
}

#[derive(Debug, Args)]
pub(crate) struct DevicesArguments {
    /// The shared library of ONNX Runtime
    ///
    /// Without it: ORT_DYLIB_PATH, or else the Python package onnxruntime.
    #[arg(long, value_name = "PATH")]
    pub(crate) ort_lib: Option<PathBuf>,
    /// The shared library of the execution provider
    ///
    /// Without it: REVSEQ_EP_LIBRARY, or else the library beside revseq or in the Python package
    /// onnxruntime-ep-revseq.
    #[arg(long, value_name = "PATH")]
    pub(crate) ep_lib: Option<PathBuf>,
    /// How to print it
    #[arg(long, value_enum, default_value_t = Format::Text)]
    pub(crate) format: Format,
}

fn name_and_file(text: &str) -> Result<(String, PathBuf), String> {
    match text.split_once('=') {
        Some((name, file)) if !name.is_empty() && !file.is_empty() => {
            Ok((name.to_owned(), file.into()))
        }
        _ => Err("expected NAME=FILE".to_owned()),
    }
}

fn name_and_size(text: &str) -> Result<(String, u64), String> {
    let (name, size) = text.rsplit_once('=').ok_or("expected NAME=SIZE")?;
    if name.is_empty() {
        return Err("expected NAME=SIZE".to_owned());
    }
    let size = size
        .parse()
        .ok()
        .filter(|&size| i64::try_from(size).is_ok())
        .ok_or_else(|| format!("{size:?} is not a size"))?;
    Ok((name.to_owned(), size))
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    #[test]
    fn the_arguments_make_sense() {
        super::Arguments::command().debug_assert();
    }
}
