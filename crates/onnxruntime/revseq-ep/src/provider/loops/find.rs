//! Finds the loops of a graph that can be replaced, and makes what runs instead.

use std::collections::{BTreeMap, HashSet};

use revseq_onnx::proto::{ModelProto, NodeProto, ValueInfoProto};
use revseq_onnx::scope::Scope;
use revseq_rewrite::{Assumptions, Options as Passes, Region, Regions, regions};

use super::super::EP_NAME_STR;
use super::super::error::Error;
use super::super::options::Options;
use super::super::report::OfGraph as Report;
use super::compiled::Compiled;
use super::given;
use super::inner::Inner;
use super::message::{self, is_loop_node};
use super::other::{OfLoop, Other};
use super::program::{self, Constants, OfGraph, Program};
use crate::plugin::graph::{Graph, GraphNode};
use crate::plugin::session::Around;

/// The passes that make tensors of the lists that loops make.
const LISTS: [&str; 2] = ["list", "appended-list"];

/// A graph whose loops are asked for.
pub(super) struct Asked<'a> {
    pub(super) graph: Graph<'a>,
    pub(super) nodes: &'a [GraphNode<'a>],
    /// Which of the nodes are loops.
    pub(super) is_loop: &'a [bool],
    /// The loops in the graphs of nodes that are programs.
    pub(super) fused_before: &'a [Inner],
    /// Whether the inputs of fused nodes have what the graphs in their nodes capture.
    pub(super) fuses_captured: bool,
    pub(super) options: &'a Options,
    pub(super) assume: Assumptions,
    pub(super) around: &'a Around,
}

/// What was found in a graph.
pub(super) struct Found {
    /// The regions that a rewrite replaces, each with what runs instead if it has a loop.
    pub(super) layers: Regions<Option<Compiled>>,
    /// The loops that stay then, each with its program or why there is none.
    pub(super) programs: Vec<(usize, Result<Compiled, String>)>,
    /// Those of the programs for the graphs around.
    pub(super) inner: Vec<Inner>,
}

impl Found {
    /// The places of nodes that something else runs, and what.
    pub(super) fn into_taken(self) -> Vec<(Vec<usize>, Compiled)> {
        let regions = self.layers.regions.into_iter();
        let regions = regions.filter_map(|(region, made)| Some((region.nodes, made?)));
        let programs = self.programs.into_iter();
        let programs = programs.filter_map(|(place, made)| Some((vec![place], made.ok()?)));
        regions.chain(programs).collect()
    }
}

/// Finds the loops of a graph that can be replaced, and makes what runs instead.
///
/// # Errors
/// Why nothing can be looked for.
pub(super) fn find(asked: &Asked<'_>, report: &Report<'_>) -> Result<Found, String> {
    let message = message::read(asked.graph, asked.fused_before).map_err(text)?;
    let given = &asked.around.given;
    let replaced = given::replaced(given, &message.constants).map_err(|error| {
        report.detail(&error.to_string());
        "the session's options give initializers that cannot be compared with the model's"
    })?;
    let constants = Constants {
        values: message.constants,
        replaced,
        unread: message.unread,
    };
    let model = message.model;
    let messages = model.graph.as_option().map_or(&[][..], |graph| &graph.node);
    let reads = asked.nodes.iter().map(|node| {
        let names = [node.inputs()?, node.captured()?].concat();
        message::names(names)
    });
    let reads = reads.collect::<Result<Vec<_>, _>>().map_err(text)?;
    let is_inner = asked.graph.is_inner().map_err(text)?;
    let takes_steps = asked.options.steps();
    let finder = Finder {
        asked,
        header: ModelProto {
            ir_version: model.ir_version,
            opset_import: model.opset_import.clone(),
            ..ModelProto::default()
        },
        opset: revseq_onnx::model::opset(&model.opset_import),
        constants: &constants,
        reads,
        // The rewrite changes the model, of which these are needed as they are.
        messages: match takes_steps && is_inner {
            true => messages.to_vec(),
            false => vec![],
        },
    };
    let loops = match model.graph.as_option() {
        Some(graph) if takes_steps => finder.loops(messages, &graph.outputs().collect()),
        _ => BTreeMap::new(),
    };
    let graph = OfGraph {
        codes: program::codes(model.graph.as_option()),
        constants: &constants,
        scope: None,
    };
    // Programs have no lists.
    let lists = if takes_steps { &LISTS[..] } else { &[] };
    let passes = Passes {
        fast: true,
        passes: lists.iter().map(|&name| name.to_owned()).collect(),
        masked_layers: true,
        assume: asked.assume,
        ..Passes::default()
    };
    let make = |region: &Region| finder.region(region);
    let layers = regions(model, &passes, asked.fuses_captured, make).map_err(text)?;
    let taken = layers.regions.iter().filter(|it| it.1.is_some());
    let taken: HashSet<usize> = taken.flat_map(|it| it.0.nodes.iter().copied()).collect();
    let mut programs = vec![];
    let mut inner = vec![];
    for (&place, node) in loops.iter().filter(|(place, _)| !taken.contains(place)) {
        let program = finder.program(place, node, &graph);
        if is_inner && program.is_ok() {
            let (nodes, reads) = (std::slice::from_ref(node), &finder.reads[place]);
            inner.push(Inner::new(node.outputs(), nodes, reads, &graph));
        }
        programs.push((place, program));
    }
    if is_inner {
        let made = layers.regions.iter().filter(|it| it.1.is_some());
        inner.extend(made.filter_map(|it| finder.inner(&it.0, &graph)));
    }
    Ok(Found {
        layers,
        programs,
        inner,
    })
}

fn text(error: impl std::error::Error) -> String {
    error.to_string()
}

/// Makes what runs instead of the loops of a graph.
struct Finder<'a> {
    asked: &'a Asked<'a>,
    /// The model but for its graph.
    header: ModelProto,
    opset: i64,
    constants: &'a Constants<'a>,
    /// The names of what each node reads, and of what its graphs capture.
    reads: Vec<Vec<String>>,
    /// The nodes of a graph in a node.
    messages: Vec<NodeProto>,
}

impl Finder<'_> {
    /// The loops, with the outputs that are read: the fused node has no others.
    fn loops(&self, nodes: &[NodeProto], outputs: &HashSet<&str>) -> BTreeMap<usize, NodeProto> {
        let is_read = |name: &String| {
            outputs.contains(&**name) || self.reads.iter().any(|reads| reads.contains(name))
        };
        let loops = nodes.iter().enumerate();
        let loops = loops.filter(|(place, _)| self.asked.is_loop[*place]);
        loops
            .map(|(place, node)| {
                let mut node = node.clone();
                for name in &mut node.output {
                    if !is_read(name) {
                        name.clear();
                    }
                }
                (place, node)
            })
            .collect()
    }

    /// What a report calls the node at a place.
    fn label(&self, place: usize) -> Result<String, Error> {
        let node = self.asked.nodes[place];
        Ok(format!("{} node {:?}", node.operator()?.1, node.name()?))
    }

    /// Makes what runs instead of a region, if it has a loop; the error says why that cannot be.
    fn region(&self, region: &Region) -> Result<Option<Compiled>, String> {
        let mut loops = region.nodes.iter();
        let Some(&first) = loops.find(|&&node| self.asked.is_loop[node]) else {
            return Ok(None);
        };
        let unreadable = || {
            let mut inputs = region.inputs.iter();
            let name = inputs.find(|&input| self.constants.unread.contains(input))?;
            Some(format!("the constant {name:?} cannot be read"))
        };
        let given = || {
            let mut read = region.nodes.iter().flat_map(|&node| &self.reads[node]);
            let name = read.find(|&name| self.constants.replaced.contains(name))?;
            Some(format!("the session's options give {name:?} another value"))
        };
        let reason = refusal(region, self.asked.options.steps())
            .or_else(|| self.unplanned(region))
            .or_else(unreadable)
            .or_else(given);
        if let Some(reason) = reason {
            return Err(reason);
        }
        for &node in &region.nodes {
            if let Some(provider) = self.other_provider(node)? {
                let remedy = format!("add {EP_NAME_STR} before it");
                return Err(format!("{provider} has a node of it; {remedy}"));
            }
        }
        let Asked {
            options, around, ..
        } = self.asked;
        let label = self.label(first).map_err(text)?;
        let made = Compiled::new(label, region, &self.constants.values, options, around);
        made.map(Some).map_err(text)
    }

    /// Makes the program of a loop; the error says why there is none.
    fn program(
        &self,
        place: usize,
        node: &NodeProto,
        graph: &OfGraph<'_>,
    ) -> Result<Compiled, String> {
        if let Some(provider) = self.other_provider(place)? {
            return Err(format!("{provider} has it; add {EP_NAME_STR} before it"));
        }
        if let Some(reason) = slower(node) {
            return Err(reason);
        }
        let program = Program::read(node, self.opset, graph)?;
        let captured = program.inputs();
        let captured = captured.iter().find(|name| !node.input.contains(name));
        if let Some(name) = captured.filter(|_| !self.asked.fuses_captured) {
            return Err(format!(
                "it captures {name:?}, which ONNX Runtime hands on from 1.27 on"
            ));
        }
        let of_loop = OfLoop {
            header: &self.header,
            node,
            reads: &self.reads[place],
            graph,
        };
        let Asked {
            options, around, ..
        } = self.asked;
        let other = Other::new(&of_loop, &program, options, around);
        let label = self.label(place).map_err(text)?;
        Ok(Compiled::program(label, program, node, (other, around)))
    }

    /// Keeps the nodes of a region for the graphs around, if its replacement has a loop.
    fn inner(&self, region: &Region, around: &OfGraph<'_>) -> Option<Inner> {
        let graph = region.replacement.graph.as_option()?;
        graph.node.iter().find(|node| is_loop_node(node))?;
        let nodes = region.nodes.iter().map(|&it| self.messages[it].clone());
        let reads = region.nodes.iter().flat_map(|&it| self.reads[it].clone());
        let (nodes, reads): (Vec<_>, Vec<_>) = (nodes.collect(), reads.collect());
        let outputs = region.outputs.iter().map(String::as_str);
        Some(Inner::new(outputs, &nodes, &reads, around))
    }

    /// The other provider that has a node, if one does.
    fn other_provider(&self, place: usize) -> Result<Option<String>, String> {
        let provider = self.asked.nodes[place].ep_name().map_err(text)?;
        Ok(Some(provider).filter(|name| !name.is_empty()))
    }

    /// Says why a loop that stays in a replacement is no program, if it is none.
    fn unplanned(&self, region: &Region) -> Option<String> {
        let graph = region.replacement.graph.as_option()?;
        let scope = Scope::main(&region.replacement, false)?;
        let mut around = OfGraph {
            codes: program::codes(Some(graph)),
            constants: self.constants,
            scope: Some(&scope),
        };
        for node in graph.node.iter().filter(|node| is_loop_node(node)) {
            match Program::read(node, self.opset, &around) {
                Ok(program) => {
                    let codes = program.codes(node);
                    let codes = codes.map(|(name, code)| (name.clone(), code));
                    around.codes.extend(codes);
                }
                Err(reason) => return Some(reason),
            }
        }
        None
    }
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
