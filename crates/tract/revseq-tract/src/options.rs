//! Options for the nodes of a model that the model itself does not contain.

use std::time::Duration;

use revseq_kernels::LengthsPolicy;
use revseq_tract_operators::{Limits, template};
use tract_onnx::model::ParsingContext;
use tract_onnx::prelude::*;

use crate::threads::Threads;

/// Options for the nodes of ONNX models, loops included.
///
/// [`Session`](crate::Session) and [`model_for_path`](Self::model_for_path) take them. tract registers plain functions, which
/// cannot hold options; the [template](Self::template) of a model that it reads itself hands them on.
///
/// ```no_run
/// use revseq_tract::{LengthsPolicy, Limits, LoadOptions};
/// use tract_onnx::prelude::*;
///
/// # fn main() -> TractResult<()> {
/// let model = LoadOptions::new()
///     .with_lengths(LengthsPolicy::Clamp)
///     .with_limits(Limits::none().with_steps(100_000).with_bytes(1 << 30))
///     .model_for_path("bidirectional.onnx")?;
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug, Default)]
pub struct LoadOptions {
    pub(crate) lengths: Option<LengthsPolicy>,
    pub(crate) sizes: Sizes,
    pub(crate) threads: Threads,
    limits: Option<Limits>,
}

/// The sizes that a [`Session`](crate::Session) plans a model for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Sizes {
    /// All that the model leaves open, with one plan; those of the data if tract does not take the
    /// model so.
    #[default]
    Symbolic,
    /// The sizes of the data: a plan for each combination, of which the latest few are kept. A run
    /// may be faster; the first run with new sizes takes as long as opening the model.
    OfData,
}

/// The limits of sessions: a model may contain a loop that never ends.
const SESSION_LIMITS: Limits = Limits::none().with_steps(1 << 20).with_bytes(4 << 30);

/// The key of the options in a template.
const KEY: &str = "revseq_tract.options";

impl LoadOptions {
    /// The defaults: each operator's own policy, on tract's executor.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets the policy for lengths out of range, of recurrent layers too. By default they and
    /// ReverseSequence reject them, and ReverseSubsequences clamps them.
    #[must_use]
    pub fn with_lengths(mut self, policy: LengthsPolicy) -> Self {
        self.lengths = Some(policy);
        self
    }

    /// Limits the steps and the memory of loops, which otherwise may be endless, and the bytes of
    /// any other value, as far as its size is known before it is made, and the time of a session's
    /// runs. A run that exceeds the limits fails.
    ///
    /// By default, a [`Session`](crate::Session) allows 2^20 steps, 4 GiB and any time; otherwise, there are no limits.
    #[must_use]
    pub fn with_limits(mut self, limits: Limits) -> Self {
        self.limits = Some(limits);
        self
    }

    /// Returns an empty model as a template: the nodes of a model that tract makes of it get these options.
    #[must_use]
    pub fn template(&self) -> InferenceModel {
        let mut options = revseq_tract_operators::LoadOptions::new();
        if self.lengths == Some(LengthsPolicy::Clamp) {
            options = options.with_lengths(revseq_tract_operators::LengthsPolicy::Clamp);
        }
        if let Some(limits) = self.limits {
            options = options.with_limits(limits);
        }
        let mut template = options.template();
        template::hand(&mut template, KEY, self.clone());
        template
    }

    /// Sets the sizes that a [`Session`](crate::Session) plans for.
    #[must_use]
    pub fn with_sizes(mut self, sizes: Sizes) -> Self {
        self.sizes = sizes;
        self
    }

    /// Runs a [`Session`](crate::Session) on a number of threads of its own; 0 and 1 are the
    /// caller's thread alone. By default, tract's executor decides, which is one thread unless the
    /// program sets another.
    ///
    /// A run of many nodes begins on one of these threads, if no other run does. Results are the same on
    /// any number of threads. Without the feature `multithread`, only one is used.
    #[must_use]
    pub fn with_threads(mut self, threads: usize) -> Self {
        self.threads = Threads::own(threads);
        self
    }

    /// Sets the limits of sessions, unless there are others.
    pub(crate) fn with_default_limits(mut self) -> Self {
        self.limits.get_or_insert(SESSION_LIMITS);
        self
    }

    /// The most bytes of a value, if they are limited.
    pub(crate) fn maximum_bytes(&self) -> Option<u64> {
        self.limits?.bytes
    }

    /// The most time of a run, if it is limited.
    pub(crate) fn maximum_time(&self) -> Option<Duration> {
        self.limits?.time
    }

    /// The options of a node that is parsed.
    pub(crate) fn of(context: &ParsingContext<'_>) -> Self {
        template::handed(context, KEY).cloned().unwrap_or_default()
    }
}
