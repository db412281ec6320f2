//! Loops that are recurrent layers, or work that no step needs the step before for.
//!
//! While ONNX Runtime asks which nodes this EP takes, the graph is rewritten as a message. The nodes that
//! the rewrite replaces are fused into one, which an inner session runs: it has the replacement for a
//! model, this EP for its layers, and the threads of the run around. What is not proved stays as it is,
//! and the log says why.

mod compiled;
mod find;
mod given;
mod inner;
mod message;
mod other;
mod outcome;
mod program;

use std::collections::HashSet;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use ort_sys::OrtNode;
use revseq_rewrite::Assumptions;

pub(super) use compiled::Compiled;

use super::error::Error;
use super::options::Options;
use super::report::OfGraph;
use crate::plugin::error::Error as HostError;
use crate::plugin::graph::{Graph, GraphNode};
use crate::plugin::provider::Claims as OfProvider;
use crate::plugin::session::Around;
use find::{Asked, Found};
use inner::Inner;

/// The replacements of nodes that are fused, from when ONNX Runtime asks for a graph's nodes until it asks for
/// their means to run, which it does before it asks for those of another graph.
#[derive(Debug)]
pub(super) struct Claims {
    claims: Mutex<Vec<Claim>>,
    /// The loops that are programs in the graphs of nodes, until ONNX Runtime has asked for the main graph's nodes.
    inner: Mutex<Vec<Inner>>,
    /// Whether the inputs of fused nodes have what the graphs in their nodes capture.
    fuses_captured: bool,
    /// The number of runs of all fused nodes.
    ran: Arc<AtomicU64>,
}

/// What runs instead of nodes.
#[derive(Debug)]
struct Claim {
    /// The outputs of the nodes, which tell them from others of the graph.
    outputs: HashSet<String>,
    compiled: Compiled,
}

impl Claims {
    pub(super) fn new(fuses_captured: bool) -> Self {
        Self {
            claims: Mutex::default(),
            inner: Mutex::default(),
            fuses_captured,
            ran: Arc::default(),
        }
    }

    /// Claims the loops of a graph that can be replaced, and returns the nodes that are fused. What cannot be
    /// read or made leaves its loops as they are.
    pub(super) fn claim<'a>(
        &self,
        graph: Graph<'a>,
        of_provider: OfProvider<'a>,
        (options, assume): (&Options, Assumptions),
        around: &Around,
        report: &OfGraph<'_>,
    ) -> Result<HashSet<*const OrtNode>, Error> {
        let mut fused = HashSet::new();
        let mut claims = Vec::new();
        let nodes = graph.nodes()?;
        let is_loop = nodes
            .iter()
            .map(|node| Ok(message::is_loop(&node.operator()?)));
        let is_loop = is_loop.collect::<Result<Vec<bool>, Error>>()?;
        if is_loop.contains(&true) {
            let mut fused_before = self.inner.lock().unwrap_or_else(PoisonError::into_inner);
            let asked = Asked {
                graph,
                nodes: &nodes,
                is_loop: &is_loop,
                fused_before: &fused_before,
                fuses_captured: self.fuses_captured,
                options,
                assume,
                around,
            };
            let mut found = find::find(&asked, report);
            if let Ok(found) = &mut found {
                fused_before.append(&mut found.inner);
            }
            drop(fused_before);
            outcome::tell(report, &nodes, &is_loop, &found)?;
            let taken = found.into_iter().flat_map(Found::into_taken);
            for (places, compiled) in taken {
                let own: Vec<GraphNode<'_>> = places.iter().map(|&it| nodes[it]).collect();
                let outputs = outputs(&own)?;
                of_provider.fuse(&own)?;
                fused.extend(own.into_iter().map(GraphNode::as_ptr));
                claims.push(Claim { outputs, compiled });
            }
        }
        let mut inner = self.inner.lock().unwrap_or_else(PoisonError::into_inner);
        if !inner.is_empty() && !graph.is_inner()? {
            inner.clear();
        }
        drop(inner);
        *self.claims.lock().unwrap_or_else(PoisonError::into_inner) = claims;
        Ok(fused)
    }

    /// Takes what runs instead of the nodes of a graph, which are one now.
    pub(super) fn take(
        &self,
        graph: Graph<'_>,
        fused: GraphNode<'_>,
        writes_context: bool,
    ) -> Result<Compiled, Error> {
        let outputs = outputs(&graph.nodes()?)?;
        let mut claims = self.claims.lock().unwrap_or_else(PoisonError::into_inner);
        let place = claims.iter().position(|claim| claim.outputs == outputs);
        let unknown = "the nodes are none that the provider had fused";
        let place = place.ok_or(HostError::argument("Compile", unknown))?;
        let compiled = claims.swap_remove(place).compiled;
        match writes_context {
            true => Err(compiled.error(Error::Context)),
            false => compiled.place(fused, &self.ran),
        }
    }

    /// The number of runs of all fused nodes so far.
    pub(super) fn ran(&self) -> u64 {
        self.ran.load(Ordering::Relaxed)
    }
}

fn outputs(nodes: &[GraphNode<'_>]) -> Result<HashSet<String>, Error> {
    let mut outputs = HashSet::new();
    for node in nodes {
        outputs.extend(message::names(node.outputs()?)?);
    }
    outputs.remove("");
    Ok(outputs)
}
