//! Sorts nodes topologically. ONNX demands it, writers forget it, and ONNX Runtime sorts.

use std::collections::{HashMap, HashSet};

use crate::model::{GraphProto, ModelProto, NodeProto};
use crate::report::{Exactness, Outcome, Step};

/// Sorts every graph in which a node reads the output of a later one. Graphs with cycles stay as
/// they are.
pub(crate) fn sort(model: &mut ModelProto) -> Vec<Step> {
    let mut steps = Vec::new();
    if let Some(graph) = model.graph.as_option_mut() {
        sort_nodes(&mut graph.node, &mut Vec::new(), &mut steps);
    }
    for function in &mut model.functions {
        let label = format!("function {}", function.name.as_deref().unwrap_or_default());
        sort_nodes(&mut function.node, &mut vec![label], &mut steps);
    }
    steps
}

fn sort_nodes(nodes: &mut Vec<NodeProto>, labels: &mut Vec<String>, steps: &mut Vec<Step>) {
    for (index, node) in nodes.iter_mut().enumerate() {
        if node.graphs().next().is_none() {
            continue;
        }
        labels.push(node.label(index));
        for graph in node.graphs_mut() {
            sort_nodes(&mut graph.node, labels, steps);
        }
        labels.pop();
    }
    let Some((first, order)) = sorted(nodes) else {
        return;
    };
    let node = &nodes[first];
    steps.push(Step {
        pass: "order",
        exactness: Exactness::Exact,
        graph: labels.clone(),
        node: node.label(first),
        operator: node.op().to_owned(),
        outcome: Outcome::Rewritten(
            "moved after the nodes that produce its inputs, as are others".to_owned(),
        ),
    });
    let mut unsorted: Vec<Option<NodeProto>> =
        std::mem::take(nodes).into_iter().map(Some).collect();
    nodes.extend(order.into_iter().filter_map(|index| unsorted[index].take()));
}

/// The first node that reads the output of a later one, and the topological order closest to the
/// present one; `None` if the nodes are sorted or cyclic.
fn sorted(nodes: &[NodeProto]) -> Option<(usize, Vec<usize>)> {
    let mut makers = HashMap::new();
    for (index, node) in nodes.iter().enumerate() {
        makers.extend(node.outputs().map(|name| (name, index)));
    }
    let before: Vec<Vec<usize>> = nodes
        .iter()
        .map(|node| makers_read(node, &makers))
        .collect();
    let first = (0..nodes.len()).find(|&node| before[node].iter().any(|&it| it >= node))?;
    let mut order = Vec::with_capacity(nodes.len());
    let mut state = vec![State::New; nodes.len()];
    // The stack of waiting nodes, each with the index of its next dependency.
    let mut waiting: Vec<(usize, usize)> = Vec::new();
    for node in 0..nodes.len() {
        if state[node] == State::New {
            state[node] = State::Waits;
            waiting.push((node, 0));
        }
        while let Some((node, next)) = waiting.last_mut() {
            let Some(&needed) = before[*node].get(*next) else {
                state[*node] = State::Done;
                order.push(*node);
                waiting.pop();
                continue;
            };
            *next += 1;
            match state[needed] {
                State::Done => {}
                State::Waits => return None,
                State::New => {
                    state[needed] = State::Waits;
                    waiting.push((needed, 0));
                }
            }
        }
    }
    Some((first, order))
}

#[derive(Clone, Copy, PartialEq)]
enum State {
    New,
    Waits,
    Done,
}

/// The nodes whose outputs a node and its subgraphs read.
fn makers_read(node: &NodeProto, makers: &HashMap<&str, usize>) -> Vec<usize> {
    let mut found = Vec::new();
    let mut add = |name: &str| found.extend(makers.get(name));
    node.inputs().for_each(&mut add);
    for graph in node.graphs() {
        captured(graph, &HashSet::new(), &mut add);
    }
    found
}

/// Calls `add` with each value that a graph captures.
fn captured(graph: &GraphProto, around: &HashSet<&str>, add: &mut impl FnMut(&str)) {
    let mut own = around.clone();
    own.extend(graph.input.iter().filter_map(|value| value.name.as_deref()));
    own.extend(graph.initializer.iter().filter_map(|it| it.name.as_deref()));
    own.extend(graph.node.iter().flat_map(NodeProto::outputs));
    let outputs = graph
        .output
        .iter()
        .filter_map(|value| value.name.as_deref());
    let read = graph.node.iter().flat_map(NodeProto::inputs).chain(outputs);
    read.filter(|name| !own.contains(name)).for_each(&mut *add);
    for node in &graph.node {
        for inner in node.graphs() {
            captured(inner, &own, add);
        }
    }
}
