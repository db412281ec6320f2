//! Fills in details that ONNX leaves open and tract requires, and mends what tract misreads.

use std::collections::{HashMap, HashSet};

use tract_onnx::pb::attribute_proto::AttributeType;
use tract_onnx::pb::tensor_proto::{DataLocation, DataType};
use tract_onnx::pb::tensor_shape_proto::dimension::Value as DimValue;
use tract_onnx::pb::type_proto::Value as TypeValue;
use tract_onnx::pb::{AttributeProto, GraphProto, ModelProto, NodeProto, TensorProto};
use tract_onnx::prelude::*;
use tract_onnx::tract_hir::internal::*;

/// Brings a prepared model's graphs into a form that tract reads as it is meant.
pub(super) fn complete(model: &mut ModelProto) {
    // Functions that are called have been inlined.
    model.functions.clear();
    if let Some(graph) = &mut model.graph {
        move_misread(graph);
        forget_names_of_sizes(graph);
        adapt(graph);
    }
}

/// Completes a graph and its nested graphs: every node gets a unique name, and every output of a
/// Scan's body a separate node.
///
/// [`model_for_path`](crate::model_for_path) calls this; call it yourself to parse models with
/// your own operator register.
pub fn adapt(graph: &mut GraphProto) {
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

/// Moves initializers that tract would misread into Constant nodes, in a graph and those inside it.
fn move_misread(graph: &mut GraphProto) {
    let (moved, kept): (Vec<_>, Vec<_>) = std::mem::take(&mut graph.initializer)
        .into_iter()
        .partition(is_misread);
    graph.initializer = kept;
    let names: HashSet<&str> = moved.iter().map(|tensor| tensor.name.as_str()).collect();
    graph
        .input
        .retain(|input| !names.contains(input.name.as_str()));
    let constants = moved.into_iter().map(|tensor| NodeProto {
        op_type: "Constant".to_owned(),
        output: vec![tensor.name.clone()],
        attribute: vec![AttributeProto {
            name: "value".to_owned(),
            r#type: AttributeType::Tensor as i32,
            t: Some(tensor),
            ..AttributeProto::default()
        }],
        ..NodeProto::default()
    });
    graph.node.splice(0..0, constants);
    let attributes = graph.node.iter_mut().flat_map(|node| &mut node.attribute);
    attributes
        .flat_map(|attribute| attribute.g.iter_mut().chain(&mut attribute.graphs))
        .for_each(move_misread);
}

/// Whether tract reads a tensor from the wrong field: uint32 and uint64, unless there is raw data,
/// which an empty tensor has not.
fn is_misread(tensor: &TensorProto) -> bool {
    let unsigned = [DataType::Uint32 as i32, DataType::Uint64 as i32];
    tensor.raw_data.is_empty()
        && tensor.data_location != Some(DataLocation::External as i32)
        && unsigned.contains(&tensor.data_type)
}

/// Returns the value of a tensor that tract would misread.
pub(super) fn misread(tensor: &TensorProto) -> Option<TractResult<Tensor>> {
    is_misread(tensor).then(|| {
        let sizes = tensor.dims.iter().map(|&size| usize::try_from(size));
        let shape = sizes.collect::<Result<TVec<usize>, _>>()?;
        let data = &tensor.uint64_data;
        ensure!(
            shape
                .iter()
                .try_fold(1, |all: usize, &it| all.checked_mul(it))
                == Some(data.len()),
            "tensor {:?} of sizes {shape:?} has {} elements",
            tensor.name,
            data.len()
        );
        if tensor.data_type == DataType::Uint64 as i32 {
            return Tensor::from_shape(&shape, data);
        }
        let narrow = data.iter().map(|&it| u32::try_from(it));
        Tensor::from_shape(&shape, &narrow.collect::<Result<Vec<_>, _>>()?)
    })
}
