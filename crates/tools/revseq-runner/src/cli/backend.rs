//! The backends, and how they run models.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, ValueEnum};
use revseq_kernels::LengthsPolicy;

use super::values::{key_and_value, seconds, threads};
use crate::note::note;

/// A runtime of models.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Backend {
    /// tract, in Rust, on the CPU
    Tract,
    /// ONNX Runtime, 1.24 or later, with this project's execution provider
    Ort,
    /// ONNX Runtime with its own kernels only
    OrtPlain,
}

impl Backend {
    /// The name on the command line.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Tract => "tract",
            Self::Ort => "ort",
            Self::OrtPlain => "ort-plain",
        }
    }
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
    /// The name on the command line, and in the provider's option.
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

/// Level of ONNX Runtime's optimisations of a model.
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
#[command(next_help_heading = "Backend")]
pub(crate) struct BackendArguments {
    /// The backend to run the model on
    #[arg(short, long, value_enum, default_value_t = Backend::Tract)]
    pub(crate) backend: Backend,
    #[command(flatten)]
    pub(crate) engine: EngineArguments,
}

/// Several backends, and how they are to run models.
#[derive(Debug, Args)]
#[command(next_help_heading = "Backend")]
pub(crate) struct BackendsArguments {
    /// The backends to run the model on
    #[arg(
        short,
        long = "backend",
        value_enum,
        value_delimiter = ',',
        value_name = "BACKEND,…"
    )]
    pub(crate) backends: Vec<Backend>,
    #[command(flatten)]
    pub(crate) engine: EngineArguments,
}

impl BackendsArguments {
    /// The backends, or those that a command takes by default.
    pub(crate) fn or<'a>(&'a self, default: &'a [Backend]) -> &'a [Backend] {
        match self.backends.as_slice() {
            [] => default,
            given => given,
        }
    }
}

/// Options for running models, on any backend.
#[derive(Debug, Default, Args)]
pub(crate) struct EngineArguments {
    /// The policy for lengths out of range
    ///
    /// By default ReverseSequence rejects them, as ONNX Runtime does, and ReverseSubsequences
    /// clamps them, as DirectML's page says. On tract, LSTM, GRU and RNN follow it as well, and
    /// reject them by default.
    #[arg(long, value_enum)]
    pub(crate) lengths: Option<Lengths>,
    /// The number of threads of a run; by default one per core
    #[arg(long, allow_negative_numbers = true, value_name = "N", value_parser = threads)]
    pub(crate) threads: Option<u16>,
    /// The most seconds that a run of the model may take
    ///
    /// A run that takes longer is an error. It ends before the next node; on tract also before the
    /// next step of a loop, and within recurrent layers.
    #[arg(long, allow_negative_numbers = true, value_name = "S", value_parser = seconds)]
    pub(crate) timeout: Option<Duration>,
    #[command(flatten)]
    pub(crate) ort: OrtArguments,
}

/// The libraries of ONNX Runtime and of the provider, and ONNX Runtime's options.
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
    /// Checks that the options apply to one of the backends.
    pub(crate) fn check(&self, backends: &[Backend]) -> anyhow::Result<()> {
        let with_ort = backends.iter().any(|&backend| backend != Backend::Tract);
        let with_provider = backends.contains(&Backend::Ort);
        let with_ours = backends.iter().any(|&backend| backend != Backend::OrtPlain);
        for (flag, scope) in self.given() {
            match scope {
                Scope::Ort | Scope::Provider if !with_ort => {
                    anyhow::bail!("{flag} is for ONNX Runtime: add --backend ort")
                }
                Scope::Provider if !with_provider => {
                    anyhow::bail!("{flag} is for this project's provider: add --backend ort")
                }
                Scope::Ours if !with_ours => anyhow::bail!(
                    "{flag} is for this project's kernels; ort-plain runs ONNX Runtime's own, on \
                     the CPU, which reject lengths out of range"
                ),
                _ => {}
            }
        }
        for (key, value) in &self.ort.provider_options {
            check_provider_option(key, value)?;
        }
        let is_given = |key: &str| self.ort.provider_options.iter().any(|(it, _)| it == key);
        anyhow::ensure!(
            !is_given("assume") || is_given("loops"),
            "--provider-option assume: it is about loops that become layers: add --provider-option \
             loops=layers"
        );
        for (key, _) in &self.ort.session_options {
            if !SESSION_OPTIONS.iter().any(|prefix| key.starts_with(prefix)) {
                note(format!(
                    "--session-option {key}: ONNX Runtime ignores keys that it does not know; those \
                     that it knows begin with {}",
                    SESSION_OPTIONS.join(", ")
                ));
            }
        }
        Ok(())
    }

    /// The options that are given, with their scopes.
    pub(crate) fn given(&self) -> impl Iterator<Item = (&'static str, Scope)> {
        let ort = &self.ort;
        let all = [
            ("--ort-lib", Scope::Ort, ort.ort_lib.is_some()),
            ("--ep-lib", Scope::Provider, ort.ep_lib.is_some()),
            ("--optimization", Scope::Ort, ort.optimization.is_some()),
            (
                "--session-option",
                Scope::Ort,
                !ort.session_options.is_empty(),
            ),
            (
                "--provider-option",
                Scope::Provider,
                !ort.provider_options.is_empty(),
            ),
            ("--lengths", Scope::Ours, self.lengths.is_some()),
            ("--threads", Scope::All, self.threads.is_some()),
            ("--timeout", Scope::All, self.timeout.is_some()),
        ];
        let given = all.into_iter().filter(|(_, _, given)| *given);
        given.map(|(flag, scope, _)| (flag, scope))
    }
}

/// Prefixes of the keys of ONNX Runtime's session (onnxruntime_session_options_config_keys.h).
const SESSION_OPTIONS: [&str; 4] = ["session.", "optimization.", "ep.", "mlas."];

/// Checks an option of the provider before ONNX Runtime does, whose errors name its source files.
fn check_provider_option(key: &str, value: &str) -> anyhow::Result<()> {
    let expected: &[&str] = match key {
        "lengths" => &["reject", "clamp"],
        "layers" => &["on", "off"],
        "loops" => &["keep", "layers", "steps"],
        "assume" => &["right-padded"],
        _ => anyhow::bail!(
            "--provider-option {key}: the provider has no such option; it has lengths, layers, loops \
             and assume"
        ),
    };
    anyhow::ensure!(
        expected.contains(&value),
        "--provider-option {key}: it is {value:?}, expected {}",
        expected.join(" or ")
    );
    Ok(())
}

/// The backends that an option applies to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Scope {
    All,
    Ort,
    /// This project's provider in ONNX Runtime.
    Provider,
    /// This project's kernels, in whichever runtime.
    Ours,
}
