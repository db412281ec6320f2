//! The arguments.

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand, ValueEnum};
use clap_complete::Shell;
use revseq_kernels::{Device, LengthsPolicy};

use crate::tensor::compare::Tolerance;
use crate::tensor::fill::Fill;

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
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Run a model on inputs from files, or on made-up ones
    #[command(after_help = RUN_EXAMPLES)]
    Run(RunArguments),
    /// Run models on their test data and compare the outputs
    #[command(after_help = VERIFY_EXAMPLES)]
    Verify(VerifyArguments),
    /// Record the outputs of models, for `verify` to compare with
    #[command(after_help = SNAPSHOT_EXAMPLES)]
    Snapshot(SnapshotArguments),
    /// Run a model on two backends, or two models, and compare the outputs
    #[command(after_help = COMPARE_EXAMPLES)]
    Compare(CompareArguments),
    /// Show every ReverseSequence and ReverseSubsequences of a model, and how it runs
    #[command(after_help = INSPECT_EXAMPLES)]
    Inspect(InspectArguments),
    /// Rewrite a model: to standard operators, or to cheaper ones
    #[command(after_help = REWRITE_EXAMPLES)]
    Rewrite(RewriteArguments),
    /// Measure the kernels beside a copy of the same bytes
    #[command(after_help = BENCH_EXAMPLES)]
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

const RUN_EXAMPLES: &str = "\
Examples:
  revseq run models/lengths/graph_input
      the inputs are those of the folder's first data set
  revseq run model.onnx --input x=x.npy --input lens=lens.npy --output y=y.npy
  revseq run model.onnx --fill random:7 --dim batch=4 --dim time=100
  revseq run model.onnx --inputs in.npz --outputs out.npz
  revseq run model.onnx --fill iota --dim batch=64 --warmup 10 --repeat 100 --profile
      how long a run takes, and which operators take it
  revseq run model.onnx --fill random --backend ort --optimization none --threads 1
  revseq run model.onnx --fill random --lengths clamp --save-test-data .";

const VERIFY_EXAMPLES: &str = "\
A test is a folder with a model.onnx and test_data_set_<n>/{input,output}_<i>.pb, as ONNX's backend
tests are, or a model NAME.onnx with such data sets in NAME.snapshots. Outputs must match bit for
bit. Only floats that a model computes may differ, by 1e-4 of the expected value plus 1e-5, or by what
its snapshot says. What the backend does not support is skipped, which fails if its data set was
recorded on this backend, or if nothing else was tested.

Examples:
  revseq verify models
  revseq verify models --backend ort --format junit > results.xml
  revseq verify model.onnx --rtol 1e-3 --atol probabilities=1e-4
  revseq verify model.onnx --update
      accept the new outputs";

const SNAPSHOT_EXAMPLES: &str = "\
Inputs are random numbers, the same each time, unless they are given. The data set is written beside
the model: for NAME.onnx into NAME.snapshots, for model.onnx into its own folder.

Examples:
  revseq snapshot encoder.onnx --dim batch=2 --dim time=7
  revseq snapshot encoder.onnx --add --inputs hard.npz --rtol 1e-3
  revseq verify encoder.onnx";

const COMPARE_EXAMPLES: &str = "\
Inputs are those of the folder's first data set, or random numbers. The exit status is 1 if an output
differs by more than `revseq verify` allows, or if a backend refuses what another one runs.

Examples:
  revseq compare model.onnx
      tract beside ONNX Runtime with this project's provider
  revseq compare model.onnx --on ort-plain,ort
  revseq compare model.onnx rewritten.onnx --dim batch=2 --rtol 1e-3";

const INSPECT_EXAMPLES: &str = "\
Examples:
  revseq inspect model.onnx
  revseq inspect model.onnx --dim batch=4 --dim time=100
  revseq inspect model.onnx --format html > model.html
  revseq inspect model.onnx --format dot | dot -Tsvg > model.svg";

const REWRITE_EXAMPLES: &str = "\
Without --portable, --fast or --pass, only those passes of --fast run that keep outputs the same bit
for bit. What cannot be proved from the graph is left alone, and the report says why.

Examples:
  revseq rewrite model.onnx -o portable.onnx --portable
      neither ReverseSequence nor ReverseSubsequences: runs wherever ONNX runs
  revseq rewrite model.onnx -o fast.onnx --fast --assume right-padded --check
      loops of Keras become LSTM, GRU and RNN; both models are run and compared";

const BENCH_EXAMPLES: &str = "\
Every figure is a multiple of the floor: the time of the faster of two copies of the same bytes,
measured in turns with everything else. Close other programs first.

Examples:
  revseq bench --quick
      in about two minutes, with noisy figures
  revseq bench --format html -o bench.html
  revseq bench --filter time-major";

/// The runtime of a model.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Backend {
    /// tract, in Rust, on the CPU
    Tract,
    /// ONNX Runtime, 1.24 or later, with this project's execution provider
    Ort,
}

/// Which execution provider ONNX Runtime uses for ReverseSequence and ReverseSubsequences.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Ep {
    /// This project's, without fallback
    Revseq,
    /// None: ONNX Runtime's own kernels
    None,
}

/// A backend; in ONNX Runtime, with the provider or without.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Engine {
    /// tract
    Tract,
    /// ONNX Runtime with this project's execution provider
    Ort,
    /// ONNX Runtime with its own kernels only
    OrtPlain,
}

/// The policy for lengths out of range.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Lengths {
    /// They are an error
    Reject,
    /// They count as 0 or as the whole axis
    Clamp,
}

impl Lengths {
    /// As it is written on the command line, and in the provider's option.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Reject => "reject",
            Self::Clamp => "clamp",
        }
    }

    pub(crate) fn policy(self) -> LengthsPolicy {
        match self {
            Self::Reject => LengthsPolicy::Reject,
            Self::Clamp => LengthsPolicy::Clamp,
        }
    }
}

/// How far ONNX Runtime optimises a model.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Optimization {
    /// Not at all
    None,
    /// Only into ONNX's operators
    Basic,
    /// Also fusions into operators of ONNX Runtime's own
    Extended,
    /// Also layout changes: ONNX Runtime's default
    All,
}

/// A backend, and how it is to run models.
#[derive(Debug, Args)]
pub(crate) struct BackendArguments {
    /// The backend to run the model on
    #[arg(short, long, value_enum, default_value_t = Backend::Tract)]
    pub(crate) backend: Backend,
    /// The execution provider; revseq by default
    #[arg(long, value_enum, value_name = "EP", help_heading = "ONNX Runtime")]
    ep: Option<Ep>,
    #[command(flatten)]
    pub(crate) engine: EngineArguments,
}

impl BackendArguments {
    /// The backend to run models on.
    ///
    /// # Errors
    /// If a provider is requested without ONNX Runtime.
    pub(crate) fn choice(&self) -> anyhow::Result<Engine> {
        match (self.backend, self.ep) {
            (Backend::Tract, None) => Ok(Engine::Tract),
            (Backend::Tract, Some(_)) => anyhow::bail!("--ep needs --backend ort"),
            (Backend::Ort, None | Some(Ep::Revseq)) => Ok(Engine::Ort),
            (Backend::Ort, Some(Ep::None)) => Ok(Engine::OrtPlain),
        }
    }
}

/// How models are run, whatever on.
#[derive(Debug, Default, Args)]
pub(crate) struct EngineArguments {
    /// The device for ReverseSequence and ReverseSubsequences
    ///
    /// All other operators stay on the CPU. gpu is the best hardware adapter, never a software one
    /// such as lavapipe; gpu:INDEX, gpu:NAME and gpu:software choose among those that `revseq
    /// devices` lists. Every node uploads its data and reads the result back: this is for checking,
    /// not for speed.
    #[arg(long, value_name = "cpu|gpu[:ADAPTER]", default_value_t)]
    pub(crate) device: Device,
    /// The policy for lengths out of range
    ///
    /// By default ReverseSequence rejects them, as ONNX Runtime does, and ReverseSubsequences
    /// clamps them, as DirectML's page says.
    #[arg(long, value_enum)]
    pub(crate) lengths: Option<Lengths>,
    /// The number of threads of a run; by default one per core
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1024))]
    pub(crate) threads: Option<u16>,
    #[command(flatten)]
    pub(crate) ort: OrtArguments,
}

/// Where ONNX Runtime is, and its options.
#[derive(Debug, Default, Args)]
#[command(next_help_heading = "ONNX Runtime")]
pub(crate) struct OrtArguments {
    /// The shared library of ONNX Runtime
    ///
    /// By default ORT_DYLIB_PATH, or else the Python package onnxruntime.
    #[arg(long, value_name = "PATH")]
    pub(crate) ort_lib: Option<PathBuf>,
    /// The shared library of the execution provider
    ///
    /// By default REVSEQ_EP_LIBRARY, or else the library beside revseq or in the Python package
    /// onnxruntime-ep-revseq.
    #[arg(long, value_name = "PATH")]
    pub(crate) ep_lib: Option<PathBuf>,
    /// How far ONNX Runtime optimises the model
    #[arg(long, value_enum, value_name = "LEVEL")]
    pub(crate) optimization: Option<Optimization>,
    /// A session configuration entry, such as session.intra_op.allow_spinning=0
    #[arg(long = "session-option", value_name = "KEY=VALUE", value_parser = key_and_value)]
    pub(crate) session_options: Vec<(String, String)>,
    /// An option of the execution provider, such as lengths=clamp
    #[arg(long = "provider-option", value_name = "KEY=VALUE", value_parser = key_and_value)]
    pub(crate) provider_options: Vec<(String, String)>,
}

impl EngineArguments {
    /// The device for our nodes, if it is not the CPU.
    pub(crate) fn gpu(&self) -> Option<&Device> {
        (self.device != Device::Cpu).then_some(&self.device)
    }

    /// Checks that the options apply to one of the backends.
    pub(crate) fn check(&self, engines: &[Engine]) -> anyhow::Result<()> {
        let ort = &self.ort;
        let with_ort = engines.iter().any(|&engine| engine != Engine::Tract);
        let with_provider = engines.contains(&Engine::Ort);
        let for_ort = [
            ("--ort-lib", ort.ort_lib.is_some()),
            ("--ep-lib", ort.ep_lib.is_some()),
            ("--optimization", ort.optimization.is_some()),
            ("--session-option", !ort.session_options.is_empty()),
            ("--provider-option", !ort.provider_options.is_empty()),
        ];
        if let Some((flag, _)) = for_ort.iter().find(|(_, given)| *given && !with_ort) {
            anyhow::bail!("{flag} is for ONNX Runtime: add --backend ort");
        }
        let for_provider = [
            ("--ep-lib", ort.ep_lib.is_some()),
            ("--provider-option", !ort.provider_options.is_empty()),
        ];
        if let Some((flag, _)) = for_provider
            .iter()
            .find(|(_, given)| *given && !with_provider)
        {
            anyhow::bail!("{flag} is for this project's provider, which is not used here");
        }
        let for_ours = [
            ("--device", self.gpu().is_some()),
            ("--lengths", self.lengths.is_some()),
        ];
        let plain = engines.iter().all(|&engine| engine == Engine::OrtPlain);
        if let Some((flag, _)) = for_ours.iter().find(|(_, given)| *given && plain) {
            anyhow::bail!(
                "{flag} is for this project's kernels, but ONNX Runtime's own run here: on the \
                 CPU, and lengths out of range are an error"
            );
        }
        Ok(())
    }
}

/// Where inputs come from.
#[derive(Debug, Args)]
#[command(next_help_heading = "Inputs")]
pub(crate) struct InputArguments {
    /// Feed an input from a file: .pb (TensorProto) or .npy
    #[arg(short, long = "input", value_name = "NAME=FILE", value_parser = name_and_file)]
    pub(crate) inputs: Vec<(String, PathBuf)>,
    /// Feed inputs from the arrays of an .npz file, by their names
    #[arg(long = "inputs", value_name = "FILE.npz")]
    pub(crate) archive: Option<PathBuf>,
    /// Make up the inputs that are not given, or the one named
    ///
    /// iota counts 0, 1, 2, …; random draws floats from -1 to 1 and integers from 0 to 99, the same
    /// for the same seed; ints:0..20 draws integers from 0 to 19. Lengths stay within their axis, and
    /// indices, such as token ids, within the axis that they index.
    #[arg(
        short,
        long,
        value_name = "[NAME=]iota|random[:SEED]|ints:LOW..HIGH|zeros",
        value_parser = name_and_fill
    )]
    pub(crate) fill: Vec<(Option<String>, Fill)>,
    /// Set a symbolic size
    #[arg(short, long = "dim", value_name = "NAME=SIZE", value_parser = name_and_size)]
    pub(crate) dims: Vec<(String, u64)>,
}

impl InputArguments {
    /// The fill of inputs that are not named.
    pub(crate) fn fill(&self) -> Option<Fill> {
        let unnamed = self.fill.iter().rfind(|(name, _)| name.is_none());
        unnamed.map(|(_, fill)| *fill)
    }
}

/// How far outputs may be off.
#[derive(Debug, Default, Args)]
pub(crate) struct ToleranceArguments {
    /// Relative tolerance for floats
    ///
    /// --rtol and --atol together replace the default, for all outputs or for the one named. By
    /// default only floats of models that compute may differ, by 1e-4 of the expected value plus
    /// 1e-5.
    #[arg(long, value_name = "[OUTPUT=]X", value_parser = output_and_tolerance)]
    pub(crate) rtol: Vec<(Option<String>, f64)>,
    /// Absolute tolerance for floats
    #[arg(long, value_name = "[OUTPUT=]X", value_parser = output_and_tolerance)]
    pub(crate) atol: Vec<(Option<String>, f64)>,
}

impl ToleranceArguments {
    /// That of an output, if one is given for it.
    pub(crate) fn of(&self, output: &str) -> Option<Tolerance> {
        let given = |all: &[(Option<String>, f64)]| {
            let named = all
                .iter()
                .rfind(|(name, _)| name.as_deref() == Some(output));
            let found = named.or_else(|| all.iter().rfind(|(name, _)| name.is_none()));
            found.map(|(_, tolerance)| *tolerance)
        };
        match (given(&self.rtol), given(&self.atol)) {
            (None, None) => None,
            (relative, absolute) => Some(Tolerance::Within {
                relative: relative.unwrap_or(0.0),
                absolute: absolute.unwrap_or(0.0),
            }),
        }
    }

    /// The outputs that are named.
    pub(crate) fn names(&self) -> impl Iterator<Item = &str> {
        let all = self.rtol.iter().chain(&self.atol);
        all.filter_map(|(name, _)| name.as_deref())
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
    /// For a browser: a page with a picture of each node and its neighbours
    Html,
}

#[derive(Debug, Args)]
pub(crate) struct RunArguments {
    /// An ONNX model, or a folder with a model.onnx and perhaps a test_data_set_0
    pub(crate) model: PathBuf,
    /// Write an output to a file, .pb (TensorProto) or .npy, instead of printing outputs
    #[arg(short, long = "output", value_name = "NAME=FILE", value_parser = name_and_file)]
    pub(crate) outputs: Vec<(String, PathBuf)>,
    /// Write all outputs to an .npz file instead of printing them
    #[arg(long = "outputs", value_name = "FILE.npz")]
    pub(crate) output_archive: Option<PathBuf>,
    /// Write inputs and outputs into DIR as the next test_data_set_<n>
    #[arg(long, value_name = "DIR")]
    pub(crate) save_test_data: Option<PathBuf>,
    /// Run N times and print how long a run takes
    #[arg(short, long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) repeat: Option<u32>,
    /// Run N times first, untimed
    #[arg(long, value_name = "N", requires = "repeat", default_value_t = 0)]
    pub(crate) warmup: u32,
    /// Print how the time of a run is spread over the operators, from as many runs as --repeat says
    ///
    /// Operators have the names that the backend uses after it has optimised the model. On tract a
    /// loop includes all that is in it.
    #[arg(long)]
    pub(crate) profile: bool,
    /// How to print the outputs
    #[arg(long, value_enum, default_value_t = Format::Text)]
    pub(crate) format: Format,
    #[command(flatten)]
    pub(crate) inputs: InputArguments,
    #[command(flatten, next_help_heading = "Backend")]
    pub(crate) on: BackendArguments,
}

/// How the results of `verify` are printed.
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
    pub(crate) tolerance: ToleranceArguments,
    #[command(flatten)]
    pub(crate) on: BackendArguments,
}

#[derive(Debug, Args)]
pub(crate) struct SnapshotArguments {
    /// ONNX models
    #[arg(required = true, value_name = "MODEL")]
    pub(crate) models: Vec<PathBuf>,
    /// Record another data set for a model that has one
    #[arg(long)]
    pub(crate) add: bool,
    #[command(flatten)]
    pub(crate) tolerance: ToleranceArguments,
    #[command(flatten)]
    pub(crate) inputs: InputArguments,
    #[command(flatten)]
    pub(crate) on: BackendArguments,
}

#[derive(Debug, Args)]
pub(crate) struct CompareArguments {
    /// An ONNX model, or a folder with a model.onnx and perhaps a test_data_set_0
    pub(crate) model: PathBuf,
    /// Another model, with the same inputs and outputs
    pub(crate) other: Option<PathBuf>,
    /// The backends; the others are compared with the first that runs the model
    #[arg(long, value_enum, value_delimiter = ',', value_name = "BACKEND,…")]
    pub(crate) on: Vec<Engine>,
    /// How to print the results
    #[arg(long, value_enum, default_value_t = Format::Text)]
    pub(crate) format: Format,
    #[command(flatten)]
    pub(crate) tolerance: ToleranceArguments,
    #[command(flatten)]
    pub(crate) inputs: InputArguments,
    #[command(flatten)]
    pub(crate) engine: EngineArguments,
}

#[derive(Debug, Args)]
pub(crate) struct InspectArguments {
    /// An ONNX model, or a folder with a model.onnx
    pub(crate) model: PathBuf,
    /// Set a symbolic size
    #[arg(short, long = "dim", value_name = "NAME=SIZE", value_parser = name_and_size)]
    pub(crate) dims: Vec<(String, u64)>,
    #[command(flatten)]
    pub(crate) on: BackendArguments,
    /// How to print it
    #[arg(long, value_enum, default_value_t = InspectFormat::Text)]
    pub(crate) format: InspectFormat,
}

/// An assumption that the caller guarantees.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Assumption {
    /// In every mask, the valid steps come first
    RightPadded,
}

/// A runtime that a model is prepared for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Runtime {
    /// tract, with this project's operators
    Tract,
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
    /// Bring the model into the form that a runtime reads, as `--backend tract` does by itself
    #[arg(long = "for", value_enum, value_name = "RUNTIME")]
    pub(crate) form: Option<Runtime>,
    /// Run this pass, too
    #[arg(long = "pass", value_name = "NAME")]
    pub(crate) passes: Vec<String>,
    /// Assume properties that no graph can prove
    #[arg(long, value_enum, value_name = "WHAT")]
    pub(crate) assume: Vec<Assumption>,
    /// Run both models and compare, on tract and, if it is found, on ONNX Runtime
    ///
    /// Inputs are the data sets in DATA or beside the model, or else made up. If outputs differ, the
    /// exit status is 1 and nothing is written.
    #[arg(long, value_name = "DATA", num_args = 0..=1)]
    pub(crate) check: Option<Option<PathBuf>>,
    /// Set a symbolic size in made-up inputs
    #[arg(short, long = "dim", value_name = "NAME=SIZE", value_parser = name_and_size)]
    pub(crate) dims: Vec<(String, u64)>,
    /// Replace an existing file, even the model itself
    #[arg(long)]
    pub(crate) overwrite: bool,
    /// The shared library of ONNX Runtime, for --check
    ///
    /// By default ORT_DYLIB_PATH, or else the Python package onnxruntime.
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
    /// Write the report to a file instead of standard output
    #[arg(short, long, value_name = "FILE")]
    pub(crate) output: Option<PathBuf>,
    /// Measure only regimes whose name contains this
    #[arg(long, value_name = "SUBSTRING")]
    pub(crate) filter: Option<String>,
    /// The number of threads where threads are measured; by default one per core
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1024))]
    pub(crate) threads: Option<u16>,
    /// The shared library of the ONNX Runtime to compare with
    ///
    /// By default ORT_DYLIB_PATH, or else the Python package onnxruntime, if there is one.
    #[arg(long, value_name = "PATH")]
    pub(crate) ort_lib: Option<PathBuf>,
}

#[derive(Debug, Args)]
pub(crate) struct DevicesArguments {
    /// The shared library of ONNX Runtime
    ///
    /// By default ORT_DYLIB_PATH, or else the Python package onnxruntime.
    #[arg(long, value_name = "PATH")]
    pub(crate) ort_lib: Option<PathBuf>,
    /// The shared library of the execution provider
    ///
    /// By default REVSEQ_EP_LIBRARY, or else the library beside revseq or in the Python package
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

fn key_and_value(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((key, value)) if !key.is_empty() => Ok((key.to_owned(), value.to_owned())),
        _ => Err("expected KEY=VALUE".to_owned()),
    }
}

fn output_and_tolerance(text: &str) -> Result<(Option<String>, f64), String> {
    let (name, tolerance) = match text.rsplit_once('=') {
        Some((name, tolerance)) => (Some(name.to_owned()), tolerance),
        None => (None, text),
    };
    let tolerance = tolerance
        .parse::<f64>()
        .ok()
        .filter(|tolerance| *tolerance >= 0.0 && tolerance.is_finite())
        .ok_or_else(|| format!("{tolerance:?} is not a tolerance, such as 1e-4"))?;
    Ok((name, tolerance))
}

fn name_and_fill(text: &str) -> Result<(Option<String>, Fill), String> {
    match text.rsplit_once('=') {
        Some((name, fill)) if !name.is_empty() => Ok((Some(name.to_owned()), fill.parse()?)),
        _ => Ok((None, text.parse()?)),
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
