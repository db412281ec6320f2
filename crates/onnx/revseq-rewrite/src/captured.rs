//! Keeps rewritten models from ending the process of ONNX Runtime.
//!
//! Its optimizer takes a DequantizeLinear behind the operators that only move elements. If a subgraph
//! reads what the last of them outputs, it writes behind the inputs of the node with that subgraph:
//! versions up to 1.32 end the process when they load the model. A pass may write such an operator,
//! such as a Slice for a ReverseSequence. A Sum of one operand before it changes nothing, and stops
//! the optimizer.
//!
//! ```text
//! DequantizeLinear → Slice → Loop, whose body reads it
//!   =>  DequantizeLinear → Sum → Slice → Loop
//! ```

use std::collections::{HashMap, HashSet};

use crate::model::{self, GraphProto, ModelProto, NodeProto};
use crate::path::{Path, graph_at};
use crate::scope::Names;

/// The operators behind which a DequantizeLinear moves.
const MOVING: &[&str] = &[
    "MaxPool",
    "Reshape",
    "Slice",
    "Squeeze",
    "Transpose",
    "Unsqueeze",
];

/// The operators that the optimizer may remove before, such as a product with 1.
const REMOVED: &[&str] = &[
    "Add", "Cast", "Div", "Dropout", "Expand", "Identity", "Mul", "Sub",
];

const DEQUANTIZE: &str = "DequantizeLinear";

/// An operator that makes a value which is read in a subgraph.
struct Place {
    path: Path,
    index: usize,
    /// The value that is read.
    value: String,
}

/// The values of a model at which the optimizer ends the process.
pub(crate) fn values(model: &ModelProto) -> HashSet<String> {
    places(model).into_iter().map(|it| it.value).collect()
}

/// Keeps the optimizer from those values of a model that it did not have before it was rewritten.
pub(crate) fn protect(model: &mut ModelProto, before: &HashSet<String>, names: &Names) {
    let next = |model: &ModelProto| {
        let mut places = places(model).into_iter();
        places.find(|place| !before.contains(&place.value))
    };
    while let Some(Place { path, index, value }) = next(model) {
        let nodes = graph_at(model, &path).nodes;
        let sum = names.fresh(&format!("{value}/Sum:0"));
        let data = std::mem::replace(&mut nodes[index].input[0], sum.clone());
        let mut node = model::node("Sum", &[&data], &[&sum], Vec::new());
        node.name = Some(names.fresh(&format!("{value}/Sum")));
        nodes.insert(index, node);
    }
}

fn places(model: &ModelProto) -> Vec<Place> {
    let mut search = Search::default();
    if !model.all_nodes().any(|node| node.op() == DEQUANTIZE) {
        return search.places;
    }
    if let Some(graph) = model.graph.as_option() {
        search.nodes(&graph.node, &Path::default());
    }
    for (index, function) in model.functions.iter().enumerate() {
        search.nodes(&function.node, &Path::function(index));
    }
    search.places
}

#[derive(Default)]
struct Search<'a> {
    /// The nodes that make the values of the graphs around, and of the one in turn, each with its
    /// index.
    makers: Vec<HashMap<&'a str, (usize, &'a NodeProto)>>,
    places: Vec<Place>,
}

impl<'a> Search<'a> {
    fn nodes(&mut self, nodes: &'a [NodeProto], path: &Path) {
        let mut makers = HashMap::new();
        let mut captured = HashSet::new();
        for (index, node) in nodes.iter().enumerate() {
            makers.extend(node.outputs().map(|output| (output, (index, node))));
            captured.extend(node.graphs().flat_map(read_in));
        }
        let mut captured: Vec<&str> = captured.into_iter().collect();
        captured.sort_unstable();
        self.makers.push(makers);
        for value in captured {
            if let Some(index) = self.moved(value) {
                self.places.push(Place {
                    path: path.clone(),
                    index,
                    value: value.to_owned(),
                });
            }
        }
        for (index, node) in nodes.iter().enumerate() {
            for (number, graph) in node.graphs().enumerate() {
                self.nodes(&graph.node, &path.inner(index, number));
            }
        }
        self.makers.pop();
    }

    /// The index of the node that moves what a DequantizeLinear makes, if a value of the graph in turn
    /// comes from one.
    fn moved(&self, value: &str) -> Option<usize> {
        let own = self.makers.last()?;
        // Each value with the node that moves it, if one does.
        let mut next = vec![(value, None)];
        let mut seen = HashSet::new();
        while let Some((value, moved)) = next.pop() {
            if !seen.insert((value, moved)) {
                continue;
            }
            let maker = match moved {
                None => own.get(value),
                Some(_) => self.makers.iter().rev().find_map(|it| it.get(value)),
            };
            let Some(&(index, node)) = maker else {
                continue;
            };
            match node.op() {
                DEQUANTIZE if moved.is_some() => return moved,
                op if MOVING.contains(&op) => {
                    let data = node.input(0);
                    next.extend(data.map(|data| (data, moved.or(Some(index)))));
                }
                // A number that changes nothing may be either operand.
                op if REMOVED.contains(&op) => {
                    next.extend(node.inputs().take(2).map(|input| (input, moved)));
                }
                _ => {}
            }
        }
        None
    }
}

/// The names that a graph and those in it read.
pub(crate) fn read_in(graph: &GraphProto) -> impl Iterator<Item = &str> {
    graph.with_inner().flat_map(|graph| {
        let read = graph.node.iter().flat_map(NodeProto::inputs);
        graph.outputs().chain(read)
    })
}
