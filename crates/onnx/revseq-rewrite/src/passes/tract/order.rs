//! Sorts nodes topologically. ONNX demands it, writers forget it, and ONNX Runtime sorts.
//!
//! It comes before the other passes: dead nodes are looked for from the last node to the first.
//! Inner graphs are sorted on their own, before the graph around them. The report has one step for
//! each graph that was not sorted, at its first misplaced node.

use crate::model::{ModelProto, NodeProto};
use crate::order;
use crate::report::{Exactness, Outcome, Step};

/// Its name as a pass.
pub(crate) const NAME: &str = "order";

/// Sorts every graph in which a node reads the output of a later one. Graphs with cycles stay as
/// they are.
pub(crate) fn sort(model: &mut ModelProto) -> Vec<Step> {
    let mut steps = Vec::new();
    if let Some(graph) = model.graph.as_option_mut() {
        sort_nodes(&mut graph.node, &mut Vec::new(), &mut steps);
    }
    for function in &mut model.functions {
        let label = format!("function {}", function.name());
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
    let Ok(order) = order::sorted(nodes) else {
        return;
    };
    let Some(first) = order.first_early else {
        return;
    };
    let node = &nodes[first];
    steps.push(Step {
        pass: NAME,
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
    let order = order.nodes.into_iter();
    nodes.extend(order.filter_map(|index| unsorted[index].take()));
}
