//! Destinations of reports: standard output, standard error, or a file, which is written whole.

use std::io::Write;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use serde::Serialize;
use serde_json::{Value as Json, json};

use crate::cli::ReportArguments;
use crate::escape;
use crate::file::{self, NewFile};

/// The version of the JSON that reports hold, for each kind of report.
const SCHEMA: u32 = 1;

/// The context of an error.
const STANDARD_OUTPUT: &str = "cannot write to standard output";

/// The destination of a report.
pub(super) enum Destination {
    StandardOutput,
    /// Standard error, for commands whose standard output is something else.
    StandardError,
    File {
        path: PathBuf,
        file: NewFile,
    },
}

impl Destination {
    /// The destination that the arguments name. Nothing is lost later if it cannot be written.
    ///
    /// # Errors
    /// The file exists and is not to be overwritten, or no file can be made there.
    pub(super) fn open(arguments: &ReportArguments) -> Result<Self> {
        let Some(path) = arguments.file() else {
            return Ok(Self::StandardOutput);
        };
        file::refuse_existing("--output", path, arguments.overwrite.overwrite)?;
        Ok(Self::File {
            file: NewFile::create(path).with_context(|| cannot_write(path))?,
            path: path.to_owned(),
        })
    }

    /// Writes a part of the report; styles are kept where they are shown.
    pub(super) fn text(&mut self, print: impl FnOnce(&mut dyn Write) -> Result<()>) -> Result<()> {
        match self {
            Self::StandardOutput => {
                let mut out = anstream::stdout().lock();
                let printed = print(&mut out).and_then(|()| Ok(out.flush()?));
                printed.context(STANDARD_OUTPUT)
            }
            Self::StandardError => print(&mut anstream::stderr().lock()),
            Self::File { path, file } => {
                let mut text = anstream::StripStream::new(Vec::new());
                print(&mut text)?;
                file.write_all(&text.into_inner())
                    .with_context(|| cannot_write(path))
            }
        }
    }

    /// Writes a part of the report as it is.
    pub(super) fn bytes(&mut self, bytes: &[u8]) -> Result<()> {
        match self {
            Self::StandardOutput => {
                let mut out = std::io::stdout().lock();
                let written = out.write_all(bytes).and_then(|()| out.flush());
                written.context(STANDARD_OUTPUT)
            }
            Self::StandardError => Ok(std::io::stderr().write_all(bytes)?),
            Self::File { path, file } => file.write_all(bytes).with_context(|| cannot_write(path)),
        }
    }

    /// Writes the report of a command as JSON, indented, with the name of its schema.
    pub(super) fn json(&mut self, command: &str, report: impl Serialize) -> Result<()> {
        let mut all = json!({ "schema": format!("revseq-{command}-{SCHEMA}") });
        let report = serde_json::to_value(report)?;
        if let (Json::Object(all), Json::Object(report)) = (&mut all, report) {
            all.extend(report);
        }
        let text = serde_json::to_string_pretty(&all)? + "\n";
        self.bytes(escape::json(&text).as_bytes())
    }

    /// Completes a file and moves it to its place.
    pub(super) fn complete(self) -> Result<()> {
        match self {
            Self::File { path, file } => file.complete().with_context(|| cannot_write(&path)),
            _ => Ok(()),
        }
    }
}

fn cannot_write(path: &Path) -> String {
    format!("--output {}: cannot write it", path.display())
}
