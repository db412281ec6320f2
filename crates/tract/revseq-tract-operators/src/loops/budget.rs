//! The remaining limits while loops run.
//!
//! The run counts what its loops have used so far, from when the outermost of them begins.

use tract_onnx::tract_hir::internal::*;

use crate::interrupt::Interrupt;
use crate::limits::{BeyondLimits, Limits};
use crate::run::{Spent, check};

/// Runs a loop, which its limit of time ends; within another loop, that of the outer one does.
pub(crate) fn timed<T>(limits: Limits, run: impl FnOnce() -> T) -> T {
    match limits.time {
        Some(time) if Spent::current().loops == 0 => Interrupt::new().with_time(time).scope(run),
        _ => run(),
    }
}

/// The limits of a loop, shared with the loops around it.
///
/// An inner loop draws on the outer loop's budget.
#[derive(Debug)]
pub(crate) struct Budget {
    limits: Limits,
    /// The bytes held by this loop.
    held: u64,
}

impl Budget {
    pub(crate) fn of(limits: Limits) -> Self {
        let spent = Spent::current();
        Spent {
            loops: spent.loops + 1,
            ..spent
        }
        .set();
        Self { limits, held: 0 }
    }

    /// The limits that are left.
    pub(crate) fn left(&self) -> Limits {
        let spent = Spent::current();
        Limits {
            steps: self.limits.steps.map(|it| it.saturating_sub(spent.steps)),
            bytes: self.limits.bytes.map(|it| it.saturating_sub(spent.bytes)),
            ..self.limits
        }
    }

    /// Takes steps from the budget before they run.
    pub(crate) fn take_steps(&mut self, steps: u64) -> TractResult<()> {
        check()?;
        let mut spent = Spent::current();
        spent.steps = spent.steps.saturating_add(steps);
        if let Some(limit) = self.limits.steps
            && spent.steps > limit
        {
            return Err(BeyondLimits::error(format!(
                "it does not end within {limit} steps, which are all that are allowed"
            )));
        }
        spent.set();
        Ok(())
    }

    /// Replaces the bytes held by this loop, before or after allocation.
    pub(crate) fn hold(&mut self, bytes: u64) -> TractResult<()> {
        let mut spent = Spent::current();
        spent.bytes = (spent.bytes - self.held).saturating_add(bytes);
        if let Some(limit) = self.limits.bytes
            && spent.bytes > limit
        {
            return Err(BeyondLimits::error(format!(
                "its values take {} bytes, more than the {limit} that are allowed",
                spent.bytes
            )));
        }
        self.held = bytes;
        spent.set();
        Ok(())
    }
}

impl Drop for Budget {
    fn drop(&mut self) {
        let mut spent = Spent::current();
        spent.loops -= 1;
        spent.bytes -= self.held;
        if spent.loops == 0 {
            spent = Spent::default();
        }
        spent.set();
    }
}
