//! Ranks and sizes of a Loop's states and outputs, and ranks of a Scan's.
//!
//! A body may declare others than its values have: what it declares is no proof.

use super::Size;
use crate::model::{BEFORE_STATES, GraphProto, LoopLayout, NodeProto, declared_sizes};
use crate::scope::Scope;
use crate::sizes;

/// A Loop's body, in which every state has the rank and the sizes that it begins with, where each
/// iteration keeps them.
pub struct LoopBody<'a> {
    /// The body's graph.
    pub scope: Scope<'a>,
}

/// A state that keeps its rank and some of its sizes, as far as is known.
struct Kept<'a> {
    carried: &'a str,
    updated: &'a str,
    rank: usize,
    sizes: Vec<(usize, Size<'a>)>,
}

impl<'a> LoopBody<'a> {
    /// The body of a Loop of a graph; `None` for other nodes.
    #[must_use]
    pub fn of(outer: &'a Scope<'a>, node: &'a NodeProto) -> Option<Self> {
        Self::assuming(outer, node, |_| {})
    }

    /// Returns [`of`](Self::of) under assumptions about the body's values, for proofs by induction.
    #[must_use]
    pub fn assuming(
        outer: &'a Scope<'a>,
        node: &'a NodeProto,
        assume: impl Fn(&Scope<'a>),
    ) -> Option<Self> {
        let body: &GraphProto = node.graph("body").filter(|_| node.is("Loop"))?;
        let carried = body.inputs().skip(BEFORE_STATES);
        let states = carried.zip(body.outputs().skip(1));
        let initial = node.input.iter().skip(BEFORE_STATES);
        let mut kept: Vec<Kept<'a>> = std::iter::zip(states, initial)
            .filter_map(|((carried, updated), initial)| {
                let rank = sizes::rank(outer, initial)?;
                let size = |axis| Some((axis, sizes::axis(outer, initial, axis)?));
                Some(Kept {
                    carried,
                    updated,
                    rank,
                    sizes: (0..rank).filter_map(size).collect(),
                })
            })
            .collect();
        // Assumes all of it, until all that is assumed follows for the next iteration.
        loop {
            let scope = Scope::graph(body, Some(outer), outer.opset);
            let unknown = body.inputs().map(|input| (input.to_owned(), None));
            scope.proved.borrow_mut().ranks.extend(unknown);
            assume(&scope);
            if let Some(step) = body.inputs().next() {
                // Runtimes give it the rank that the body declares.
                let declared = scope.declaration(step).and_then(declared_sizes);
                scope.assume_rank(step, declared.map_or(0, |sizes| sizes.len()));
            }
            for state in &kept {
                scope.assume_rank(state.carried, state.rank);
                for &(axis, size) in &state.sizes {
                    size.assume(&scope, state.carried, axis);
                }
            }
            let mut holds = true;
            kept.retain_mut(|state| {
                let updated = state.updated;
                let keeps_rank = sizes::rank(&scope, updated) == Some(state.rank);
                let count = state.sizes.len();
                state
                    .sizes
                    .retain(|&(axis, size)| sizes::axis(&scope, updated, axis) == Some(size));
                holds &= keeps_rank && state.sizes.len() == count;
                keeps_rank
            });
            if holds {
                return Some(Self { scope });
            }
        }
    }

    /// The length of an axis of a value of the body, in terms of the graphs around it, if it is the
    /// same in all iterations.
    #[must_use]
    pub fn fixed_axis<'s>(&'s self, value: &str, axis: usize) -> Option<Size<'s>> {
        let size = sizes::axis(&self.scope, value, axis)?;
        let is_outer = match size {
            Size::Known(_) => true,
            Size::Axis { scope, .. } => !scope.is(&self.scope),
        };
        is_outer.then_some(size)
    }
}

/// The number of axes of an input of a loop's body.
pub(super) fn rank_of_input(body: &Scope<'_>, name: &str) -> Option<usize> {
    let (outer, node) = body.node_around()?;
    if let Some(proved) = LoopBody::of(outer, node) {
        for input in &body.inputs {
            if let Some(rank) = sizes::rank(&proved.scope, input) {
                body.assume_rank(input, rank);
            }
        }
        return sizes::rank(&proved.scope, name);
    }
    // A Scan's, from version 9 on: a state keeps those that it begins with.
    let LoopLayout { states, .. } = LoopLayout::of(node).filter(|_| outer.opset >= 9)?;
    let index = body.inputs.iter().position(|input| *input == name)?;
    let initial = sizes::rank(outer, node.input(index)?)?;
    initial.checked_sub(usize::from(index >= states))
}

pub(super) fn rank_of_output(scope: &Scope<'_>, node: &NodeProto, output: usize) -> Option<usize> {
    if !scope.proves_more() {
        return None;
    }
    let body = LoopBody::of(scope, node)?;
    let value = *body.scope.outputs.get(1 + output)?;
    let rank = sizes::rank(&body.scope, value)?;
    match node.input.get(BEFORE_STATES + output) {
        // Without an iteration, a state is as it begins.
        Some(initial) => (sizes::rank(scope, initial)? == rank).then_some(rank),
        None => Some(rank + 1),
    }
}

/// The number of axes of a Scan's output, from version 9 on.
pub(super) fn rank_of_scan_output(
    scope: &Scope<'_>,
    node: &NodeProto,
    output: usize,
) -> Option<usize> {
    let LoopLayout { states, .. } = LoopLayout::of(node).filter(|_| scope.opset >= 9)?;
    if output < states {
        return sizes::rank(scope, node.input(output)?);
    }
    let inner = Scope::graph(node.graph("body")?, Some(scope), scope.opset);
    let element = sizes::rank(&inner, inner.outputs.get(output).copied()?)?;
    Some(element + 1)
}

pub(super) fn axis_of_output<'a>(
    scope: &'a Scope<'a>,
    node: &'a NodeProto,
    output: usize,
    axis: usize,
) -> Option<Size<'a>> {
    if !scope.proves_more() {
        return None;
    }
    let initial = node.input.get(BEFORE_STATES + output);
    // The first axis of a scan output is the number of iterations.
    let own = if initial.is_some() {
        axis
    } else {
        axis.checked_sub(1)?
    };
    let body = LoopBody::of(scope, node)?;
    let size = body.fixed_axis(body.scope.outputs.get(1 + output)?, own)?;
    let begins = initial.is_none_or(|initial| sizes::axis(scope, initial, axis) == Some(size));
    let proved = size.proved(scope).filter(|_| begins)?;
    Size::of_proved(scope, &proved)
}
