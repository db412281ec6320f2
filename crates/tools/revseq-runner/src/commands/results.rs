//! The results of `revseq verify`.

use std::path::PathBuf;
use std::time::Duration;

use serde::Serialize;

use crate::backend::ort::Placement;
use crate::units::Time;

/// What is said of tests that Ctrl-C kept from running.
pub(super) const INTERRUPTED: &str = "interrupted: not all tests were run";

/// The result of a test.
#[derive(Serialize)]
#[serde(tag = "result", content = "reason", rename_all = "lowercase")]
pub(super) enum Verdict {
    Ok,
    /// The difference, which is accepted from now on.
    Updated(String),
    /// The differences, or the error.
    Failed(String),
    /// The feature that the backend lacks.
    Skipped(String),
}

impl Verdict {
    pub(super) fn name(&self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Updated(_) => "updated",
            Self::Failed(_) => "failed",
            Self::Skipped(_) => "skipped",
        }
    }

    pub(super) fn reason(&self) -> Option<&str> {
        match self {
            Self::Ok => None,
            Self::Updated(why) | Self::Failed(why) | Self::Skipped(why) => Some(why),
        }
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
    pub(super) fn failure(path: String, why: String) -> Self {
        Self {
            path,
            verdict: Verdict::Failed(why),
            time: Time(Duration::ZERO),
            placements: Vec::new(),
        }
    }
}

/// The results of all tests.
pub(super) struct Results {
    pub(super) tested: Vec<Tested>,
    /// The models without a snapshot beside those with one.
    pub(super) without_snapshot: Vec<PathBuf>,
    /// Whether Ctrl-C came before all tests were run.
    pub(super) interrupted: bool,
}
