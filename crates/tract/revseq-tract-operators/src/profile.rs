//! Runs that look at each node, those in the bodies of loops and branches included.
//!
//! An observer sees each call of a node on its thread, with its time, inner ones first:
//!
//! ```text
//! If { MatMul, Tanh }  →  MatMul 3 ms, Tanh 1 ms, If 0.1 ms (4.1 ms with inner nodes)
//! ```
//!
//! A run may compare the shape of each value with its fact instead. tract's own `Scan` shows nothing of
//! its body.

use std::cell::{Cell, RefCell};
use std::time::{Duration, Instant};

use scopeguard::guard;
use tract_onnx::tract_hir::internal::*;

use crate::interrupt;
use crate::other_sizes::OtherSizes;

/// A call of a node that has ended.
#[derive(Clone, Copy, Debug)]
pub struct NodeCall<'a> {
    /// The node of the optimised model, or of a body in it.
    pub node: &'a TypedNode,
    /// The start of the call.
    pub start: Instant,
    /// The time without that of nodes in its bodies.
    pub time: Duration,
    /// The time of the whole call.
    pub time_with_inner: Duration,
}

struct Profile {
    observer: Box<dyn FnMut(NodeCall<'_>)>,
    /// Time of the nodes so far in each open call.
    inner: Vec<Duration>,
}

thread_local! {
    /// The profile of the run on this thread, for as long as it is observed.
    static PROFILE: RefCell<Option<Profile>> = const { RefCell::new(None) };
    /// Whether the run on this thread compares shapes.
    static COMPARES_SHAPES: Cell<bool> = const { Cell::new(false) };
}

/// Runs a plan, and calls an observer at the end of each call of a node.
///
/// # Errors
/// Those of the run.
pub fn run_observed(
    state: &mut TypedSimpleState,
    inputs: TVec<TValue>,
    observer: impl FnMut(NodeCall<'_>) + 'static,
) -> TractResult<TVec<TValue>> {
    let profile = Profile {
        observer: Box::new(observer),
        inner: vec![],
    };
    // Also if the run panics.
    let _around = guard(PROFILE.replace(Some(profile)), |around| PROFILE.set(around));
    state.run_plan_with_eval(inputs, eval)
}

/// Runs a plan, and compares the shape of each value with its fact, as far as sizes are known.
///
/// A plan that has run so for some sizes has right facts for them, except where a size comes from data.
///
/// # Errors
/// Those of the run; [`OtherSizes`] if a shape differs.
pub fn run_comparing_shapes(
    state: &mut TypedSimpleState,
    inputs: TVec<TValue>,
) -> TractResult<TVec<TValue>> {
    let _around = guard(COMPARES_SHAPES.replace(true), |around| {
        COMPARES_SHAPES.set(around);
    });
    state.run_plan_with_eval(inputs, compare_shapes)
}

/// Runs a body, whose nodes are looked at if those around it are.
pub(crate) fn exec(state: &mut TypedSimpleState) -> TractResult<()> {
    if PROFILE.with_borrow(Option::is_some) {
        state.exec_plan_with_eval(eval)
    } else if COMPARES_SHAPES.get() {
        state.exec_plan_with_eval(compare_shapes)
    } else {
        state.exec_plan_with_eval(interrupt::eval)
    }
}

fn compare_shapes(
    ctx: &EvalContext<'_>,
    state: Option<&mut (dyn OpState + 'static)>,
    node: &TypedNode,
    inputs: TVec<TValue>,
) -> TractResult<TVec<TValue>> {
    let outputs = interrupt::eval(ctx, state, node, inputs)?;
    for (value, output) in std::iter::zip(&outputs, &node.outputs) {
        if output.fact.is_plain() {
            let compared = OtherSizes::check(value.shape(), &output.fact.shape, ctx.symbols);
            compared.with_context(|| format!("Evaluating {node}"))?;
        }
    }
    Ok(outputs)
}

fn eval(
    ctx: &EvalContext<'_>,
    state: Option<&mut (dyn OpState + 'static)>,
    node: &TypedNode,
    inputs: TVec<TValue>,
) -> TractResult<TVec<TValue>> {
    let enter = |profile: &mut Option<Profile>| {
        if let Some(profile) = profile {
            profile.inner.push(Duration::ZERO);
        }
    };
    PROFILE.with_borrow_mut(enter);
    let start = Instant::now();
    let outputs = interrupt::eval(ctx, state, node, inputs);
    let time_with_inner = start.elapsed();
    PROFILE.with_borrow_mut(|profile| {
        let Some(profile) = profile else {
            return;
        };
        let inner = profile.inner.pop().unwrap_or_default();
        if let Some(around) = profile.inner.last_mut() {
            *around += time_with_inner;
        }
        (profile.observer)(NodeCall {
            node,
            start,
            time: time_with_inner.saturating_sub(inner),
            time_with_inner,
        });
    });
    outputs
}
