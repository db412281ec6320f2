//! What a loop is: its body, what the body is fed, and what is given out.

use tract_onnx::tract_hir::internal::*;

use crate::limits::Limits;

/// What an input of the body is fed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Feed {
    /// The number of the step, from 0.
    Step,
    /// A state.
    State(usize),
    /// An input of the op, at every step.
    Outer(usize),
}

/// What an output of the op is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Value {
    /// A state after the last step.
    State(usize),
    /// What all steps gave, along a new first axis.
    Scan(usize),
}

#[derive(Clone, Debug)]
pub(crate) struct Output {
    pub(crate) value: Value,
    pub(crate) fact: TypedFact,
}

/// Everything about a loop except its compiled body.
#[derive(Clone, Debug)]
pub(crate) struct Spec {
    /// The node's name, for messages.
    pub(crate) node: String,
    /// Its outputs are the condition if there is one, the states, and what is scanned.
    pub(crate) body: TypedModel,
    pub(crate) feeds: Vec<Feed>,
    /// The input that is the trip count.
    pub(crate) trip_count: Option<usize>,
    /// The input that tells whether there is a first step.
    pub(crate) condition: Option<usize>,
    /// The inputs that states start with.
    pub(crate) states: Vec<usize>,
    /// Whether the body's first output tells whether there is a next step.
    pub(crate) gives_condition: bool,
    /// The number of steps, if sizes around the loop are taken from it; it may be a symbol.
    pub(crate) steps: Option<TDim>,
    pub(crate) scans: usize,
    pub(crate) outputs: Vec<Output>,
    pub(crate) limits: Limits,
    pub(crate) is_decluttered: bool,
}

impl Spec {
    /// The body's output that is a state after the step.
    pub(crate) fn state_output(&self, state: usize) -> usize {
        usize::from(self.gives_condition) + state
    }

    /// The body's output that is scanned.
    pub(crate) fn scan_output(&self, scan: usize) -> usize {
        usize::from(self.gives_condition) + self.states.len() + scan
    }
}

/// The one element of a trip count or a condition, which may be of any rank.
pub(crate) fn one<T: Datum + Copy>(value: &Tensor, what: &str) -> TractResult<T> {
    let value = value.cast_to::<T>()?;
    let value = value.to_plain_array_view::<T>()?;
    ensure!(
        value.len() == 1,
        "its {what} has sizes {:?}, expected one element",
        value.shape()
    );
    value.iter().next().copied().context("it has one element")
}
