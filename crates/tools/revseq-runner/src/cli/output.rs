//! The destination and the format of results.

use std::path::{Path, PathBuf};

use clap::{Args, ValueEnum};

use crate::file::is_standard;

/// Format of printed results.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Format {
    /// For people
    Text,
    /// For programs
    Json,
}

/// Destination of a report.
#[derive(Debug, Args)]
pub(crate) struct ReportArguments {
    /// Write the report to a file instead of standard output, which - is
    #[arg(short, long, value_name = "FILE")]
    pub(crate) output: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) overwrite: OverwriteArguments,
}

impl ReportArguments {
    /// The file that it goes to, unless that is standard output.
    pub(crate) fn file(&self) -> Option<&Path> {
        let file = self.output.as_deref();
        file.filter(|path| !is_standard(path))
    }
}

/// Whether files may be replaced.
#[derive(Clone, Copy, Debug, Args)]
pub(crate) struct OverwriteArguments {
    /// Replace existing files
    #[arg(long)]
    pub(crate) overwrite: bool,
}
