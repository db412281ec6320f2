//! Reports of tests that cannot run on a machine.
//!
//! The harness shows nothing of a test that passes, so a line on its captured
//! standard error is lost. `cargo xtask test` names a file in `REVSEQ_SKIPS`,
//! prints it at the end, and fails in CI on skips that are not allowed there.

#![forbid(unsafe_code)]

use std::fs::OpenOptions;
use std::io::{self, Write};

/// Says that a test, or a part of it, does not run here, and why.
///
/// # Panics
/// The file that `REVSEQ_SKIPS` names cannot be written: a skip is never lost.
pub fn skip(test: &str, reason: &str) {
    let reason = reason.split_whitespace().collect::<Vec<_>>().join(" ");
    // Not `eprintln!`, which the harness keeps to itself.
    let _ = writeln!(io::stderr(), "skipped: {test}: {reason}");
    let Some(path) = std::env::var_os("REVSEQ_SKIPS") else {
        return;
    };
    // One write a line: other tests append to the same file.
    let line = format!("{test}: {reason}\n");
    OpenOptions::new()
        .append(true)
        .create(true)
        .open(&path)
        .and_then(|mut file| file.write_all(line.as_bytes()))
        .unwrap_or_else(|error| panic!("REVSEQ_SKIPS={}: {error}", path.display()));
}
