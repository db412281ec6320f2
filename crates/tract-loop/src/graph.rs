//! Graphs within nodes, in the form that tract reads.

use std::collections::HashSet;

use tract_onnx::pb::{GraphProto, NodeProto};

/// A graph without what it declares of its values, whatever its names are.
///
/// What a graph's inputs are is known from what they are fed; exporters often declare the
/// shapes of the first step. Without the declarations, tract takes the `inputs` for captured
/// values.
///
/// Each output is made by a node of its own, as tract does not read a graph that outputs what
/// it was given, or one value twice. Each node has a name of its own, as tract has constants,
/// captured values and nodes in one namespace, where a node without a name has that of its
/// first output.
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

/// The names of all values of a graph, and of the graphs within it.
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

/// A name that is not taken, and is from now on.
fn free(mut name: String, taken: &mut HashSet<String>) -> String {
    while !taken.insert(name.clone()) {
        name.push('~');
    }
    name
}

/// Gives each node a name that no other node of tract's has.
fn name_nodes(graph: &mut GraphProto, taken: &mut HashSet<String>) {
    // What no node makes is a node itself.
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
