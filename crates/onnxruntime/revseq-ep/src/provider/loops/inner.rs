//! Loops in the graphs of nodes, which ONNX Runtime has fused before it asks for the graphs around.
//!
//! A loop around one is one program with it, if it is read as it was. The constants that only the fused node read are
//! gone by then, so that the loop has them beside it.

use std::collections::{HashMap, HashSet};

use recurrent_steps::Around as _;
use revseq_onnx::model;
use revseq_onnx::proto::{GraphProto, NodeProto};

use super::program::OfGraph;

/// Nodes that were fused: a loop, perhaps with what makes its lists and reads them.
#[derive(Debug)]
pub(super) struct Inner {
    /// Their outputs that others read, which tell them from others.
    pub(super) outputs: HashSet<String>,
    /// The nodes, behind the constants that they read.
    pub(super) nodes: Vec<NodeProto>,
}

impl Inner {
    /// Keeps nodes that read these values of the graphs around them.
    pub(super) fn new<'a>(
        outputs: impl Iterator<Item = &'a str>,
        fused: &[NodeProto],
        reads: &[String],
        graph: &OfGraph<'_>,
    ) -> Self {
        let outputs: HashSet<String> = outputs.map(str::to_owned).collect();
        let prefix = fused.iter().flat_map(NodeProto::outputs).next();
        let prefix = prefix.unwrap_or_default();
        let mut nodes = vec![];
        let mut renamed = HashMap::new();
        for name in reads {
            if renamed.contains_key(name) {
                continue;
            }
            if let Some(tensor) = graph.constant(name) {
                let own = format!("{prefix} reads {name}");
                let value = vec![model::tensor("value", tensor)];
                nodes.push(model::node("Constant", &[], &[&own], value));
                renamed.insert(name.clone(), own);
            }
        }
        for node in fused {
            let mut node = node.clone();
            rename(&mut node, &renamed);
            nodes.push(node);
        }
        Self { outputs, nodes }
    }
}

/// Reads values by other names, also in the graphs of a node.
fn rename(node: &mut NodeProto, renamed: &HashMap<String, String>) {
    let in_place = |name: &mut String| {
        if let Some(own) = renamed.get(name) {
            name.clone_from(own);
        }
    };
    node.input.iter_mut().for_each(in_place);
    for graph in node.graphs_mut() {
        rename_in(graph, renamed);
    }
}

fn rename_in(graph: &mut GraphProto, renamed: &HashMap<String, String>) {
    for node in &mut graph.node {
        rename(node, renamed);
    }
    for output in &mut graph.output {
        if let Some(own) = renamed.get(output.name()) {
            output.name = Some(own.clone());
        }
    }
}
