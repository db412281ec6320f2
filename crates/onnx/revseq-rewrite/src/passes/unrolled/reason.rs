//! Says of products that look like those of a layer's steps that they are not.
//!
//! The products of a state have the same weights, and each multiplies what follows from the one before.
//! A decoder that reads its own output is of this kind, and so is a step with attention.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap, HashSet};

use crate::pass::Verdict;
use crate::scope::Source;

use super::chain::Chain;
use super::{Graph, MINIMUM_STEPS, is_product};

/// The most nodes between the products of two steps.
const MAXIMUM_BETWEEN: usize = 256;

/// Leaves the first of the products of each state that no cell has.
pub(super) fn leave(
    graph: &Graph<'_>,
    chains: &[Chain<'_, '_>],
    verdicts: &mut HashMap<usize, Verdict>,
) {
    let cells = chains.iter().flat_map(|chain| &chain.cells);
    let of_cells: HashSet<usize> = cells.flat_map(|it| &it.nodes).copied().collect();
    let mut last: Option<&[usize]> = None;
    let groups = groups(graph);
    for (weights, products) in &groups {
        let &[first, second, third, ..] = products.as_slice() else {
            continue;
        };
        // Those of one step are told once.
        let is_told = last.is_some_and(|last| last[0] < first && first < last[1]);
        let mut all = products.iter();
        if is_told
            || all.any(|index| of_cells.contains(index))
            || !follows(graph, first, second)
            || !follows(graph, second, third)
        {
            continue;
        }
        last = Some(products);
        let why = format!(
            "the weights {weights} are multiplied {} times by what follows from the product before, \
             as in a layer, but not in an LSTM, GRU or RNN cell that reads a step of a sequence of \
             three axes; a cell that reads its own output, and one with attention, is none",
            products.len()
        );
        verdicts.insert(first, Err(why.into()));
    }
}

/// The products with the same weights, in order of the first.
fn groups<'a>(graph: &Graph<'a>) -> Vec<(&'a str, Vec<usize>)> {
    let mut places: HashMap<&str, usize> = HashMap::new();
    let mut groups: Vec<(&str, Vec<usize>)> = Vec::new();
    for (index, node) in graph.scope.nodes.iter().enumerate() {
        let Some(weights) = node
            .input(1)
            .filter(|it| is_product(node) && is_constant(graph, it))
        else {
            continue;
        };
        let place = *places.entry(weights).or_insert_with(|| {
            groups.push((weights, Vec::new()));
            groups.len() - 1
        });
        groups[place].1.push(index);
    }
    groups.retain(|(_, products)| products.len() >= MINIMUM_STEPS);
    groups
}

/// Whether weights are in the model, or turned.
fn is_constant(graph: &Graph<'_>, weights: &str) -> bool {
    let value = match graph.scope.first_output_of(weights, "Transpose") {
        Some(node) => node.input(0).unwrap_or_default(),
        None => weights,
    };
    match graph.scope.source(value) {
        Some((_, Source::Initializer(_))) => true,
        Some((_, Source::Node { node, .. })) => node.is("Constant"),
        _ => false,
    }
}

/// Whether what a node makes reaches another, not far from it.
fn follows(graph: &Graph<'_>, first: usize, second: usize) -> bool {
    let mut seen = HashSet::new();
    let mut open = BinaryHeap::from([Reverse(first)]);
    while let Some(Reverse(index)) = open.pop()
        && seen.len() < MAXIMUM_BETWEEN
        && index <= second
    {
        if index == second {
            return true;
        }
        if seen.insert(index) {
            let outputs = graph.scope.nodes[index].outputs();
            let readers = outputs.flat_map(|output| graph.readers(output));
            open.extend(readers.copied().map(Reverse));
        }
    }
    false
}
