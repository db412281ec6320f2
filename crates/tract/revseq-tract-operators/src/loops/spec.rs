//! The definition of a loop: its body, inputs and outputs.
//!
//! It is made once the shapes of all inputs are known (`infer.rs`, `onnx_scan.rs`). Its body has no condition
//! among its inputs, since that is true whenever the body runs, and only outputs that are needed.

use tract_onnx::tract_hir::internal::*;

use crate::limits::Limits;

/// The value fed to an input of the body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Feed {
    /// The iteration number, from 0.
    Step,
    /// A state.
    State(usize),
    /// An input of the op, the same at every step.
    Outer(usize),
    /// The part of an input of the op that a step reads, of one element along an axis: the first step's
    /// is the first one, or the last one.
    Slice {
        input: usize,
        axis: usize,
        is_reversed: bool,
    },
}

impl Feed {
    /// The input of the op that it is of.
    pub(crate) fn outer(self) -> Option<usize> {
        match self {
            Self::Outer(input) | Self::Slice { input, .. } => Some(input),
            Self::Step | Self::State(_) => None,
        }
    }
}

/// The source of an output of the op.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Value {
    /// A state after the last step.
    State(usize),
    /// A scan output: the values of all steps, stacked along a new first axis.
    Scan(usize),
}

#[derive(Clone, Debug)]
pub(crate) struct LoopOutput {
    pub(crate) value: Value,
    pub(crate) fact: TypedFact,
}

/// Everything about a loop except its compiled body.
#[derive(Clone, Debug)]
pub(crate) struct Spec {
    /// The node's name, for messages.
    pub(crate) node: String,
    /// Its outputs are the condition if any, the states and the scan outputs.
    pub(crate) body: TypedModel,
    pub(crate) feeds: Vec<Feed>,
    /// The trip count's input.
    pub(crate) trip_count: Option<usize>,
    /// The initial condition's input.
    pub(crate) condition: Option<usize>,
    /// The inputs of the initial states.
    pub(crate) states: Vec<usize>,
    /// Whether the body's first output is the condition for the next step.
    pub(crate) gives_condition: bool,
    /// The number of steps, possibly symbolic, if output sizes depend on it.
    pub(crate) steps: Option<TDim>,
    pub(crate) scans: usize,
    /// The scan outputs that begin with the last step.
    pub(crate) reversed: Vec<usize>,
    pub(crate) outputs: Vec<LoopOutput>,
    pub(crate) limits: Limits,
    pub(crate) is_decluttered: bool,
}

impl Spec {
    /// The body's output of a state.
    pub(crate) fn state_output(&self, state: usize) -> usize {
        usize::from(self.gives_condition) + state
    }

    /// The body's output of a scan.
    pub(crate) fn scan_output(&self, scan: usize) -> usize {
        usize::from(self.gives_condition) + self.states.len() + scan
    }
}

/// The only element of a trip count or a condition, of any rank.
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
