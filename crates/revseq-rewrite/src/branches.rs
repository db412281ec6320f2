//! What a branch of an If may output, before its branches may differ in shape.
//!
//! The shapes of both branches had to be the same before version 11 of ONNX's operators. ONNX Runtime
//! refuses a model where it knows them and they differ. It does not know what a Loop outputs, but
//! knows it of what takes its place.

use std::collections::{HashMap, HashSet};

use crate::captured;
use crate::model::{ModelProto, NodeProto};

/// The first opset in which the branches of an If may differ in shape.
pub(crate) const OWN_SHAPES: i64 = 11;

/// Returns the names of the values from which follows what branches output.
pub(crate) fn values(model: &ModelProto) -> HashSet<&str> {
    let mut values = Values::default();
    let graph = model.graph.as_option().map(|graph| &graph.node);
    let functions = model.functions.iter().map(|function| &function.node);
    for nodes in graph.into_iter().chain(functions) {
        values.look(nodes);
    }
    let mut found = HashSet::new();
    while let Some(name) = values.new.pop() {
        if found.insert(name) {
            for node in values.makers.get(name).into_iter().flatten() {
                values.new.extend(node.inputs());
                let mut inner = HashSet::new();
                for graph in node.graphs() {
                    captured::read_in(graph, &mut inner);
                }
                values.new.extend(inner);
            }
        }
    }
    found
}

#[derive(Default)]
struct Values<'a> {
    /// The nodes that output a value, or hand it to a graph in them, by its name.
    makers: HashMap<&'a str, Vec<&'a NodeProto>>,
    /// The outputs of branches, and values from which these follow.
    new: Vec<&'a str>,
}

impl<'a> Values<'a> {
    fn look(&mut self, nodes: &'a [NodeProto]) {
        for node in nodes {
            for output in node.outputs() {
                self.makers.entry(output).or_default().push(node);
            }
            for graph in node.graphs() {
                for input in graph.inputs() {
                    self.makers.entry(input).or_default().push(node);
                }
                if node.is("If") {
                    self.new.extend(graph.outputs());
                }
                self.look(&graph.node);
            }
        }
    }
}
