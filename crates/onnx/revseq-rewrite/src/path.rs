//! Where a graph lies in a model.

use std::collections::HashSet;

use crate::model::{self, ModelProto, NodeProto, ValueInfoProto};

/// The path to a graph in a model.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Path {
    /// The enclosing function, unless it is in the main graph.
    pub(crate) function: Option<usize>,
    /// The steps from there inwards, each the index of a node and that of its subgraph.
    pub(crate) steps: Vec<(usize, usize)>,
}

impl Path {
    /// The path to a function.
    pub(crate) fn function(index: usize) -> Self {
        Self {
            function: Some(index),
            steps: Vec::new(),
        }
    }

    /// The path to a graph of a node in the graph here.
    pub(crate) fn inner(&self, node: usize, graph: usize) -> Self {
        let mut inner = self.clone();
        inner.steps.push((node, graph));
        inner
    }
}

/// A graph in a model.
pub(crate) struct GraphMut<'a> {
    pub(crate) nodes: &'a mut Vec<NodeProto>,
    /// The declarations of its nodes' outputs.
    pub(crate) declared: &'a mut Vec<ValueInfoProto>,
    /// Its names that are visible elsewhere.
    pub(crate) kept: HashSet<String>,
}

/// The graph at a path.
pub(crate) fn graph_at<'a>(model: &'a mut ModelProto, path: &Path) -> GraphMut<'a> {
    let mut graph = match path.function {
        Some(index) => {
            let function = &mut model.functions[index];
            let outputs = function.output.iter().cloned().collect();
            GraphMut {
                nodes: &mut function.node,
                declared: &mut function.value_info,
                kept: outputs,
            }
        }
        None => {
            let trained = model::trained_names(model);
            let mut kept: HashSet<String> = trained.into_iter().map(str::to_owned).collect();
            let graph = model.graph.get_or_insert_default();
            kept.extend(graph.seen_elsewhere().map(str::to_owned));
            GraphMut {
                nodes: &mut graph.node,
                declared: &mut graph.value_info,
                kept,
            }
        }
    };
    for &(index, number) in &path.steps {
        let inner = graph.nodes[index].graphs_mut().nth(number);
        let inner = inner.expect("the path was made from this model");
        graph = GraphMut {
            kept: inner.seen_elsewhere().map(str::to_owned).collect(),
            nodes: &mut inner.node,
            declared: &mut inner.value_info,
        };
    }
    graph
}
