//! The remaining limits while loops run.
//!
//! Loops nest within operators of tract, which pass nothing on, so the thread holds what all loops
//! on it have used so far. The count starts anew when the outermost loop ends. A loop that became a
//! Scan does not count: its steps are added by the loop around it, and its own limits are checked
//! before.

use std::cell::Cell;

use tract_onnx::tract_hir::internal::*;

use crate::interrupt;
use crate::limits::{BeyondLimits, Limits};

/// The total usage of nested loops running on a thread.
#[derive(Clone, Copy, Debug, Default)]
struct Spent {
    loops: usize,
    steps: u64,
    bytes: u64,
}

thread_local! {
    /// That of the outermost loop that this thread runs, and those in it; nothing between runs.
    static SPENT: Cell<Spent> = const { Cell::new(Spent { loops: 0, steps: 0, bytes: 0 }) };
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
    /// Whether a loop runs on this thread.
    pub(crate) fn is_open() -> bool {
        SPENT.get().loops > 0
    }

    pub(crate) fn of(limits: Limits) -> Self {
        let spent = SPENT.get();
        SPENT.set(Spent {
            loops: spent.loops + 1,
            ..spent
        });
        Self { limits, held: 0 }
    }

    /// The limits that are left.
    pub(crate) fn left(&self) -> Limits {
        let spent = SPENT.get();
        Limits {
            steps: self.limits.steps.map(|it| it.saturating_sub(spent.steps)),
            bytes: self.limits.bytes.map(|it| it.saturating_sub(spent.bytes)),
            ..self.limits
        }
    }

    /// Takes steps from the budget before they run.
    pub(crate) fn take_steps(&mut self, steps: u64) -> TractResult<()> {
        interrupt::check()?;
        let mut spent = SPENT.get();
        spent.steps = spent.steps.saturating_add(steps);
        if let Some(limit) = self.limits.steps
            && spent.steps > limit
        {
            return Err(BeyondLimits::error(format!(
                "it does not end within {limit} steps, which are all that are allowed"
            )));
        }
        SPENT.set(spent);
        Ok(())
    }

    /// Replaces the bytes held by this loop, before or after allocation.
    pub(crate) fn hold(&mut self, bytes: u64) -> TractResult<()> {
        let mut spent = SPENT.get();
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
        SPENT.set(spent);
        Ok(())
    }
}

impl Drop for Budget {
    fn drop(&mut self) {
        let mut spent = SPENT.get();
        spent.loops -= 1;
        spent.bytes -= self.held;
        if spent.loops == 0 {
            spent = Spent::default();
        }
        SPENT.set(spent);
    }
}
