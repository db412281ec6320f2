//! `revseq completions`.

use std::io::Write;

use anyhow::Result;
use clap::CommandFactory;
use clap_complete::Shell;

use super::Outcome;
use crate::cli::Arguments;

/// Prints a completion script.
pub(crate) fn completions(shell: Shell) -> Result<Outcome> {
    let mut command = Arguments::command();
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut command, "revseq", &mut script);
    std::io::stdout().write_all(&script)?;
    Ok(Outcome::Done)
}
