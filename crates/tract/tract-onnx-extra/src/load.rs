//! Options for loading that a model does not contain.
//!
//! tract's parsers are plain functions without room for options, so the thread holds them while a
//! model is read. A parser stores what it finds in its operator; afterwards, nothing asks the
//! thread.

use std::cell::Cell;

use scopeguard::guard;

use crate::Limits;

/// Policy for sequence lengths of LSTM, GRU and RNN that are negative or above the number of steps.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum LengthsPolicy {
    /// An error, as in ONNX Runtime: of the run, or of loading if the length is a constant.
    #[default]
    Reject,
    /// The number of steps, or 0 if the length is negative.
    Clamp,
}

/// Options for the nodes of ONNX models.
///
/// tract registers plain functions, which cannot hold options; [`load`](Self::load) sets them for
/// the models that this thread reads meanwhile.
///
/// ```no_run
/// use tract_onnx_extra::{LengthsPolicy, Limits, LoadOptions};
/// use tract_onnx::prelude::*;
///
/// # fn main() -> TractResult<()> {
/// let mut onnx = tract_onnx::onnx();
/// tract_onnx_extra::register(&mut onnx);
/// let model = LoadOptions::new()
///     .with_lengths(LengthsPolicy::Clamp)
///     .with_limits(Limits::none().with_steps(100_000).with_bytes(1 << 30))
///     .load(|| onnx.model_for_path("decoder.onnx"))?;
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct LoadOptions {
    limits: Option<Limits>,
    lengths: Option<LengthsPolicy>,
    programs: Option<bool>,
}

thread_local! {
    /// The options of nodes that this thread is parsing.
    static LOADING: Cell<LoadOptions> = const { Cell::new(LoadOptions::new()) };
}

impl LoadOptions {
    /// Returns the options of a surrounding [`load`](Self::load), if there is one. Otherwise there
    /// are no limits, and lengths out of range are rejected.
    #[must_use]
    pub const fn new() -> Self {
        Self {
            limits: None,
            lengths: None,
            programs: None,
        }
    }

    /// Bounds all loops. A run that exceeds the limits fails.
    #[must_use]
    pub const fn with_limits(self, limits: Limits) -> Self {
        Self {
            limits: Some(limits),
            ..self
        }
    }

    /// Sets the policy for sequence lengths out of range.
    #[must_use]
    pub const fn with_lengths(self, policy: LengthsPolicy) -> Self {
        Self {
            lengths: Some(policy),
            ..self
        }
    }

    /// Sets whether loops run as [programs](crate::How::Program) where they can, which is the default.
    #[must_use]
    pub const fn with_programs(self, programs: bool) -> Self {
        Self {
            programs: Some(programs),
            ..self
        }
    }

    /// Calls `load`; all nodes of the ONNX models it reads on this thread get these options.
    pub fn load<T>(self, load: impl FnOnce() -> T) -> T {
        // Also after a panic.
        let outer = guard(LOADING.get(), |outer| LOADING.set(outer));
        LOADING.set(Self {
            limits: self.limits.or(outer.limits),
            lengths: self.lengths.or(outer.lengths),
            programs: self.programs.or(outer.programs),
        });
        load()
    }
}

/// The limits of the nodes being parsed.
pub(crate) fn limits_of_nodes_read() -> Limits {
    LOADING.get().limits.unwrap_or_default()
}

/// The policy for lengths of the nodes being parsed.
pub(crate) fn lengths_of_nodes_read() -> LengthsPolicy {
    LOADING.get().lengths.unwrap_or_default()
}

/// Whether loops of the nodes being parsed run as programs.
pub(crate) fn programs_of_nodes_read() -> bool {
    LOADING.get().programs.unwrap_or(true)
}

/// Calls `load`, and bounds all loops of the ONNX models it reads on this thread:
/// [`LoadOptions::load`] with limits alone.
///
/// ```no_run
/// use tract_onnx_extra::{Limits, with_limits};
/// use tract_onnx::prelude::*;
///
/// # fn main() -> TractResult<()> {
/// let mut onnx = tract_onnx::onnx();
/// tract_onnx_extra::register(&mut onnx);
/// let limits = Limits::none().with_steps(100_000).with_bytes(1 << 30);
/// let model = with_limits(limits, || onnx.model_for_path("decoder.onnx"))?;
/// let model = model.into_optimized()?.into_runnable()?;
/// # Ok(())
/// # }
/// ```
pub fn with_limits<T>(limits: Limits, load: impl FnOnce() -> T) -> T {
    LoadOptions::new().with_limits(limits).load(load)
}
