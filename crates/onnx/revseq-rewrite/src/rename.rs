//! Other names for values that nodes read.

use std::collections::HashMap;

use crate::model::{self, GraphProto, NodeProto};

/// The node that gives a value another name.
pub(crate) fn identity(value: &str, name: &str) -> NodeProto {
    model::node("Identity", &[value], &[name], Vec::new())
}

/// Lets a graph output another value in place of one, under a name of its own: a branch must not output a
/// value twice, nor one of the graphs around it.
pub(crate) fn output_as(graph: &mut GraphProto, output: usize, value: &str, name: &str) {
    graph.node.push(identity(value, name));
    graph.output[output] = model::untyped(name);
}

/// Redirects reads to other values, except where a subgraph shadows the name.
pub(crate) fn rename(nodes: &mut [NodeProto], names: &HashMap<String, String>) {
    for node in nodes {
        for input in &mut node.input {
            if let Some(new) = names.get(input) {
                input.clone_from(new);
            }
        }
        for graph in node.graphs_mut() {
            let mut own = HashMap::new();
            let is_hidden = graph.defined().any(|name| names.contains_key(name));
            if is_hidden {
                own.clone_from(names);
                for name in graph.defined() {
                    own.remove(name);
                }
            }
            let names = if is_hidden { &own } else { names };
            rename(&mut graph.node, names);
            for output in &graph.output.clone() {
                let Some(new) = output.name.as_ref().and_then(|name| names.get(name)) else {
                    continue;
                };
                // A value of the outer graph that the subgraph outputs under its name.
                let old = output.name.clone().unwrap_or_default();
                graph.node.push(identity(new, &old));
            }
        }
    }
}
