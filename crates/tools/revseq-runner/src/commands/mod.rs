//! The subcommands.

mod bench;
mod compare;
mod completions;
mod data_set;
mod destination;
mod features;
pub(crate) mod inputs;
pub(crate) mod inspect;
mod junit;
mod man;
mod ranges;
mod report;
mod results;
mod rewrite;
mod run;
mod snapshot;
pub(crate) mod tolerance;
mod trial;
mod verify;

use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::Result;
use serde_json::json;

use self::destination::Destination;
use crate::backend::Engine;
use crate::chain;
use crate::cli::{Arguments, Command};
use crate::is_broken_pipe;
use crate::model::{Bindings, Model, walk};
use crate::note::note;
use crate::tensor::{Tensor, Tensors};
use crate::units::count;

/// Outcome of a command that ended without an error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// All is well.
    Done,
    /// A comparison failed.
    Failed,
    /// Ctrl-C stopped it before it was done.
    Interrupted,
}

/// Runs a command. An error is a report in JSON, too, if that goes to standard output.
pub(crate) fn run(arguments: Arguments) -> Result<Outcome> {
    let report = arguments.command.json_report();
    let result = run_command(arguments.command);
    if let (Err(error), Some(name)) = (&result, report)
        && !is_broken_pipe(error)
    {
        Destination::StandardOutput.json(name, json!({ "error": chain(error) }))?;
    }
    result
}

fn run_command(command: Command) -> Result<Outcome> {
    match command {
        Command::Run(arguments) => run::run(&arguments),
        Command::Verify(arguments) => verify::verify(&arguments),
        Command::Snapshot(arguments) => snapshot::snapshot(&arguments),
        Command::Compare(arguments) => compare::compare_models(&arguments),
        Command::Rewrite(arguments) => rewrite::rewrite(&arguments),
        Command::Inspect(arguments) => inspect::inspect(&arguments),
        Command::Bench(arguments) => bench::bench(&arguments),
        Command::Completions { shell } => completions::completions(shell),
        Command::Man { folder } => man::man(&folder),
    }
}

/// Whether an operator of ONNX is a loop.
fn is_loop(operator: &str) -> bool {
    matches!(operator, "Loop" | "Scan")
}

/// The recurrent layers that the provider computes.
const LAYERS: [&str; 6] = [
    "LSTM",
    "GRU",
    "RNN",
    "LinearAttention",
    "com.microsoft::GatedDeltaNet",
    "com.microsoft::LinearAttention",
];

/// Notes how many loops and recurrent layers ONNX Runtime runs itself on some engine, and the command that
/// measures other ways.
fn say_loops<'a>(engines: impl IntoIterator<Item = &'a Engine>, model: &Model) -> Result<()> {
    let mut engines = engines.into_iter();
    if !engines.any(|engine| matches!(engine, Engine::Ort(ort) if !ort.takes_loops())) {
        return Ok(());
    }
    let (mut loops, mut layers) = (0, 0);
    walk::walk(model, &Bindings::new(), |site| {
        let operator = site.operator();
        loops += usize::from(is_loop(&operator));
        layers += usize::from(LAYERS.contains(&&*operator));
    })?;
    let counts = [(loops, "loop"), (layers, "recurrent layer")];
    let counts = counts.into_iter().filter(|(number, _)| *number > 0);
    let counts: Vec<String> = counts.map(|(number, what)| count(number, what)).collect();
    if !counts.is_empty() {
        let (path, counts) = (model.path.display(), counts.join(" and "));
        note(format!(
            "{path}: {counts}: `revseq bench {path}` measures the ways to run them"
        ));
    }
    Ok(())
}

/// Says that the times of this build are those of no user.
fn say_unoptimised() {
    if cfg!(debug_assertions) {
        note("a development build, many times slower: time one built with --release");
    }
}

/// Notes that a value is NaN that tract reads, returns or is compared with; once, whatever runs.
fn say_nan(
    engine: &Engine,
    model: &Model,
    inputs: &Tensors,
    expected: &Tensors,
    outputs: &[Tensor],
) {
    static IS_SAID: AtomicBool = AtomicBool::new(false);
    if !matches!(engine, Engine::Tract(_)) || IS_SAID.load(Ordering::Relaxed) {
        return;
    }
    let names = model.output_names();
    let inputs = inputs.iter().map(|it| ("input", it));
    let expected = expected.iter().map(|it| ("expected output", it));
    let outputs = std::iter::zip(&names, outputs).map(|it| ("output", it));
    let mut all = inputs.chain(expected).chain(outputs);
    if let Some((what, (name, _))) = all.find(|(_, (_, value))| value.has_nan()) {
        IS_SAID.store(true, Ordering::Relaxed);
        note(format!(
            "{}: {what} {name:?} holds NaN, which some operators turn into an ordinary number on tract",
            model.path.display()
        ));
    }
}
