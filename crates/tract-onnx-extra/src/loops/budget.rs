//! The remaining limits while loops run.

use std::cell::Cell;

use tract_onnx::tract_core::ops::scan::Scan;
use tract_onnx::tract_hir::internal::*;

use crate::limits::Limits;
use crate::loops::alias::Alias;
use crate::loops::if_::Branches;
use crate::loops::op::Loop;

/// The total usage of nested loops running on a thread.
#[derive(Clone, Copy, Debug, Default)]
struct Spent {
    loops: usize,
    steps: u64,
    bytes: u64,
}

thread_local! {
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
    pub(crate) fn of(limits: Limits) -> Self {
        let spent = SPENT.get();
        SPENT.set(Spent {
            loops: spent.loops + 1,
            ..spent
        });
        Self { limits, held: 0 }
    }

    /// Takes steps from the budget before they run.
    pub(crate) fn take_steps(&mut self, steps: u64) -> TractResult<()> {
        let mut spent = SPENT.get();
        spent.steps = spent.steps.saturating_add(steps);
        if let Some(limit) = self.limits.steps {
            ensure!(
                spent.steps <= limit,
                "it does not end within {limit} steps, which are all that are allowed"
            );
        }
        SPENT.set(spent);
        Ok(())
    }

    /// Replaces the bytes held by this loop, before or after allocation.
    pub(crate) fn hold(&mut self, bytes: u64) -> TractResult<()> {
        let mut spent = SPENT.get();
        spent.bytes = (spent.bytes - self.held).saturating_add(bytes);
        if let Some(limit) = self.limits.bytes {
            ensure!(
                spent.bytes <= limit,
                "its values take {} bytes, more than the {limit} that are allowed",
                spent.bytes
            );
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

/// The steps of inner loops that became Scans, which do not use the budget when they run. `None` if
/// there is another loop, or a symbolic number of steps.
pub(crate) fn steps_within(body: &TypedModel) -> TractResult<Option<u64>> {
    let mut steps = 0_u64;
    for node in body.nodes() {
        let within = if let Some(scan) = node.op_as::<Scan>() {
            let facts = body.node_input_facts(node.id)?;
            let count = scan.iteration_count(&facts);
            let count = count.and_then(|count| count.to_i64().ok());
            // Scans of recurrent layers are bounded by their data.
            let own = if !is_loop(scan) { Some(0) } else { count };
            let within = steps_within(&scan.body)?;
            own.zip(within).map(|(own, within)| {
                let own = own.unsigned_abs();
                own.saturating_add(count.unwrap_or(1).unsigned_abs().saturating_mul(within))
            })
        } else if let Some(Branches {
            bodies: branches, ..
        }) = node.op_as()
        {
            let then = steps_within(&branches.then_body)?;
            let otherwise = steps_within(&branches.else_body)?;
            then.zip(otherwise)
                .map(|(then, otherwise)| then.max(otherwise))
        } else {
            (!node.op_is::<Loop>()).then_some(0)
        };
        match within {
            Some(within) => steps = steps.saturating_add(within),
            None => return Ok(None),
        }
    }
    Ok(Some(steps))
}

/// Whether a Scan comes from a loop: its outputs keep an element.
fn is_loop(scan: &Scan) -> bool {
    let mut nodes = scan.body.nodes().iter();
    nodes.any(|node| matches!(node.op_as(), Some(Alias::Barrier)) && node.inputs.len() > 1)
}
