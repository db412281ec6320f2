//! What a branch of an If may output, before its branches may differ in shape.
//!
//! The shapes of both branches had to be the same before version 11 of ONNX's operators. ONNX Runtime
//! refuses a model where it knows them and they differ. It does not know what a Loop outputs, but
//! knows it of what takes its place.

use std::collections::{HashMap, HashSet};

use crate::captured;
use crate::model::{GraphProto, ModelProto, NodeProto};

/// The first opset in which the branches of an If may differ in shape.
pub(crate) const OWN_SHAPES: i64 = 11;

/// Returns the names of the values from which follows what branches output.
pub(crate) fn values(model: &ModelProto) -> HashSet<&str> {
    let mut values = Values::default();
    model.all_nodes().for_each(|node| values.look(node));
    let mut found = HashSet::new();
    while let Some(name) = values.new.pop() {
        if found.insert(name) {
            for node in values.makers.get(name).into_iter().flatten() {
                values.new.extend(node.inputs());
                values.new.extend(node.graphs().flat_map(captured::read_in));
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
    fn look(&mut self, node: &'a NodeProto) {
        let handed = node.graphs().flat_map(GraphProto::inputs);
        for value in node.outputs().chain(handed) {
            self.makers.entry(value).or_default().push(node);
        }
        if node.is("If") {
            self.new.extend(node.graphs().flat_map(GraphProto::outputs));
        }
    }
}
