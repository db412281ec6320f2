//! Rewrites graphs so that tract reads them as they are meant.

use std::collections::{BTreeMap, HashSet};

use revseq_graph::ElementType;
use revseq_kernels::DataType;
use tract_onnx::pb::tensor_shape_proto::Dimension;
use tract_onnx::pb::tensor_shape_proto::dimension::Value as DimValue;
use tract_onnx::pb::type_proto::Value as TypeValue;
use tract_onnx::pb::{
    AttributeProto, GraphProto, NodeProto, TensorProto, TensorShapeProto, ValueInfoProto,
    attribute_proto::AttributeType,
};

use crate::model::{Bindings, for_each_declaration};
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
    move_misread(graph);
    revseq_tract::adapt(graph);
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

/// Moves initializers that tract would misread into Constant nodes, in a graph and those
/// inside it.
fn move_misread(graph: &mut GraphProto) {
    let (misread, kept): (Vec<_>, Vec<_>) = std::mem::take(&mut graph.initializer)
        .into_iter()
        .partition(is_misread);
    graph.initializer = kept;
    let moved: HashSet<&str> = misread.iter().map(|tensor| tensor.name.as_str()).collect();
    graph
        .input
        .retain(|input| !moved.contains(input.name.as_str()));
    let constants = misread.into_iter().map(|tensor| NodeProto {
        op_type: "Constant".to_owned(),
        output: vec![tensor.name.clone()],
        attribute: vec![tensor_attribute(tensor)],
        ..NodeProto::default()
    });
    graph.node.splice(0..0, constants);
    let attributes = graph.node.iter_mut().flat_map(|node| &mut node.attribute);
    attributes
        .flat_map(|attribute| &mut attribute.g)
        .for_each(move_misread);
}

fn tensor_attribute(tensor: TensorProto) -> AttributeProto {
    AttributeProto {
        name: "value".to_owned(),
        r#type: AttributeType::Tensor as i32,
        t: Some(tensor),
        ..AttributeProto::default()
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
