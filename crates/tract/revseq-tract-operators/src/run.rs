//! Runs of plans, and what a run has that operators of tract do not pass on.
//!
//! Operators of tract take no options, so the thread of a run holds what may end it, what observes its
//! nodes, and what its loops have used of their limits. It is looked at before each node, in the bodies of
//! loops and branches as well, and within recurrent layers. A single operator of another kind runs to its end.
//!
//! An observer sees each call of a node on its thread, with its time, inner ones first:
//!
//! ```text
//! If { MatMul, Tanh }  →  MatMul 3 ms, Tanh 1 ms, If 0.1 ms (4.1 ms with inner nodes)
//! ```
//!
//! A run may compare the shape of each value with its fact instead.

use std::cell::RefCell;
use std::rc::Rc;
use std::time::{Duration, Instant};

use scopeguard::guard;
use tract_onnx::tract_core::plan;
use tract_onnx::tract_hir::internal::*;

use crate::interrupt::Interrupt;
use crate::other_sizes::OtherSizes;

/// What the run on a thread has.
#[derive(Default)]
struct Context {
    /// What may end it early.
    interrupt: Option<Interrupt>,
    observer: Observer,
    spent: Spent,
    /// Whether the thread is one of a pool, and takes other work of the pool where it waits.
    is_in_pool: bool,
}

thread_local! {
    /// The context of the run on this thread. The thread is its key: tract evaluates the nodes of a plan on
    /// the thread that runs it, those of bodies included. Between runs it has nothing.
    static CONTEXT: RefCell<Context> = RefCell::default();
}

/// What observes the nodes of a run.
#[derive(Clone, Default)]
enum Observer {
    #[default]
    Nothing,
    /// A function that is called at the end of each call of a node.
    Calls(Rc<RefCell<Profile>>),
    /// The comparison of shapes with facts.
    Shapes,
}

struct Profile {
    observer: Box<dyn FnMut(NodeCall<'_>)>,
    /// The time of the nodes so far in each open call.
    inner: Vec<Duration>,
}

/// What the outermost loop of a run and those in it have used of their limits; nothing between loops.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Spent {
    /// The loops that run.
    pub(crate) loops: usize,
    pub(crate) steps: u64,
    pub(crate) bytes: u64,
}

impl Spent {
    pub(crate) fn current() -> Self {
        CONTEXT.with_borrow(|context| context.spent)
    }

    pub(crate) fn set(self) {
        CONTEXT.with_borrow_mut(|context| context.spent = self);
    }
}

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

/// Calls `run` with another part of the thread's context, also if it panics.
fn with<P, T>(part: fn(&mut Context) -> &mut P, value: P, run: impl FnOnce() -> T) -> T {
    let replace =
        move |value| CONTEXT.with_borrow_mut(|context| std::mem::replace(part(context), value));
    let _around = guard(replace(value), |around| drop(replace(around)));
    run()
}

impl Interrupt {
    /// Returns what may end runs on this thread, to take it to another one.
    #[must_use]
    pub fn current() -> Option<Self> {
        CONTEXT.with_borrow(|context| context.interrupt.clone())
    }

    /// Calls `run`; this ends what runs on this thread meanwhile, and so does each scope around it, of
    /// another thread as well if this was [taken](Self::current) from there.
    pub fn scope<T>(&self, run: impl FnOnce() -> T) -> T {
        let entered = self.within(Self::current().as_ref());
        with(|context| &mut context.interrupt, Some(entered), run)
    }

    /// Calls `run`, which nothing ends early.
    pub fn suspended<T>(run: impl FnOnce() -> T) -> T {
        with(|context| &mut context.interrupt, None, run)
    }
}

/// Calls `run`, which runs a model, on a thread of a pool that takes other work of the pool where it waits.
pub fn run_in_pool<T>(run: impl FnOnce() -> T) -> T {
    with(|context| &mut context.is_in_pool, true, run)
}

/// Returns whether this thread is [within a run](run_in_pool) on a pool. Another run that the pool gives it
/// has to take another thread, as tract keeps the memory of a product by thread.
#[must_use]
pub fn is_run_in_pool() -> bool {
    CONTEXT.with_borrow(|context| context.is_in_pool)
}

/// Checks whether the run on this thread may go on.
pub(crate) fn check() -> TractResult<()> {
    CONTEXT.with_borrow(|context| match &context.interrupt {
        None => Ok(()),
        Some(interrupt) => Ok(interrupt.check()?),
    })
}

/// Runs a plan, which an [`Interrupt`] of this thread ends.
///
/// # Errors
/// Those of the run; [`Interrupted`](crate::Interrupted) if it is ended.
pub fn run(state: &mut TypedSimpleState, inputs: TVec<TValue>) -> TractResult<TVec<TValue>> {
    state.run_plan_with_eval(inputs, eval)
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
    let observer = Observer::Calls(Rc::new(RefCell::new(profile)));
    with(
        |context| &mut context.observer,
        observer,
        || run(state, inputs),
    )
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
    let observer = Observer::Shapes;
    with(
        |context| &mut context.observer,
        observer,
        || run(state, inputs),
    )
}

/// Runs a body on its inputs. Symbols of what is around it keep their values, and its own get new ones.
pub(crate) fn run_body(
    state: &mut TypedSimpleState,
    ctx: &EvalContext<'_>,
    inputs: impl IntoIterator<Item = TValue>,
) -> TractResult<TVec<TValue>> {
    set_symbols(state, ctx);
    for (index, input) in inputs.into_iter().enumerate() {
        state.set_input(index, input)?;
    }
    exec(state)?;
    state.outputs()
}

/// Gives a body the values of the symbols of what is around it.
pub(crate) fn set_symbols(state: &mut TypedSimpleState, ctx: &EvalContext<'_>) {
    state.turn_state.resolved_symbols = ctx.symbols.clone();
    state.turn_state.scenario = ctx.scenario;
}

/// Runs a body whose inputs are set; its nodes are observed if those around it are.
pub(crate) fn exec(state: &mut TypedSimpleState) -> TractResult<()> {
    state.exec_plan_with_eval(eval)
}

/// Runs a node, unless the run is over.
fn eval(
    ctx: &EvalContext<'_>,
    state: Option<&mut (dyn OpState + 'static)>,
    node: &TypedNode,
    inputs: TVec<TValue>,
) -> TractResult<TVec<TValue>> {
    check()?;
    match CONTEXT.with_borrow(|context| context.observer.clone()) {
        Observer::Nothing => plan::eval(ctx, state, node, inputs),
        Observer::Shapes => {
            let outputs = plan::eval(ctx, state, node, inputs)?;
            for (value, output) in std::iter::zip(&outputs, &node.outputs) {
                if output.fact.is_plain() {
                    let compared =
                        OtherSizes::check(value.shape(), &output.fact.shape, ctx.symbols);
                    compared.with_context(|| format!("Evaluating {node}"))?;
                }
            }
            Ok(outputs)
        }
        Observer::Calls(profile) => {
            profile.borrow_mut().inner.push(Duration::ZERO);
            let start = Instant::now();
            let outputs = plan::eval(ctx, state, node, inputs);
            profile.borrow_mut().end(node, start);
            outputs
        }
    }
}

impl Profile {
    /// Ends the innermost open call.
    fn end(&mut self, node: &TypedNode, start: Instant) {
        let time_with_inner = start.elapsed();
        let inner = self.inner.pop().unwrap_or_default();
        if let Some(around) = self.inner.last_mut() {
            *around += time_with_inner;
        }
        (self.observer)(NodeCall {
            node,
            start,
            time: time_with_inner.saturating_sub(inner),
            time_with_inner,
        });
    }
}
