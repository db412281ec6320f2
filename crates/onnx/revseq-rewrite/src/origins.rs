//! The values of a model from which others follow.

use std::collections::{HashMap, HashSet};

use crate::model::{GraphProto, ModelProto, NodeProto};

/// Returns the values from which follow those that some nodes want, and these themselves. Values of one name,
/// in different graphs, count as one.
pub(crate) fn origins<'a>(
    model: &'a ModelProto,
    wanted: impl Fn(&'a NodeProto) -> Vec<&'a str>,
) -> HashSet<&'a str> {
    // The nodes that output a value, or hand it to a graph in them.
    let mut makers: HashMap<&str, Vec<&NodeProto>> = HashMap::new();
    let mut open = Vec::new();
    for node in model.all_nodes() {
        let handed = node.graphs().flat_map(GraphProto::inputs);
        for value in node.outputs().chain(handed) {
            makers.entry(value).or_default().push(node);
        }
        open.extend(wanted(node));
    }
    let mut origins = HashSet::new();
    while let Some(value) = open.pop() {
        if origins.insert(value) {
            for node in makers.get(value).into_iter().flatten() {
                let inner = node.graphs().flat_map(GraphProto::outputs);
                open.extend(node.inputs().chain(inner));
            }
        }
    }
    origins
}
