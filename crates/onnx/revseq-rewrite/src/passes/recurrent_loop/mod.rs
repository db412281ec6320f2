//! Loops and Scans that frameworks make of recurrent layers, to LSTM, GRU and RNN.
//!
//! Such a loop iterates over the time axis of its input, and possibly of a mask, and carries the
//! states of one or more cells. `steps` proves the trip count and the sequences.
//! `cells` recognises cells in the body; `mask` finds the valid steps, `truths` what its numbers are, and `shape` checks sizes. `read` puts these
//! together as the layers in `layer`, and `write` writes their operators, in the `form` that the host takes;
//! `ordering` sorts the steps if some are invalid, `rows` broadcasts inputs to states, and `empty` refuses
//! what ends ONNX Runtime.

mod empty;
pub(super) mod form;
pub(super) mod layer;
mod mask;
mod ordering;
mod read;
pub(super) mod reason;
pub(super) mod rows;
pub(super) mod shape;
mod truths;
mod weights;
pub(super) mod write;

use crate::pass::{At, Other, Pass, Verdict};
use crate::passes::steps::{self, body, trips};
use crate::scope::Scope;
use layer::Layers;

pub(crate) const PASS: Pass = Pass::rounding(
    "recurrent-loop",
    "Loops and Scans that are recurrent layers, to LSTM, GRU and RNN",
    find,
)
.fast();

fn find(at: &At<'_>) -> Verdict {
    let &At { scope, node, .. } = at;
    let graph = steps::graph_of(scope, node)?;
    let inner = Scope::form_of_body(&graph, scope, node);
    let mut body = body::Body::of(scope, node, &inner)?;
    // It may be a map, whose pass reports it.
    if body.states.is_empty() {
        return Err(Other);
    }
    body.steps = trips::count(&body, node)?;
    let layers = Layers::of(&body, at.context.options)?;
    write::layers(at, &layers)
}
