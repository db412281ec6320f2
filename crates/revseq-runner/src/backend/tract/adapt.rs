//! Rewrites graphs so that tract reads them as they are meant.

use std::collections::{BTreeMap, HashMap, HashSet};

use revseq_graph::ElementType;
use revseq_kernels::DataType;
use tract_onnx::pb::tensor_shape_proto::Dimension;
use tract_onnx::pb::tensor_shape_proto::dimension::Value as DimValue;
use tract_onnx::pb::type_proto::Value as TypeValue;
use tract_onnx::pb::{
    AttributeProto, GraphProto, NodeProto, TensorProto, TensorShapeProto, ValueInfoProto,
    attribute_proto::AttributeType,
};

use crate::model::{Bindings, for_each_declaration, node_label};
use crate::tensor::Tensor;

/// Rewrites a main graph so that tract reads it as it is meant.
pub(super) fn adapt(
    graph: &mut GraphProto,
    inputs: &BTreeMap<String, Tensor>,
    bindings: &Bindings,
) {
    // An input that is fed is no constant, even if it has a default.
    graph
        .initializer
        .retain(|initializer| !inputs.contains_key(&initializer.name));
    for_each_declaration(graph, true, &mut |value, is_main| {
        let fed = is_main.then(|| inputs.get(&value.name)).flatten();
        adapt_declaration(value, fed, is_main, bindings);
    });
    adapt_nodes(graph);
}

/// Puts sizes in the place of symbols; those that stay unknown are left to tract.
fn adapt_declaration(
    value: &mut ValueInfoProto,
    fed: Option<&Tensor>,
    is_main: bool,
    bindings: &Bindings,
) {
    let Some(TypeValue::TensorType(declared)) = value
        .r#type
        .as_mut()
        .and_then(|value_type| value_type.value.as_mut())
    else {
        return;
    };
    if let Some(tensor) = fed {
        let dim = tensor.shape().iter().map(|&size| Dimension {
            value: Some(DimValue::DimValue(size as i64)),
            ..Dimension::default()
        });
        declared.shape = Some(TensorShapeProto { dim: dim.collect() });
        return;
    }
    for dim in declared.shape.iter_mut().flat_map(|shape| &mut shape.dim) {
        if let Some(DimValue::DimParam(name)) = &dim.value {
            let bound = bindings.get(name).filter(|_| is_main);
            dim.value = bound.map(|&size| DimValue::DimValue(size as i64));
        }
    }
}

/// Gives every node a name of its own, and moves initializers that tract would
/// misread into Constant nodes, in a graph and those inside it.
fn adapt_nodes(graph: &mut GraphProto) {
    let (misread, kept): (Vec<_>, Vec<_>) = std::mem::take(&mut graph.initializer)
        .into_iter()
        .partition(is_misread);
    graph.initializer = kept;
    graph
        .input
        .retain(|input| misread.iter().all(|tensor| tensor.name != input.name));
    let constants = misread.into_iter().map(|tensor| NodeProto {
        op_type: "Constant".to_owned(),
        output: vec![tensor.name.clone()],
        attribute: vec![tensor_attribute(tensor)],
        ..NodeProto::default()
    });
    graph.node.splice(0..0, constants);

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
        if node.op_type == "ConstantOfShape" && node.attribute.is_empty() {
            // ONNX's default is a float, tract's a double.
            node.attribute.push(tensor_attribute(TensorProto {
                dims: vec![1],
                data_type: ElementType::Fixed(DataType::Float32).onnx_code(),
                raw_data: 0_f32.to_le_bytes().to_vec(),
                ..TensorProto::default()
            }));
        }
        let is_scan = node.op_type == "Scan";
        for inner in node
            .attribute
            .iter_mut()
            .flat_map(|attribute| &mut attribute.g)
        {
            if is_scan {
                separate_outputs(inner);
            }
            adapt_nodes(inner);
        }
    }
}

fn tensor_attribute(tensor: TensorProto) -> AttributeProto {
    AttributeProto {
        name: "value".to_owned(),
        r#type: AttributeType::Tensor as i32,
        t: Some(tensor),
        ..AttributeProto::default()
    }
}

/// Puts an Identity before every output of a Scan's body. tract gives an output
/// its new axis where it is made, and so to the body's other nodes as well.
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

/// Whether tract would read a tensor from the wrong field: it does with uint32
/// and uint64 unless there is raw data, which an empty tensor has not.
pub(super) fn is_misread(tensor: &TensorProto) -> bool {
    let element_type = ElementType::from_onnx_code(tensor.data_type);
    let unsigned =
        [DataType::Uint32, DataType::Uint64].map(|data_type| Some(ElementType::Fixed(data_type)));
    tensor.raw_data.is_empty() && unsigned.contains(&element_type)
}
