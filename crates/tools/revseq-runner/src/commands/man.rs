//! `revseq man`, for those who package it.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result, ensure};
use clap::{Command, CommandFactory};
use clap_mangen::Man;
use clap_mangen::roff::{Roff, bold, roman};

use super::Outcome;
use crate::cli::{Arguments, ENVIRONMENT};
use crate::file;

const VERSION: &str = env!("CARGO_PKG_VERSION");

/// Writes a manual page of each command into a folder; pages of any version that are there are replaced.
pub(crate) fn man(folder: &Path) -> Result<Outcome> {
    let mut command = Arguments::command().disable_help_subcommand(true);
    command.build();
    // Its own section has them.
    let all = command.clone().after_long_help(None::<&str>);
    let commands = command.get_subcommands().filter(|it| !it.is_hide_set());
    let commands = std::iter::once(&all).chain(commands);
    let write = || -> Result<()> {
        let pages = commands.map(Page::new).collect::<Result<Vec<_>>>()?;
        pages
            .iter()
            .try_for_each(|page| page.refuse_another(folder))?;
        let mut pages = pages.iter();
        pages.try_for_each(|page| file::write(&folder.join(&page.name), page.text.as_bytes()))
    };
    write().with_context(|| format!("cannot write manual pages into {}", folder.display()))?;
    Ok(Outcome::Done)
}

/// A manual page.
struct Page {
    /// Its file.
    name: String,
    text: String,
}

impl Page {
    fn new(command: &Command) -> Result<Self> {
        let source = format!("revseq {VERSION}");
        let page = Man::new(command.clone()).source(source).manual("revseq");
        let mut text = Vec::new();
        page.render(&mut text)?;
        environment().to_writer(&mut text)?;
        Ok(Self {
            name: page.get_filename(),
            text: String::from_utf8(text)?,
        })
    }

    /// Refuses a file in its place that does not begin as the page of any version does.
    fn refuse_another(&self, folder: &Path) -> Result<()> {
        let path = folder.join(&self.name);
        let (beginning, _) = self.text.split_once(VERSION).unwrap_or_default();
        let is_page = |bytes: Vec<u8>| bytes.starts_with(beginning.as_bytes());
        ensure!(
            !path.exists() || fs::read(&path).is_ok_and(is_page),
            "{} is there and is no manual page of revseq: move it, or name another folder",
            path.display()
        );
        Ok(())
    }
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
