//! The command `revseq`.

#![forbid(unsafe_code)]

use std::process::ExitCode;

fn main() -> ExitCode {
    revseq_runner::main()
}
