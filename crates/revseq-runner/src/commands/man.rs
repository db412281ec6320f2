//! `revseq man`, for those who package it.

use std::path::Path;

use anyhow::{Context, Result};
use clap::CommandFactory;

use super::Outcome;
use crate::cli::Arguments;

/// Writes a manual page of each command into a folder.
pub(crate) fn man(folder: &Path) -> Result<Outcome> {
    clap_mangen::generate_to(Arguments::command(), folder)
        .with_context(|| format!("cannot write manual pages into {}", folder.display()))?;
    Ok(Outcome::Done)
}
