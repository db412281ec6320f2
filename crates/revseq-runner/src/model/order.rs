//! Whether nodes have an order in which they can run. ONNX wants them in it; writers
//! forget that, and runtimes sort them.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap, HashSet};

use tract_onnx::pb::{GraphProto, NodeProto};

/// The first node that depends on its own outputs, directly or through a nested graph.
pub(super) fn find_circle(nodes: &[NodeProto]) -> Option<usize> {
    sorted(nodes).err()
}

/// The places of nodes in an order in which they can run, as near to theirs as possible.
///
/// # Errors
/// The first node that depends on its own outputs.
pub(super) fn sorted(nodes: &[NodeProto]) -> Result<Vec<usize>, usize> {
    let mut makers: HashMap<&str, usize> = HashMap::new();
    for (index, node) in nodes.iter().enumerate() {
        makers.extend(named(&node.output).map(|output| (output, index)));
    }
    let needed: Vec<Vec<usize>> = nodes
        .iter()
        .map(|node| makers_read(node, &makers))
        .collect();
    let is_sorted = |(index, needed): (usize, &Vec<usize>)| needed.iter().all(|&it| it < index);
    if needed.iter().enumerate().all(is_sorted) {
        return Ok((0..nodes.len()).collect());
    }
    // Remove nodes that depend only on removed ones: the remaining nodes form cycles.
    let mut waiting: Vec<usize> = needed.iter().map(Vec::len).collect();
    let mut readers: Vec<Vec<usize>> = vec![Vec::new(); nodes.len()];
    for (reader, needed) in needed.iter().enumerate() {
        needed.iter().for_each(|&it| readers[it].push(reader));
    }
    let ready = (0..nodes.len()).filter(|&it| waiting[it] == 0);
    let mut ready: BinaryHeap<Reverse<usize>> = ready.map(Reverse).collect();
    let mut order = Vec::new();
    while let Some(Reverse(node)) = ready.pop() {
        order.push(node);
        for &reader in &readers[node] {
            waiting[reader] -= 1;
            if waiting[reader] == 0 {
                ready.push(Reverse(reader));
            }
        }
    }
    match waiting.iter().position(|&left| left > 0) {
        Some(node) => Err(node),
        None => Ok(order),
    }
}

fn named(names: &[String]) -> impl Iterator<Item = &str> {
    names
        .iter()
        .map(String::as_str)
        .filter(|name| !name.is_empty())
}

fn graphs(node: &NodeProto) -> impl Iterator<Item = &GraphProto> {
    let attributes = node.attribute.iter();
    attributes.flat_map(|attribute| attribute.g.iter().chain(&attribute.graphs))
}

/// The nodes that produce the inputs of a node and of its nested graphs.
fn makers_read(node: &NodeProto, makers: &HashMap<&str, usize>) -> Vec<usize> {
    let mut found: HashSet<usize> = HashSet::new();
    found.extend(named(&node.input).filter_map(|input| makers.get(input)));
    for graph in graphs(node) {
        add_captured(graph, &HashSet::new(), makers, &mut found);
    }
    found.into_iter().collect()
}

/// Adds the producers of the values that a graph captures.
fn add_captured<'a>(
    graph: &'a GraphProto,
    around: &HashSet<&'a str>,
    makers: &HashMap<&str, usize>,
    found: &mut HashSet<usize>,
) {
    let mut own = around.clone();
    own.extend(graph.input.iter().map(|input| input.name.as_str()));
    own.extend(super::initializer_names(graph));
    own.extend(graph.node.iter().flat_map(|node| named(&node.output)));
    let outputs = graph.output.iter().map(|output| output.name.as_str());
    let read = graph.node.iter().flat_map(|node| named(&node.input));
    let captured = read.chain(outputs).filter(|name| !own.contains(name));
    found.extend(captured.filter_map(|name| makers.get(name)));
    for inner in graph.node.iter().flat_map(graphs) {
        add_captured(inner, &own, makers, found);
    }
}
