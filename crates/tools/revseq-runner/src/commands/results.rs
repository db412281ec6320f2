//! Verdicts of tests and of comparisons, and the results of `revseq verify`.

use std::io::Write;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::Result;
use serde::Serialize;

use crate::backend::ort::Placement;
use crate::escape::printable;
use crate::style::{CYAN, FAILED, GREEN, YELLOW};
use crate::units::Time;

/// What is said of tests that Ctrl-C kept from running.
pub(super) const INTERRUPTED: &str = "interrupted: not all tests were run";

/// The verdict of a test, or of a comparison.
#[derive(Serialize)]
#[serde(tag = "result", rename_all = "lowercase")]
pub(super) enum Verdict {
    Ok {
        /// What is to be said nevertheless.
        #[serde(skip_serializing_if = "Option::is_none")]
        note: Option<String>,
    },
    /// The difference is accepted from now on.
    Updated { reason: String },
    /// There are differences, or an error.
    Failed { reason: String },
    /// The backend lacks a feature, or is not there.
    Skipped { reason: String },
}

impl Verdict {
    /// Prints the end of a line.
    pub(super) fn print(&self, out: &mut dyn Write) -> Result<()> {
        let (style, name) = match self {
            Self::Ok { .. } => (GREEN, "ok"),
            Self::Updated { .. } => (CYAN, "updated"),
            Self::Failed { .. } => (FAILED, "FAILED"),
            Self::Skipped { .. } => (YELLOW, "skipped"),
        };
        let (separator, text) = match self {
            Self::Ok { note: None } => ("", ""),
            Self::Ok { note: Some(note) } => (", but ", note.as_str()),
            Self::Updated { reason } | Self::Failed { reason } | Self::Skipped { reason } => {
                (": ", reason.as_str())
            }
        };
        let text = printable(text);
        writeln!(out, ": {style}{name}{style:#}{separator}{text}")?;
        Ok(())
    }

    pub(super) fn is_failed(&self) -> bool {
        matches!(self, Self::Failed { .. })
    }
}

/// A test that was run.
#[derive(Serialize)]
pub(super) struct Tested {
    pub(super) path: String,
    #[serde(flatten)]
    pub(super) verdict: Verdict,
    #[serde(rename = "seconds")]
    pub(super) time: Time,
    #[serde(skip)]
    pub(super) placements: Vec<Placement>,
}

impl Tested {
    /// A failure without a run.
    pub(super) fn failure(path: impl ToString, reason: String) -> Self {
        Self {
            path: path.to_string(),
            verdict: Verdict::Failed { reason },
            time: Time(Duration::ZERO),
            placements: Vec::new(),
        }
    }
}

/// The results of all tests.
#[derive(Default)]
pub(super) struct Results {
    pub(super) tested: Vec<Tested>,
    /// The models without a snapshot beside those with one.
    pub(super) without_snapshot: Vec<PathBuf>,
    /// Whether Ctrl-C came before all tests were run.
    pub(super) interrupted: bool,
}

/// The numbers of tests with each verdict.
#[derive(Default, Serialize)]
pub(super) struct Counts {
    pub(super) passed: usize,
    pub(super) updated: usize,
    pub(super) failed: usize,
    pub(super) skipped: usize,
}

impl Results {
    pub(super) fn counts(&self) -> Counts {
        let mut counts = Counts::default();
        for tested in &self.tested {
            *match tested.verdict {
                Verdict::Ok { .. } => &mut counts.passed,
                Verdict::Updated { .. } => &mut counts.updated,
                Verdict::Failed { .. } => &mut counts.failed,
                Verdict::Skipped { .. } => &mut counts.skipped,
            } += 1;
        }
        counts
    }
}
