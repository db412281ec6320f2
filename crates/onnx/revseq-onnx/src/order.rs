//! The order of nodes. ONNX demands that a node follows those whose outputs it reads; writers forget
//! it, and ONNX Runtime sorts.

use std::collections::{HashMap, HashSet};

use crate::model::{GraphProto, NodeProto};

/// An order in which the nodes of a graph can run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Order {
    /// The indices of all nodes: the topological order closest to the present one.
    pub nodes: Vec<usize>,
    /// The first node that is listed before one whose output it reads; `None` if the nodes are
    /// sorted already.
    pub first_early: Option<usize>,
}

/// Sorts the nodes of a graph topologically. A node also reads what its subgraphs capture.
///
/// # Errors
/// The index of a node that depends on its own outputs.
pub fn sorted(nodes: &[NodeProto]) -> Result<Order, usize> {
    let mut makers = HashMap::with_capacity(nodes.len());
    for (index, node) in nodes.iter().enumerate() {
        makers.extend(node.outputs().map(|name| (name, index)));
    }
    let before: Vec<Vec<usize>> = nodes
        .iter()
        .map(|node| makers_read(node, &makers))
        .collect();
    let first_early = (0..nodes.len()).find(|&node| before[node].iter().any(|&it| it >= node));
    if first_early.is_none() {
        let nodes = (0..nodes.len()).collect();
        return Ok(Order { nodes, first_early });
    }
    let nodes = topological(&before)?;
    Ok(Order { nodes, first_early })
}

/// An order in which each index follows those that its list names, closest to the present one.
///
/// # Errors
/// An index that follows from itself.
pub(crate) fn topological(before: &[Vec<usize>]) -> Result<Vec<usize>, usize> {
    let mut order = Vec::with_capacity(before.len());
    let mut state = vec![State::New; before.len()];
    // The stack of waiting nodes, each with the index of its next dependency.
    let mut waiting: Vec<(usize, usize)> = Vec::new();
    for node in 0..before.len() {
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
                State::Waits => return Err(needed),
                State::New => {
                    state[needed] = State::Waits;
                    waiting.push((needed, 0));
                }
            }
        }
    }
    Ok(order)
}

#[derive(Clone, Copy, PartialEq)]
enum State {
    New,
    Waits,
    Done,
}

/// The names of the values that a node reads: its inputs, and what its subgraphs capture. A name may
/// be there more than once.
pub fn reads(node: &NodeProto) -> Vec<&str> {
    let mut names: Vec<&str> = node.inputs().collect();
    for graph in node.graphs() {
        captured(graph, &HashSet::new(), &mut |name| names.push(name));
    }
    names
}

/// The nodes whose outputs a node and its subgraphs read.
fn makers_read(node: &NodeProto, makers: &HashMap<&str, usize>) -> Vec<usize> {
    let read = reads(node).into_iter();
    read.filter_map(|name| makers.get(name).copied()).collect()
}

/// Calls `add` with each value that a graph captures.
fn captured<'a>(graph: &'a GraphProto, around: &HashSet<&str>, add: &mut impl FnMut(&'a str)) {
    let mut own = around.clone();
    own.extend(graph.defined());
    let read = graph.node.iter().flat_map(NodeProto::inputs);
    let read = read.chain(graph.outputs());
    read.filter(|name| !own.contains(name)).for_each(&mut *add);
    for inner in graph.node.iter().flat_map(NodeProto::graphs) {
        captured(inner, &own, add);
    }
}

#[cfg(test)]
mod tests {
    use super::{Order, sorted};
    use crate::model::node;

    #[test]
    fn readers_follow_makers() {
        let [first, second] = [
            node("Neg", &["x"], &["y"], Vec::new()),
            node("Neg", &["y"], &["z"], Vec::new()),
        ];
        let ready = sorted(&[first.clone(), second.clone()]);
        let as_listed = Order {
            nodes: vec![0, 1],
            first_early: None,
        };
        assert_eq!(ready, Ok(as_listed));
        let swapped = Order {
            nodes: vec![1, 0],
            first_early: Some(0),
        };
        assert_eq!(sorted(&[second.clone(), first]), Ok(swapped));
        // A circle, and a node that only reads from it.
        let reader = node("Neg", &["z"], &["w"], Vec::new());
        let back = node("Neg", &["z"], &["y"], Vec::new());
        assert_eq!(sorted(&[reader, second, back]), Err(1));
    }
}
