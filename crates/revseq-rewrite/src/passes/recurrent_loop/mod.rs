//! Loops and Scans that frameworks make of recurrent layers, to LSTM, GRU and RNN.
//!
//! Such a loop iterates over the time axis of its input, and possibly of a mask, and carries the
//! states of one or more cells. `steps` proves the trip count and the sequences.
//! `step` shows the body's values to the crate recurrent-cells, which recognises cells; `mask` finds
//! the valid steps, `truths` what its numbers are, and `shape` checks sizes. `layer` puts these
//! together as layers, and `write` writes their operators; `ordering` sorts the steps if some are
//! invalid.

pub(super) mod layer;
mod mask;
mod ordering;
pub(super) mod reason;
pub(super) mod shape;
mod step;
mod truths;
mod weights;
pub(super) mod write;

use crate::pass::{Context, Pass, Verdict};
use crate::passes::steps::{self, body, trips};
use crate::scope::{Names, Scope};

pub(crate) const PASS: Pass = Pass::rounding(
    "recurrent-loop",
    "Loops and Scans that are recurrent layers, to LSTM, GRU and RNN",
    find,
)
.fast();

fn find(scope: &Scope<'_>, index: usize, context: &Context<'_>, names: &mut Names) -> Verdict {
    let node = &scope.nodes[index];
    let graph = match steps::graph_of(scope, node) {
        None => return Verdict::Other,
        Some(Err(why)) => return Verdict::Left(why),
        Some(Ok(graph)) => graph,
    };
    let inner = Scope::graph(&graph, Some(scope), scope.opset);
    let mut body = match body::Body::of(scope, node, &inner) {
        Ok(body) => body,
        Err(why) => return Verdict::Left(why),
    };
    // It may be a map, whose pass reports it.
    if body.states.is_empty() {
        return Verdict::Other;
    }
    let layers = trips::count(&body, node).and_then(|steps| {
        body.steps = steps;
        layer::Layers::of(&body, context.options)
    });
    match layers {
        Ok(layers) => write::layers(scope, node, &layers, context.options, names),
        Err(why) => Verdict::Left(why),
    }
}
