//! Loops that Keras and TensorFlow make of recurrent layers, to LSTM, GRU and RNN.
//!
//! Such a loop counts through the time axis of one or two sequences, an input
//! and perhaps a mask, and carries the states of a cell. `body` proves what it
//! counts and reads, `cell` what it computes, `layer` puts both together, and
//! `write` writes the operator.

mod body;
mod cell;
mod layer;
mod write;

use crate::pass::{Context, Pass, PassInfo, Verdict};
use crate::report::Exactness;
use crate::scope::{Names, Scope};

pub(super) const PASS: Pass = Pass {
    info: PassInfo {
        name: "recurrent-loop",
        exactness: Exactness::Rounding,
        about: "Loops that are recurrent layers of Keras, to LSTM, GRU and RNN",
        portable: false,
        fast: true,
    },
    find,
};

fn find(scope: &Scope<'_>, index: usize, context: &Context<'_>, names: &mut Names) -> Verdict {
    let node = &scope.nodes[index];
    let Some(graph) = node.graph("body").filter(|_| node.is("Loop")) else {
        return Verdict::Other;
    };
    let graph = match body::with_captures(scope, node, graph) {
        Ok(graph) => graph,
        Err(why) => return Verdict::Left(why),
    };
    let inner = Scope::graph(&graph, Some(scope), scope.opset);
    let layer = body::Body::of(scope, node, &inner)
        .and_then(|body| layer::Layer::of(&body, context.options.assume));
    match layer {
        Ok(layer) => write::layer(scope, node, &layer, names),
        Err(why) => Verdict::Left(why),
    }
}
