//! Fills in details that ONNX leaves open and tract requires.

use std::collections::{HashMap, HashSet};

use tract_onnx::pb::tensor_shape_proto::dimension::Value as DimValue;
use tract_onnx::pb::type_proto::Value as TypeValue;
use tract_onnx::pb::{GraphProto, ModelProto, NodeProto};

use super::weights;

/// Brings a prepared model's graphs into a form that tract reads as it is meant.
pub(super) fn complete(model: &mut ModelProto) {
    // Functions that are called have been inlined.
    model.functions.clear();
    if let Some(graph) = &mut model.graph {
        forget_names_of_sizes(graph);
        adapt(graph);
        // The last: they get the names of their tensors, which no node has now.
        weights::into_nodes(graph);
    }
}

/// Completes a graph and its nested graphs: every node gets a unique name, and every output of a Scan's
/// body a separate node.
fn adapt(graph: &mut GraphProto) {
    let inputs = graph.input.iter().map(|input| input.name.clone());
    let mut taken: HashSet<String> = inputs
        .chain(graph.initializer.iter().map(|tensor| tensor.name.clone()))
        .collect();
    let mut next: HashMap<String, usize> = HashMap::new();
    for (index, node) in graph.node.iter_mut().enumerate() {
        let label = node_label(index, node);
        let mut name = label.clone();
        while !taken.insert(name.clone()) {
            let number = next.entry(label.clone()).or_insert(1);
            *number += 1;
            name = format!("{label}~{number}");
        }
        node.name = name;
        let is_scan = node.op_type == "Scan";
        let attributes = node.attribute.iter_mut();
        for inner in attributes.flat_map(|attribute| &mut attribute.g) {
            if is_scan {
                separate_outputs(inner);
            }
            adapt(inner);
        }
    }
}

/// Puts an Identity before every output of a Scan's body: tract adds the scan output's new axis at
/// the producing node, and so for the body's other nodes as well.
fn separate_outputs(body: &mut GraphProto) {
    let outputs = body.node.iter().flat_map(|node| &node.output);
    let inputs = body.input.iter().map(|input| &input.name);
    let stored = body.initializer.iter().map(|tensor| &tensor.name);
    let mut taken: HashSet<String> = outputs.chain(inputs).chain(stored).cloned().collect();
    for output in &mut body.output {
        let mut name = format!("{}~output", output.name);
        while !taken.insert(name.clone()) {
            name.push('~');
        }
        body.node.push(NodeProto {
            op_type: "Identity".to_owned(),
            input: vec![output.name.clone()],
            output: vec![name.clone()],
            ..NodeProto::default()
        });
        output.name = name;
    }
}

/// A node's name in messages: its own, or its operator and place.
pub(crate) fn node_label(index: usize, node: &NodeProto) -> String {
    if node.name.is_empty() {
        format!("{}#{index}", node.op_type)
    } else {
        node.name.clone()
    }
}

/// Removes the symbols from the sizes that inner graphs declare: exporters give one name to sizes
/// that differ, and tract would take them for equal.
fn forget_names_of_sizes(graph: &mut GraphProto) {
    let attributes = graph.node.iter_mut().flat_map(|node| &mut node.attribute);
    for inner in attributes.flat_map(|it| it.g.iter_mut().chain(&mut it.graphs)) {
        for value in inner.input.iter_mut().chain(&mut inner.output) {
            let declared = value.r#type.as_mut().and_then(|it| it.value.as_mut());
            let Some(TypeValue::TensorType(tensor)) = declared else {
                continue;
            };
            for dim in tensor.shape.iter_mut().flat_map(|shape| &mut shape.dim) {
                dim.value
                    .take_if(|value| matches!(value, DimValue::DimParam(_)));
            }
        }
        forget_names_of_sizes(inner);
    }
}
