//! Loops that are recurrent layers, or work that no step needs the step before for.
//!
//! While ONNX Runtime asks which nodes this EP takes, the graph is rewritten as a message. The nodes that
//! the rewrite replaces are fused into one, which an inner session runs: it has the replacement for a
//! model, this EP for its layers, and the threads of the run around. What is not proved stays as it is,
//! and the log says why.

mod compiled;
mod given;
mod inner;
mod message;
mod other;
mod outcome;
mod program;

use std::collections::{HashMap, HashSet};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use ort_sys::OrtNode;
use revseq_onnx::proto::{ModelProto, NodeProto, ValueInfoProto};
use revseq_onnx::scope::Scope;
use revseq_rewrite::{Assumptions, Options as Passes, Region, Regions, regions};

pub(super) use compiled::Compiled;

use super::EP_NAME_STR;
use super::error::Error;
use super::options::Options;
use super::report::OfGraph;
use crate::plugin::error::Error as HostError;
use crate::plugin::graph::{Graph, GraphNode, Value};
use crate::plugin::provider::Claims as OfProvider;
use crate::plugin::session::Around;
use inner::Inner;
use message::Message;
use other::{OfLoop, Other};
use program::{OfGraph as AroundLoop, Program};

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
            let captured = self.fuses_captured;
            let options = (options, assume);
            let mut fused_before = self.inner.lock().unwrap_or_else(PoisonError::into_inner);
            let loops = (&*nodes, &*is_loop, &**fused_before);
            let mut found = find(loops, graph, captured, options, around, report);
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

/// The passes that make tensors of the lists that loops make.
const LISTS: [&str; 2] = ["list", "appended-list"];

/// What was found in a graph.
struct Found {
    /// The regions that a rewrite replaces, each with what runs instead if it has a loop.
    layers: Regions<Option<Compiled>>,
    /// The loops that stay then, each with its program or why there is none.
    programs: Vec<(usize, Result<Compiled, String>)>,
    /// Those of the programs for the graphs around.
    inner: Vec<Inner>,
}

impl Found {
    /// The places of nodes that something else runs, and what.
    fn into_taken(self) -> Vec<(Vec<usize>, Compiled)> {
        let regions = self.layers.regions.into_iter();
        let regions = regions.filter_map(|(region, made)| Some((region.nodes, made?)));
        let programs = self.programs.into_iter();
        let programs = programs.filter_map(|(place, made)| Some((vec![place], made.ok()?)));
        regions.chain(programs).collect()
    }
}

/// Finds the loops of a graph that can be replaced, and makes what runs instead.
fn find(
    (nodes, is_loop, fused_before): (&[GraphNode<'_>], &[bool], &[Inner]),
    graph: Graph<'_>,
    fuses_captured: bool,
    (options, assume): (&Options, Assumptions),
    around: &Around,
    report: &OfGraph<'_>,
) -> Result<Found, String> {
    let text = |error: &dyn std::error::Error| error.to_string();
    let message = message::read(graph, fused_before).map_err(|error| text(&error))?;
    // Programs have no lists.
    let lists = if options.steps() { &LISTS[..] } else { &[] };
    let passes = Passes {
        fast: true,
        passes: lists.iter().map(|&name| name.to_owned()).collect(),
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
    let is_other = |provider: &str| !provider.is_empty();
    // What programs are read from; the rewrite changes the model.
    let loops: Vec<(usize, NodeProto)> = match model.graph.as_option() {
        Some(graph) if options.steps() => {
            let nodes = graph.node.iter().enumerate();
            let loops = nodes.filter(|(place, _)| is_loop[*place]);
            let read: HashSet<&str> = graph.outputs().collect();
            let is_read = |name: &String| {
                read.contains(&**name) || reads.iter().any(|reads| reads.contains(name))
            };
            loops
                .map(|(place, node)| {
                    let mut node = node.clone();
                    // The fused node has no others.
                    for name in &mut node.output {
                        if !is_read(name) {
                            name.clear();
                        }
                    }
                    (place, node)
                })
                .collect()
        }
        _ => vec![],
    };
    let opset = revseq_onnx::model::opset(&model.opset_import);
    let codes = program::codes(model.graph.as_option());
    let is_inner = graph.is_inner().map_err(|error| text(&error))?;
    let own: Vec<NodeProto> = match model.graph.as_option() {
        Some(graph) if options.steps() && is_inner => graph.node.clone(),
        _ => vec![],
    };
    let header = ModelProto {
        ir_version: model.ir_version,
        opset_import: model.opset_import.clone(),
        ..ModelProto::default()
    };
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
        let unplanned = || unplanned(region, opset, &constants, [&replaced, &unread]);
        let reason = refusal(region, options.steps())
            .or_else(unplanned)
            .or_else(unreadable)
            .or_else(given);
        if let Some(reason) = reason {
            return Err(reason);
        }
        let compiled = || {
            for &node in &region.nodes {
                let provider = nodes[node].ep_name()?;
                if is_other(&provider) {
                    let remedy = format!("add {EP_NAME_STR} before it");
                    return Ok(Err(format!("{provider} has a node of it; {remedy}")));
                }
            }
            Compiled::new(label(first)?, region, &constants, options, around).map(Ok)
        };
        compiled().map_err(|error: Error| text(&error))?.map(Some)
    };
    let layers = regions(model, &passes, fuses_captured, make).map_err(|error| text(&error))?;
    let around_loops = AroundLoop {
        codes,
        constants: &constants,
        others: [&replaced, &unread],
        scope: None,
    };
    let program = |(place, node): &(usize, NodeProto)| {
        let own = nodes[*place];
        let provider = own.ep_name().map_err(|error| text(&error))?;
        if is_other(&provider) {
            return Err(format!("{provider} has it; add {EP_NAME_STR} before it"));
        }
        if let Some(reason) = slower(node) {
            return Err(reason);
        }
        let program = Program::read(node, opset, &around_loops)?;
        let inputs: Vec<&String> = node.input.iter().collect();
        let captured = program.inputs();
        let captured = captured.iter().find(|name| !inputs.contains(name));
        if let Some(name) = captured.filter(|_| !fuses_captured) {
            return Err(format!(
                "it captures {name:?}, which ONNX Runtime hands on from 1.27 on"
            ));
        }
        let label = label(*place).map_err(|error| text(&error))?;
        let of_loop = OfLoop {
            header: &header,
            node,
            reads: &reads[*place],
            graph: &around_loops,
        };
        let other = Other::new(&of_loop, &program, options, around);
        Ok(Compiled::program(label, program, node, (other, around)))
    };
    let is_taken = |place: usize| {
        let mut regions = layers.regions.iter();
        regions.any(|(region, made)| made.is_some() && region.nodes.contains(&place))
    };
    let open = loops.iter().filter(|(place, _)| !is_taken(*place));
    let programs: Vec<_> = open.map(|it| (it.0, program(it))).collect();
    let mut inner = vec![];
    for (place, made) in &programs {
        let node = loops.iter().find(|(own, _)| own == place);
        if let (Ok(_), true, Some((_, node))) = (made, is_inner, node) {
            let outputs = node.outputs();
            let nodes = std::slice::from_ref(node);
            inner.push(Inner::new(outputs, nodes, &reads[*place], &around_loops));
        }
    }
    for (region, made) in &layers.regions {
        let graph = region.replacement.graph.as_option();
        let has_loop = graph.is_some_and(|graph| graph.node.iter().any(is_loop_node));
        if made.is_some() && is_inner && has_loop {
            let nodes: Vec<NodeProto> = region.nodes.iter().map(|&it| own[it].clone()).collect();
            let reads: Vec<String> = region
                .nodes
                .iter()
                .flat_map(|&it| reads[it].clone())
                .collect();
            let outputs = region.outputs.iter().map(String::as_str);
            inner.push(Inner::new(outputs, &nodes, &reads, &around_loops));
        }
    }
    Ok(Found {
        layers,
        inner,
        programs,
    })
}

/// Says what of a loop ONNX Runtime computes in less time than a program, if there is such: a convolution along two
/// axes or more that mixes channels takes up to half as long again.
fn slower(node: &NodeProto) -> Option<String> {
    let mut nodes = node.graphs().flat_map(|graph| &graph.node);
    nodes.find_map(|node| {
        let axes = node.ints("kernel_shape").value().map_or(0, <[i64]>::len);
        let mixes = node.int("group").or(1).unwrap_or(1) == 1;
        match node.is("Conv") && axes > 1 && mixes {
            true => Some(format!("ONNX Runtime's Conv of {axes} axes is faster")),
            false => slower(node),
        }
    })
}

fn outputs(nodes: &[GraphNode<'_>]) -> Result<HashSet<String>, Error> {
    let mut outputs = HashSet::new();
    for node in nodes {
        outputs.extend(message::names(node.outputs()?)?);
    }
    outputs.remove("");
    Ok(outputs)
}

/// Says why a loop that stays in a replacement is no program, if it is none.
fn unplanned(
    region: &Region,
    opset: i64,
    constants: &HashMap<String, Value<'_>>,
    others: [&HashSet<String>; 2],
) -> Option<String> {
    let graph = region.replacement.graph.as_option()?;
    let scope = Scope::main(&region.replacement, false)?;
    let mut around = AroundLoop {
        codes: program::codes(Some(graph)),
        constants,
        others,
        scope: Some(&scope),
    };
    for node in graph.node.iter().filter(|node| is_loop_node(node)) {
        match Program::read(node, opset, &around) {
            Ok(program) => {
                let codes = program.codes(node);
                around
                    .codes
                    .extend(codes.map(|(name, code)| (name.clone(), code)));
            }
            Err(reason) => return Some(reason),
        }
    }
    None
}

fn is_loop_node(node: &NodeProto) -> bool {
    node.is("Loop") || node.is("Scan")
}

/// Says why a replacement cannot be run, if it cannot.
fn refusal(region: &Region, takes_loops: bool) -> Option<String> {
    let graph = region.replacement.graph.as_option()?;
    let is_unread = |node: &&NodeProto| node.domain() == message::UNREAD;
    if let Some(node) = graph.node.iter().find(is_unread) {
        return Some(format!("a {} of it cannot be read", node.op()));
    }
    if let Some(node) = graph
        .node
        .iter()
        .find(|node| node.graphs().next().is_some() && !(takes_loops && is_loop_node(node)))
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
