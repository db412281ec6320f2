//! The command line of revseq: runs, verifies and inspects ONNX models with
//! ReverseSequence and ReverseSubsequences; and for tests in Rust, a model's
//! outputs as a value for snapshots ([`snapshot`]).

#![deny(unsafe_code)]

mod backend;
mod cli;
mod commands;
mod escape;
mod fence;
mod file;
#[doc(hidden)]
pub mod fuzzing;
mod interrupt;
mod memory;
mod model;
mod note;
mod progress;
pub mod snapshot;
mod style;
mod tensor;
mod threads;
mod units;

use std::io::{self, Write};
use std::process::{self, ExitCode};

use anyhow::{Context, Result};
use commands::Outcome;
use revseq_kernels::cpu::SimdLevel;

/// A comparison failed.
const FAILED: u8 = 1;

/// The usage or the input was wrong.
const UNUSABLE: u8 = 2;

/// Ctrl-C ended it early: the shells' convention.
const INTERRUPTED: u8 = 130;

/// The stack of the working thread, in bytes. Models nest; a page of it costs
/// nothing until it is reached.
const STACK: usize = 256 << 20;

/// Runs the command that the process was started with.
pub fn main() -> ExitCode {
    match run() {
        Ok(Outcome::Done) => ExitCode::SUCCESS,
        Ok(Outcome::Failed) => ExitCode::from(FAILED),
        Ok(Outcome::Interrupted) => ExitCode::from(INTERRUPTED),
        // Whoever read the output has read enough.
        Err(error) if is_broken_pipe(&error) => ExitCode::SUCCESS,
        Err(error) => {
            report(&error);
            ExitCode::from(UNUSABLE)
        }
    }
}

fn run() -> Result<Outcome> {
    memory::share();
    let arguments = cli::parse()?;
    note::set(arguments.notes);
    fence::install();
    SimdLevel::from_environment()?;
    threads::check_environment()?;
    interrupt::listen()?;
    let worker = std::thread::Builder::new()
        .stack_size(STACK)
        .spawn(move || commands::run(arguments));
    let worker = worker.with_context(|| {
        format!(
            "cannot start a thread with a stack of {} MiB, which the limits of the process may forbid",
            STACK >> 20
        )
    })?;
    // A panic's message has been printed.
    worker
        .join()
        .unwrap_or_else(|_| process::exit(UNUSABLE.into()))
}

/// Prints an error with its causes on one line.
fn report(error: &anyhow::Error) {
    let (style, text) = (style::FAILED, chain(error));
    // Ignore a closed standard error.
    let _ = writeln!(anstream::stderr(), "{style}error{style:#}: {text}");
}

/// An error and its causes in a printable form: without line breaks, and without causes that the
/// error already includes.
pub(crate) fn chain(error: &anyhow::Error) -> String {
    let mut text = String::new();
    for cause in error.chain() {
        let cause = cause
            .to_string()
            .split_whitespace()
            .collect::<Vec<_>>()
            .join(" ");
        if text.ends_with(&cause) {
            continue;
        }
        if !text.is_empty() {
            text += ": ";
        }
        text += &cause;
    }
    escape::printable(&text).into_owned()
}

pub(crate) fn is_broken_pipe(error: &anyhow::Error) -> bool {
    error
        .chain()
        .filter_map(|cause| cause.downcast_ref::<io::Error>())
        .any(|cause| cause.kind() == io::ErrorKind::BrokenPipe)
}
