//! Loops that are recurrent layers, or work that no step needs the step before for.
//!
//! While ONNX Runtime asks which nodes this EP takes, the graph is rewritten as a message. The nodes that
//! the rewrite replaces are fused into one, which an inner session runs: it has the replacement for a
//! model, this EP for its layers, and the threads of the run around. What is not proved stays as it is,
//! and the log says why.

mod compiled;
mod given;
mod message;
mod outcome;

use std::collections::HashSet;
use std::sync::{Mutex, PoisonError};

use ort_sys::OrtNode;
use revseq_onnx::proto::{NodeProto, ValueInfoProto};
use revseq_rewrite::{Assumptions, Options as Passes, Region, Regions, regions};

pub(super) use compiled::Compiled;

use super::EP_NAME_STR;
use super::error::Error;
use super::options::Options;
use super::report::OfGraph;
use crate::plugin::abi::OrtEpGraphSupportInfo;
use crate::plugin::error::Error as HostError;
use crate::plugin::fused::fuse;
use crate::plugin::graph::{Graph, GraphNode};
use crate::plugin::host::Host;
use crate::plugin::session::Around;
use message::Message;

/// The replacements of nodes that are fused, from when ONNX Runtime asks for a graph's nodes until it asks for
/// their means to run, which it does before it asks for those of another graph.
#[derive(Debug)]
pub(super) struct Claims {
    claims: Mutex<Vec<Claim>>,
    /// Whether the inputs of fused nodes have what the graphs in their nodes capture.
    fuses_captured: bool,
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
            fuses_captured,
        }
    }

    /// Claims the loops of a graph that can be replaced, and returns the nodes that are fused. What cannot be
    /// read or made leaves its loops as they are.
    ///
    /// # Safety
    /// `info` is of the graph.
    pub(super) unsafe fn claim(
        &self,
        host: Host,
        graph: Graph<'_>,
        info: *mut OrtEpGraphSupportInfo,
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
            let captured = self.fuses_captured;
            let options = (options, assume);
            let found = find(&nodes, &is_loop, graph, captured, options, around, report);
            outcome::tell(report, &nodes, &is_loop, &found)?;
            let regions = found.into_iter().flat_map(|found| found.regions);
            for (region, compiled) in regions {
                let Some(compiled) = compiled else {
                    continue;
                };
                let own: Vec<GraphNode<'_>> = region.nodes.iter().map(|&it| nodes[it]).collect();
                let outputs = outputs(&own)?;
                let own: Vec<*const OrtNode> = own.into_iter().map(GraphNode::as_ptr).collect();
                // SAFETY: the caller's; the nodes are of the graph.
                unsafe { fuse(host, info, &own)? };
                fused.extend(own);
                claims.push(Claim { outputs, compiled });
            }
        }
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
            false => compiled.place(fused),
        }
    }
}

/// The regions of a graph, each with what runs instead if it has a loop.
type Found = Regions<Option<Compiled>>;

/// Finds the loops of a graph that can be replaced, and makes what runs instead.
fn find(
    nodes: &[GraphNode<'_>],
    is_loop: &[bool],
    graph: Graph<'_>,
    fuses_captured: bool,
    (options, assume): (&Options, Assumptions),
    around: &Around,
    report: &OfGraph<'_>,
) -> Result<Found, String> {
    let text = |error: &dyn std::error::Error| error.to_string();
    let message = message::read(graph).map_err(|error| text(&error))?;
    let passes = Passes {
        fast: true,
        masked_layers: true,
        assume,
        ..Passes::default()
    };
    let label = |index: usize| -> Result<String, Error> {
        let node = nodes[index];
        Ok(format!("{} node {:?}", node.operator()?.1, node.name()?))
    };
    let Message {
        model,
        constants,
        unread,
    } = message;
    let mut reads = Vec::with_capacity(nodes.len());
    for node in nodes {
        let captured = node.captured().map_err(|error| text(&error))?;
        let inputs = node.inputs().map_err(|error| text(&error))?;
        let names = message::names([inputs, captured].concat());
        reads.push(names.map_err(|error| text(&error))?);
    }
    let replaced = given::replaced(&around.given, &constants).map_err(|error| {
        report.detail(&text(&error));
        String::from(
            "the session's options give initializers that cannot be compared with the model's",
        )
    })?;
    let make = |region: &Region| {
        let Some(&first) = region.nodes.iter().find(|&&node| is_loop[node]) else {
            return Ok(None);
        };
        let unreadable = || {
            let mut inputs = region.inputs.iter();
            let name = inputs.find(|&input| unread.contains(input))?;
            Some(format!("the constant {name:?} cannot be read"))
        };
        let given = || {
            let mut read = region.nodes.iter().flat_map(|&node| &reads[node]);
            let name = read.find(|&name| replaced.contains(name))?;
            Some(format!("the session's options give {name:?} another value"))
        };
        let reason = refusal(region).or_else(unreadable).or_else(given);
        if let Some(reason) = reason {
            return Err(reason);
        }
        let compiled = || {
            for &node in &region.nodes {
                let provider = nodes[node].ep_name()?;
                if !provider.is_empty() {
                    let remedy = format!("add {EP_NAME_STR} before it");
                    return Ok(Err(format!("{provider} has a node of it; {remedy}")));
                }
            }
            Compiled::new(label(first)?, region, &constants, options, around).map(Ok)
        };
        compiled().map_err(|error: Error| text(&error))?.map(Some)
    };
    regions(model, &passes, fuses_captured, make).map_err(|error| text(&error))
}

fn outputs(nodes: &[GraphNode<'_>]) -> Result<HashSet<String>, Error> {
    let mut outputs = HashSet::new();
    for node in nodes {
        outputs.extend(message::names(node.outputs()?)?);
    }
    outputs.remove("");
    Ok(outputs)
}

/// Says why a replacement cannot be run, if it cannot.
fn refusal(region: &Region) -> Option<String> {
    let graph = region.replacement.graph.as_option()?;
    let is_unread = |node: &&NodeProto| node.domain() == message::UNREAD;
    if let Some(node) = graph.node.iter().find(is_unread) {
        return Some(format!("a {} of it cannot be read", node.op()));
    }
    if let Some(node) = graph
        .node
        .iter()
        .find(|node| node.graphs().next().is_some())
    {
        return Some(format!("a {} would be in its place", node.op()));
    }
    let is_untyped = |input: &&ValueInfoProto| !input.r#type.is_set();
    if let Some(input) = graph.input.iter().find(is_untyped) {
        let name = input.name.as_deref().unwrap_or_default();
        return Some(format!(
            "the type of {name:?}, which it reads, is not known"
        ));
    }
    let is_whole = |output: &&_| !message::is_of_fixed_size(output);
    let output = graph.output.iter().find(is_whole)?;
    let name = output.name.as_deref().unwrap_or_default();
    Some(format!("its output {name:?} is no tensor of numbers"))
}
