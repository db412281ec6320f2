//! Nodes in an order in which they can run. ONNX demands it, writers forget it, and
//! ONNX Runtime sorts.

use std::collections::{HashMap, HashSet};

use crate::model::{GraphProto, ModelProto, NodeProto};
use crate::report::{Exactness, Outcome, Step};

/// Sorts the nodes of every graph in which one reads what a later one gives. Where
/// they go round in circles they stay as they are.
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
            "behind the nodes that give what it reads, as are others".to_owned(),
        ),
    });
    let mut unsorted: Vec<Option<NodeProto>> =
        std::mem::take(nodes).into_iter().map(Some).collect();
    nodes.extend(order.into_iter().filter_map(|index| unsorted[index].take()));
}

/// The first node that reads what a later one gives, and the order in which the nodes
/// can run that is next to theirs; `None` if that is theirs, or there is none.
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
    // The nodes that wait for others, and which of those is next.
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

/// The nodes that give what a node and the graphs within it read.
fn makers_read(node: &NodeProto, makers: &HashMap<&str, usize>) -> Vec<usize> {
    let mut found = Vec::new();
    let mut add = |name: &str| found.extend(makers.get(name));
    node.inputs().for_each(&mut add);
    for graph in node.graphs() {
        captured(graph, &HashSet::new(), &mut add);
    }
    found
}

/// Calls a function with the values that a graph reads and does not make.
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
