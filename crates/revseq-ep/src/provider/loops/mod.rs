//! Loops that are recurrent layers, or work that no step needs the step before for.
//!
//! While ONNX Runtime asks which nodes this EP takes, the graph is rewritten as a message. The nodes that
//! the rewrite replaces are fused into one, which an inner session runs: it has the replacement for a
//! model, this EP for its layers, and the threads of the run around. What is not proved stays as it is,
//! and the log says why.

mod compiled;
mod message;

use std::collections::HashSet;
use std::sync::{Mutex, PoisonError};

use ort_sys::OrtNode;
use revseq_onnx::proto::{NodeProto, ValueInfoProto};
use revseq_rewrite::{Assumptions, Options, Outcome, Region, regions};

pub(super) use compiled::Compiled;

use super::error::Error;
use crate::plugin::abi::OrtEpGraphSupportInfo;
use crate::plugin::fused::fuse;
use crate::plugin::graph::{Graph, GraphNode};
use crate::plugin::host::Host;
use crate::plugin::log::Log;

/// The replacements of nodes that are fused, until they are made.
#[derive(Debug)]
pub(super) struct Claims {
    claims: Mutex<Vec<Claim>>,
    /// Whether the inputs of fused nodes have what the graphs in their nodes capture.
    fuses_captured: bool,
}

/// What runs instead of nodes.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Claim {
    /// The outputs of the nodes, which tell them from others.
    outputs: HashSet<String>,
    region: Region,
}

impl Claims {
    pub(super) fn new(fuses_captured: bool) -> Self {
        Self {
            claims: Mutex::default(),
            fuses_captured,
        }
    }

    /// Claims the loops of a graph that can be replaced, and returns the nodes that are fused.
    ///
    /// # Safety
    /// `info` is of the graph.
    pub(super) unsafe fn claim(
        &self,
        host: Host,
        graph: Graph<'_>,
        info: *mut OrtEpGraphSupportInfo,
        assume: Assumptions,
        log: Log,
    ) -> Result<HashSet<*const OrtNode>, Error> {
        let nodes = graph.nodes()?;
        let mut fused = HashSet::new();
        if !has_loop(&nodes)? {
            return Ok(fused);
        }
        let options = Options {
            fast: true,
            masked_layers: true,
            assume,
            ..Options::default()
        };
        let say = |line: String| log.info(c"GetCapability", &line);
        let found = match regions(message::model(graph)?, &options, self.fuses_captured) {
            Ok(found) => found,
            Err(error) => {
                say(format!("the loops stay: {error}"));
                return Ok(fused);
            }
        };
        for step in found.report.left_alone() {
            if let Outcome::LeftAlone(reason) = &step.outcome {
                say(format!("{} {:?} stays: {reason}", step.operator, step.node));
            }
        }
        for reason in found.left {
            say(format!(
                "a loop stays, though it could be replaced: {reason}"
            ));
        }
        for region in found.regions {
            let own: Vec<GraphNode<'_>> = region.nodes.iter().map(|&node| nodes[node]).collect();
            if !has_loop(&own)? {
                continue;
            }
            if let Some(reason) = self.add(&own, region)? {
                say(format!(
                    "a loop stays, though it could be replaced: {reason}"
                ));
                continue;
            }
            let own: Vec<*const OrtNode> = own.into_iter().map(GraphNode::as_ptr).collect();
            // SAFETY: the caller's; the nodes are of the graph.
            unsafe { fuse(host, info, &own)? };
            fused.extend(own);
        }
        Ok(fused)
    }

    /// Keeps a region for when it is made, or says why it stays.
    fn add(&self, nodes: &[GraphNode<'_>], region: Region) -> Result<Option<String>, Error> {
        if let Some(reason) = refusal(&region) {
            return Ok(Some(reason));
        }
        for node in nodes {
            let provider = node.ep_name()?;
            if !provider.is_empty() {
                return Ok(Some(format!("{provider} has a node of it")));
            }
        }
        let outputs = outputs(nodes)?;
        let claim = Claim { outputs, region };
        let mut claims = self.claims.lock().unwrap_or_else(PoisonError::into_inner);
        match claims.iter().find(|it| it.outputs == claim.outputs) {
            None => claims.push(claim),
            // ONNX Runtime may ask again.
            Some(known) if *known == claim => {}
            // In two branches, values may have the same names.
            Some(_) => {
                return Ok(Some(String::from(
                    "another loop has outputs of the same names",
                )));
            }
        }
        Ok(None)
    }

    /// Takes the claim of the nodes of a graph that are to be made.
    fn take(&self, nodes: &[GraphNode<'_>]) -> Result<Option<Claim>, Error> {
        let outputs = outputs(nodes)?;
        let mut claims = self.claims.lock().unwrap_or_else(PoisonError::into_inner);
        let place = claims.iter().position(|claim| claim.outputs == outputs);
        Ok(place.map(|place| claims.swap_remove(place)))
    }
}

/// Whether a node is a loop.
fn has_loop(nodes: &[GraphNode<'_>]) -> Result<bool, Error> {
    for node in nodes {
        if message::is_loop(&node.operator()?) {
            return Ok(true);
        }
    }
    Ok(false)
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
        return Some(format!("an attribute of its {} cannot be read", node.op()));
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
