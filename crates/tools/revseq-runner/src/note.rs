//! Notes on standard error, beside the results.

use std::fmt::Display;
use std::io::Write;
use std::sync::atomic::{AtomicU8, Ordering};

use crate::cli::NoteArguments;
use crate::escape::printable;

const QUIET: u8 = 0;
const USUAL: u8 = 1;
const VERBOSE: u8 = 2;

static LEVEL: AtomicU8 = AtomicU8::new(USUAL);

/// Sets how much is said from now on.
pub(crate) fn set(arguments: NoteArguments) {
    let level = match (arguments.quiet, arguments.verbose) {
        (true, _) => QUIET,
        (false, false) => USUAL,
        (false, true) => VERBOSE,
    };
    LEVEL.store(level, Ordering::Relaxed);
}

/// Whether only results and errors are printed.
pub(crate) fn is_quiet() -> bool {
    LEVEL.load(Ordering::Relaxed) == QUIET
}

/// Prints a line, unless `--quiet` is given.
pub(crate) fn note(text: impl Display) {
    if !is_quiet() {
        print(&text.to_string());
    }
}

/// Prints a line if `--verbose` is given.
pub(crate) fn detail(text: impl Display) {
    if LEVEL.load(Ordering::Relaxed) == VERBOSE {
        print(&text.to_string());
    }
}

fn print(text: &str) {
    // Ignore a closed standard error.
    let _ = writeln!(anstream::stderr(), "{}", printable(text));
}
