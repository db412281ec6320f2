//! Loops and Scans that run once for each step of a sequence.
//!
//! `body` sorts what such a loop carries, reads and outputs: states, counters, sequences and scan
//! outputs, once `reads` has made Gathers of what reads a step. `trips` proves how often it runs. Passes
//! that replace loops of this kind share both.

pub(crate) mod body;
mod reads;
pub(crate) mod trips;

use crate::model::{GraphProto, NodeProto};
use crate::pass::{Left, Other};
use crate::passes::tract::BATCHED_SCAN;
use crate::scope::Scope;

/// The body of a Loop or a Scan, with unchanged states read directly from the outer graph, and reads
/// of a step as Gathers; a reason for a loop that is of another kind.
pub(super) fn graph_of(scope: &Scope<'_>, node: &NodeProto) -> Result<GraphProto, Left> {
    let is_loop = node.is("Loop") || node.is("Scan");
    let graph = node.graph("body").filter(|_| is_loop).ok_or(Other)?;
    if node.is("Scan") && scope.opset == BATCHED_SCAN {
        let why =
            "it is a Scan of version 8, over batches of its own; --for tract makes a Loop of it";
        return Err(why.into());
    }
    let body = body::with_captures(scope, node, graph)?;
    Ok(reads::with_gathers(scope, node, body))
}
