//! The arguments.

mod backend;
mod bench;
mod compare;
mod inputs;
mod inspect;
mod output;
mod rewrite;
mod run;
mod snapshot;
mod values;
mod verify;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use anyhow::{Result, anyhow, bail};
use clap::error::{ContextKind, ContextValue, Error, ErrorKind};
use clap::{ArgMatches, Args, CommandFactory, FromArgMatches, Parser, Subcommand};
use clap_complete::Shell;

pub(crate) use backend::{
    Backend, BackendArguments, BackendsArguments, EngineArguments, Lengths, Optimization,
};
pub(crate) use bench::{BenchArguments, BenchFormat};
pub(crate) use compare::CompareArguments;
pub(crate) use inputs::{InputArguments, SizeArguments, ToleranceArguments, ValueArguments};
pub(crate) use inspect::InspectArguments;
pub(crate) use output::{Format, OverwriteArguments, ReportArguments};
pub(crate) use rewrite::Assumption;
pub(crate) use rewrite::RewriteArguments;
pub(crate) use run::RunArguments;
pub(crate) use snapshot::SnapshotArguments;
pub(crate) use values::NamedFile;
pub(crate) use verify::{VerifyArguments, VerifyFormat};

use crate::file::is_standard;

/// The environment variables that the command reads, in its long help and its manual pages.
pub(crate) const ENVIRONMENT: [(&str, &str); 7] = [
    (
        "ORT_DYLIB_PATH",
        "The shared library of ONNX Runtime, if --ort-lib does not name it",
    ),
    (
        "REVSEQ_EP_LIBRARY",
        "The shared library of the execution provider, if --ep-lib does not name it",
    ),
    (
        "VIRTUAL_ENV",
        "The Python environment in which ONNX Runtime and the provider are looked for",
    ),
    (
        "REVSEQ_SIMD",
        "The highest instruction set that the kernels use: portable, neon, avx2 or avx512",
    ),
    (
        "RAYON_NUM_THREADS",
        "The number of threads, if --threads does not set it",
    ),
    (
        "REVSEQ_BACKTRACE",
        "If it is set, errors of tract have tract's own messages",
    ),
    ("NO_COLOR", "If it is set, nothing is coloured"),
];

fn environment() -> String {
    let lines = ENVIRONMENT.map(|(name, what)| format!("  {name}\n      {what}"));
    format!("{AFTER_HELP}\n\nEnvironment:\n{}", lines.join("\n"))
}

const AFTER_HELP: &str = "\
Exit status: 0 success, 1 a comparison failed, 2 bad usage or bad input.
`revseq help COMMAND` and `revseq COMMAND --help` say more.";

/// Run, verify, inspect and rewrite ONNX models with loops, recurrent layers and ReverseSequence.
#[derive(Debug, Parser)]
#[command(
    name = "revseq",
    version,
    subcommand_required = true,
    arg_required_else_help = true,
    max_term_width = 100,
    propagate_version = true,
    after_help = AFTER_HELP,
    after_long_help = environment()
)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    pub(crate) command: Command,
    #[command(flatten)]
    pub(crate) notes: NoteArguments,
}

/// Parses the arguments of the process; ends it where they ask for help.
///
/// # Errors
/// The arguments are wrong.
pub(crate) fn parse() -> Result<Arguments> {
    // Or a command's version would have the command's name.
    let command = Arguments::command().mut_subcommands(|it| it.display_name("revseq"));
    let matches = command.try_get_matches();
    if let Ok(matches) = &matches {
        refuse_twice(matches)?;
    }
    let parsed = matches.and_then(|matches| Arguments::from_arg_matches(&matches));
    parsed.map_err(|mut error: Error| match error.kind() {
        ErrorKind::DisplayHelp
        | ErrorKind::DisplayVersion
        | ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand => error.exit(),
        _ => {
            // A value that is spelled alike may mean the contrary.
            error.remove(ContextKind::SuggestedValue);
            refuse_far_fetched(&mut error);
            anyhow!(one_line(&error))
        }
    })
}

/// Takes advice out of an error of an unknown option that few who make it can use: another option that begins
/// otherwise, and a file of that name if there is none.
fn refuse_far_fetched(error: &mut Error) {
    let text = |kind| match error.get(kind) {
        Some(ContextValue::String(text)) => text.clone(),
        _ => String::new(),
    };
    let (given, similar) = (
        text(ContextKind::InvalidArg),
        text(ContextKind::SuggestedArg),
    );
    let first = |option: &str| option.trim_start_matches('-').chars().next();
    if first(&given) != first(&similar) {
        error.remove(ContextKind::SuggestedArg);
    }
    if !Path::new(&given).exists() {
        error.remove(ContextKind::Suggested);
    }
}

/// Where a value's name ends.
type Split = fn(&str) -> Option<(&str, &str)>;

/// Options whose values may begin with a name and an =, by their ids. Of a file's path, only the model tells
/// the name, and of sizes, too.
const NAMED: [(&str, &str, Split); 5] = [
    ("fill", "--fill", |it| it.rsplit_once('=')),
    ("rtol", "--rtol", |it| it.rsplit_once('=')),
    ("atol", "--atol", |it| it.rsplit_once('=')),
    ("session_options", "--session-option", |it| {
        it.split_once('=')
    }),
    ("provider_options", "--provider-option", |it| {
        it.split_once('=')
    }),
];

/// Refuses two values for one name, or two without a name, as clap refuses two of an option that takes one.
fn refuse_twice(matches: &ArgMatches) -> Result<()> {
    let Some((_, matches)) = matches.subcommand() else {
        return Ok(());
    };
    for (id, flag, split) in NAMED {
        let mut values = BTreeMap::new();
        let given = matches.try_get_raw(id).ok().flatten();
        for value in given.into_iter().flatten() {
            let value = value.to_string_lossy();
            let name = split(&value).map(|(name, _)| name.to_owned());
            if let Some(before) = values.insert(name, value.clone()) {
                bail!("{flag} {before} and {flag} {value}: expected one of them");
            }
        }
    }
    Ok(())
}

/// An error of the arguments on one line, as all others have; `--help` shows the usage.
fn one_line(error: &Error) -> String {
    let text = error.render().to_string();
    let text = text
        .trim()
        .trim_start_matches("error: ")
        .trim_end_matches('.');
    let parts = text.split("\n\n").map(str::trim);
    let parts = parts.filter(|part| !part.starts_with("Usage: "));
    let parts = parts.map(|part| part.trim_start_matches("For more information, "));
    parts.collect::<Vec<_>>().join("; ")
}

/// Amount of text beside the results.
#[derive(Clone, Copy, Debug, Args)]
pub(crate) struct NoteArguments {
    /// Print results and errors only: neither notes nor progress
    #[arg(
        short,
        long,
        global = true,
        conflicts_with = "verbose",
        display_order = 900
    )]
    pub(crate) quiet: bool,
    /// Say more on standard error: libraries, and how long each step takes
    #[arg(short, long, global = true, display_order = 901)]
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
    /// Show how a model runs: its reversed sequences, loops and recurrent layers
    #[command(after_help = inspect::EXAMPLES)]
    Inspect(InspectArguments),
    /// Rewrite a model: to standard operators, or to cheaper ones
    #[command(after_help = rewrite::EXAMPLES, mut_arg("dims", rewrite::written))]
    Rewrite(RewriteArguments),
    /// Measure which way to run a model is the fastest, and show the line of code for it
    #[command(after_help = bench::EXAMPLES, mut_arg("threads", bench::one_thread))]
    Bench(BenchArguments),
    /// Print a completion script for a shell
    #[command(after_help = "Example:\n  \
        revseq completions bash > ~/.local/share/bash-completion/completions/revseq")]
    Completions {
        /// The shell
        shell: Shell,
    },
    /// Write manual pages
    Man {
        /// The folder to write them into
        folder: PathBuf,
    },
}

impl Command {
    /// The name of the command's report, if it is JSON on standard output.
    pub(crate) fn json_report(&self) -> Option<&'static str> {
        let (name, is_json, report) = match self {
            Self::Run(it) => ("run", it.format == Format::Json, None),
            Self::Snapshot(it) => ("snapshot", it.format == Format::Json, None),
            // Standard output may be the model.
            Self::Rewrite(it) if is_standard(&it.output) => return None,
            Self::Rewrite(it) => ("rewrite", it.format == Format::Json, None),
            Self::Verify(it) => ("verify", it.format == VerifyFormat::Json, Some(&it.report)),
            Self::Compare(it) => ("compare", it.format == Format::Json, Some(&it.report)),
            Self::Inspect(it) => ("inspect", it.format == Format::Json, Some(&it.report)),
            Self::Bench(it) => ("bench", it.format == BenchFormat::Json, Some(&it.report)),
            Self::Completions { .. } | Self::Man { .. } => return None,
        };
        let is_file = report.is_some_and(|it| it.file().is_some());
        (is_json && !is_file).then_some(name)
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use clap::{CommandFactory, Parser};

    use super::Arguments;

    #[test]
    fn the_arguments_are_consistent() {
        super::Arguments::command().debug_assert();
    }

    /// Every command line in the pages and in help is one that the command takes.
    #[test]
    fn documented_command_lines_parse() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../..");
        let docs = root.join("docs").read_dir().expect("a folder");
        let docs = docs.map(|page| page.expect("a page").path());
        let docs = docs.filter(|path| path.extension().is_some_and(|it| it == "md"));
        let readmes =
            ["README.md", "crates/tools/revseq-runner/README.md"].map(|page| root.join(page));
        let blocks = docs.chain(readmes).flat_map(|page| {
            let text = std::fs::read_to_string(page).expect("a page");
            let blocks = text.split("\n```").skip(1).step_by(2);
            blocks.map(str::to_owned).collect::<Vec<_>>()
        });
        let command = Arguments::command();
        let help = command.get_subcommands();
        let help = help.filter_map(|it| Some(it.get_after_help()?.to_string()));
        let mut count = 0;
        for text in blocks.chain(help) {
            let lines = text.lines().map(str::trim);
            for line in lines.filter(|line| line.starts_with("revseq ")) {
                let line = line.split(['#', '|', '>']).next().unwrap_or_default();
                let parsed = Arguments::try_parse_from(line.split_whitespace());
                let error = parsed.err().map(|error| error.to_string());
                assert_eq!(error, None, "{line}");
                count += 1;
            }
        }
        assert!(count > 50, "{count}");
    }
}
