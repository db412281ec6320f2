//! `revseq man`, for those who package it.

use std::path::Path;

use anyhow::{Context, Result};
use clap::{Command, CommandFactory};
use clap_mangen::Man;
use clap_mangen::roff::{Roff, bold, roman};

use super::Outcome;
use crate::cli::{Arguments, ENVIRONMENT};
use crate::file;

/// Writes a manual page of each command into a folder.
pub(crate) fn man(folder: &Path) -> Result<Outcome> {
    let mut command = Arguments::command().disable_help_subcommand(true);
    command.build();
    // Its own section has them.
    let all = command.clone().after_long_help(None::<&str>);
    let commands = command.get_subcommands().filter(|it| !it.is_hide_set());
    for command in std::iter::once(&all).chain(commands) {
        write(command, folder)
            .with_context(|| format!("cannot write manual pages into {}", folder.display()))?;
    }
    Ok(Outcome::Done)
}

fn write(command: &Command, folder: &Path) -> Result<()> {
    let page = Man::new(command.clone())
        .source(concat!("revseq ", env!("CARGO_PKG_VERSION")))
        .manual("revseq");
    let mut text = Vec::new();
    page.render(&mut text)?;
    environment().to_writer(&mut text)?;
    file::write(&folder.join(page.get_filename()), &text)
}

/// The section of environment variables.
fn environment() -> Roff {
    let mut section = Roff::new();
    section.control("SH", ["ENVIRONMENT"]);
    for (name, what) in ENVIRONMENT {
        section.control("TP", []);
        section.text([bold(name)]);
        section.text([roman(what)]);
    }
    section
}
