//! Where a graph lies in a model.

use std::collections::HashSet;

use crate::model::{self, ModelProto, NodeProto};

/// The path to a graph in a model.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Path {
    /// The enclosing function, unless it is in the main graph.
    pub(crate) function: Option<usize>,
    /// The steps from there inwards, each the index of a node and that of its subgraph.
    pub(crate) steps: Vec<(usize, usize)>,
}

/// The nodes of a graph, and its names that are visible elsewhere.
pub(crate) fn nodes_at<'a>(
    model: &'a mut ModelProto,
    path: &Path,
) -> (&'a mut Vec<NodeProto>, HashSet<String>) {
    let (mut nodes, mut kept) = match path.function {
        Some(index) => {
            let function = &mut model.functions[index];
            let outputs = function.output.iter().cloned().collect();
            (&mut function.node, outputs)
        }
        None => {
            let trained = model::trained_names(model);
            let mut kept: HashSet<String> = trained.into_iter().map(str::to_owned).collect();
            let graph = model.graph.get_or_insert_default();
            kept.extend(graph.seen_elsewhere().map(str::to_owned));
            (&mut graph.node, kept)
        }
    };
    for &(index, number) in &path.steps {
        let graph = nodes[index].graphs_mut().nth(number);
        let graph = graph.expect("the path was made from this model");
        kept = graph.seen_elsewhere().map(str::to_owned).collect();
        nodes = &mut graph.node;
    }
    (nodes, kept)
}
