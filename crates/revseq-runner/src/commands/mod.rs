//! What the command line does.

mod completions;
mod devices;
mod dot;
mod inputs;
mod inspect;
mod report;
mod run;
mod verify;

use std::io::Write;

use anyhow::{Result, ensure};
use serde_json::Value as Json;

use crate::cli::{Arguments, Command};
use crate::model::Bindings;

/// How a command ended, if not with an error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// All is well.
    Done,
    /// A comparison failed.
    Failed,
}

/// Runs a command.
pub(crate) fn run(arguments: Arguments) -> Result<Outcome> {
    match arguments.command {
        Command::Run(arguments) => run::run(&arguments),
        Command::Verify(arguments) => verify::verify(&arguments),
        Command::Inspect(arguments) => inspect::inspect(&arguments),
        Command::Devices(arguments) => devices::devices(&arguments),
        Command::Completions { shell } => completions::completions(shell),
    }
}

/// The values of `--dim`.
fn bindings(dims: &[(String, u64)]) -> Result<Bindings> {
    let mut bindings = Bindings::new();
    for (name, size) in dims {
        ensure!(
            bindings.insert(name.clone(), *size).is_none(),
            "--dim {name}: it is given twice"
        );
    }
    Ok(bindings)
}

/// Prints JSON, indented, to standard output.
fn print_json(json: &Json) -> Result<()> {
    let mut out = std::io::stdout().lock();
    writeln!(out, "{}", serde_json::to_string_pretty(json)?)?;
    Ok(out.flush()?)
}
