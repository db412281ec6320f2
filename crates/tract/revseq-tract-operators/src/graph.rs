//! Rewrites subgraphs into a form that tract reads.
//!
//! The bodies of Loop and If are parsed as graphs of their own. tract takes each name that such a
//! graph does not define for a captured value, and keeps the names of nodes and values in one
//! table. So declared inputs go, and names become unique.
//!
//! ```text
//! body(step, x) { output x, x }  →  body() { x.out = Identity(x), x.out~ = Identity(x) }
//! ```

use std::collections::HashSet;

use tract_onnx::pb::{GraphProto, NodeProto};

/// A graph without declared types, with unique names.
///
/// The types of a graph's inputs follow from their values, and exporters often declare the shapes
/// of the first step only. Without the declarations, tract takes the `inputs` for captured values.
///
/// Each output gets its own node, since tract does not read a graph that outputs its input, or one
/// value twice. Each node gets a unique name, since tract keeps constants, captured values and
/// nodes in one namespace, and an unnamed node takes the name of its first output.
pub(crate) fn self_contained(graph: &GraphProto, inputs: &[&str]) -> GraphProto {
    let mut graph = graph.clone();
    graph.input.clear();
    graph.value_info.clear();
    graph
        .initializer
        .retain(|tensor| !inputs.contains(&tensor.name.as_str()));

    let mut taken: HashSet<String> = inputs.iter().map(|&input| input.to_owned()).collect();
    values(&graph, &mut taken);
    name_nodes(&mut graph, &mut taken);
    for output in &mut graph.output {
        let name = free(format!("{}.out", output.name), &mut taken);
        graph.node.push(NodeProto {
            op_type: "Identity".to_owned(),
            name: name.clone(),
            input: vec![output.name.clone()],
            output: vec![name.clone()],
            ..NodeProto::default()
        });
        output.name = name;
        output.r#type = None;
    }
    graph
}

/// Collects the names of all values of a graph and its subgraphs.
fn values(graph: &GraphProto, to: &mut HashSet<String>) {
    to.extend(graph.initializer.iter().map(|tensor| tensor.name.clone()));
    let declared = graph.input.iter().chain(&graph.output);
    to.extend(declared.map(|value| value.name.clone()));
    for node in &graph.node {
        to.extend(node.input.iter().chain(&node.output).cloned());
        let graphs = node.attribute.iter();
        for graph in graphs.flat_map(|it| it.g.iter().chain(&it.graphs)) {
            values(graph, to);
        }
    }
}

/// Reserves a free name.
fn free(mut name: String, taken: &mut HashSet<String>) -> String {
    while !taken.insert(name.clone()) {
        name.push('~');
    }
    name
}

/// Gives each node a unique name.
fn name_nodes(graph: &mut GraphProto, taken: &mut HashSet<String>) {
    // Values without a producer become nodes themselves.
    let mut used = taken.clone();
    for output in graph.node.iter().flat_map(|node| &node.output) {
        used.remove(output);
    }
    taken.extend(graph.node.iter().map(|node| node.name.clone()));
    for node in &mut graph.node {
        let candidates = [&node.name].into_iter().chain(&node.output);
        let name = candidates.chain([&node.op_type]).find(|it| !it.is_empty());
        let name = name.cloned().unwrap_or_default();
        node.name = match used.insert(name.clone()) {
            true => name,
            false => free(name, taken),
        };
    }
}
