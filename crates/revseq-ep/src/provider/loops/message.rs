//! A graph of ONNX Runtime's as a message of ONNX.
//!
//! The nodes stand in the order of the graph. Large constants stay where they are, and are external data
//! in the message, unless a loop reads them: recognising its cell needs their values.

use std::collections::HashSet;

use revseq_onnx::model::{self, tensor_type};
use revseq_onnx::proto::attribute_proto::AttributeType;
use revseq_onnx::proto::{
    AttributeProto, GraphProto, ModelProto, NodeProto, OperatorSetIdProto, StringStringEntryProto,
    TensorProto, TensorShapeProto, TypeProto, ValueInfoProto, tensor_proto, tensor_shape_proto,
    type_proto,
};

use crate::plugin::error::Error;
use crate::plugin::graph::{Graph, GraphNode, Value};
use crate::plugin::node::TypeAndSizes;

/// The domain of nodes that have an attribute which no message can hold here. No pass knows it.
pub(super) const UNREAD: &str = "unread";

/// The bytes from which on a constant is large: no shape and no list of axes is.
const LARGE: usize = 1 << 10;

/// The operators whose graphs are loops.
const LOOPS: [&str; 2] = ["Loop", "Scan"];

/// Whether an operator is a loop.
pub(super) fn is_loop((domain, op_type): &(String, String)) -> bool {
    model::domain(Some(domain)).is_empty() && LOOPS.contains(&&**op_type)
}

/// Reads a graph and the graphs in it. What it reads of the graphs around is an input, or a constant.
pub(super) fn model(graph: Graph<'_>) -> Result<ModelProto, Error> {
    let nodes = graph.nodes()?;
    let mut wanted = wanted(&nodes)?;
    let mut message = read_graph(graph, &mut wanted, false)?;
    add_outer(&nodes, &mut message, &wanted)?;
    let imports = graph.operator_sets()?.into_iter();
    Ok(ModelProto {
        ir_version: Some(graph.ir_version()?),
        opset_import: imports
            .map(|(domain, version)| OperatorSetIdProto {
                domain: Some(domain),
                version: Some(version),
                ..OperatorSetIdProto::default()
            })
            .collect(),
        graph: message.into(),
        ..ModelProto::default()
    })
}

/// The constants whose values are wanted: those that a loop reads, or a node that reads constants only.
fn wanted(nodes: &[GraphNode<'_>]) -> Result<HashSet<String>, Error> {
    let mut wanted = HashSet::new();
    let mut computed = HashSet::new();
    for node in nodes {
        let inputs = node.inputs()?;
        let mut read = Vec::with_capacity(inputs.len());
        let mut is_constant = true;
        for value in inputs {
            let name = value.name()?;
            is_constant &=
                name.is_empty() || computed.contains(&name) || !value.constant()?.is_null();
            read.push(name);
        }
        if is_constant {
            computed.extend(names(node.outputs()?)?);
        }
        let is_loop = is_loop(&node.operator()?);
        if is_loop {
            read.extend(names(node.captured()?)?);
        }
        if is_loop || is_constant {
            wanted.extend(read);
        }
    }
    Ok(wanted)
}

/// Reads a graph, with all of its constants if it is that of a loop.
fn read_graph(
    graph: Graph<'_>,
    wanted: &mut HashSet<String>,
    is_of_loop: bool,
) -> Result<GraphProto, Error> {
    let nodes = graph.nodes()?;
    let mut message = GraphProto::default();
    for value in graph.inputs()? {
        // Old models list their initializers as inputs, which no caller can replace.
        if value.constant()?.is_null() {
            message.input.push(declaration(value)?);
        }
    }
    for value in graph.outputs()? {
        message.output.push(declaration(value)?);
    }
    for value in graph.initializers()? {
        let is_wanted = is_of_loop || wanted.contains(&value.name()?);
        if let Some(tensor) = initializer(value, is_wanted)? {
            message.initializer.push(tensor);
        }
    }
    for node in nodes {
        for value in node.outputs()? {
            if !value.name()?.is_empty() {
                message.value_info.push(declaration(value)?);
            }
        }
        message.node.push(read_node(node, wanted)?);
    }
    Ok(message)
}

/// Declares the values that a graph reads of those around it.
fn add_outer(
    nodes: &[GraphNode<'_>],
    message: &mut GraphProto,
    wanted: &HashSet<String>,
) -> Result<(), Error> {
    let mut known: HashSet<String> = message.defined().map(str::to_owned).collect();
    for node in nodes {
        let captured = node.captured()?;
        for value in node.inputs()?.into_iter().chain(captured) {
            let name = value.name()?;
            let is_wanted = wanted.contains(&name);
            if name.is_empty() || !known.insert(name) {
                continue;
            }
            match initializer(value, is_wanted)? {
                Some(tensor) => message.initializer.push(tensor),
                None => message.input.push(declaration(value)?),
            }
        }
    }
    Ok(())
}

fn read_node(node: GraphNode<'_>, wanted: &mut HashSet<String>) -> Result<NodeProto, Error> {
    let operator = node.operator()?;
    let is_of_loop = is_loop(&operator);
    let (domain, op_type) = operator;
    let mut message = NodeProto {
        name: Some(node.name()?),
        op_type: Some(op_type),
        domain: Some(domain),
        input: names(node.inputs()?)?,
        output: names(node.outputs()?)?,
        ..NodeProto::default()
    };
    let graphs = node.graphs()?;
    for attribute in node.attributes()? {
        if graphs.iter().any(|(graph, _)| graph == attribute.name()) {
            continue;
        }
        match is_read(&attribute) {
            true => message.attribute.push(attribute),
            false => message.domain = Some(UNREAD.to_owned()),
        }
    }
    for (name, graph) in graphs {
        // The loop in the graph may be what the values are wanted for.
        wanted.extend(self::wanted(&graph.nodes()?)?);
        message.attribute.push(AttributeProto {
            name: Some(name),
            r#type: Some(AttributeType::GRAPH),
            g: read_graph(graph, wanted, is_of_loop)?.into(),
            ..AttributeProto::default()
        });
    }
    Ok(message)
}

/// The names of values; one that is left out has an empty one.
pub(super) fn names(values: Vec<Value<'_>>) -> Result<Vec<String>, Error> {
    values.into_iter().map(Value::name).collect()
}

/// Whether the value of an attribute was read.
fn is_read(attribute: &AttributeProto) -> bool {
    use AttributeType::{FLOAT, FLOATS, INT, INTS, STRING, STRINGS, TENSOR};
    match attribute.r#type {
        Some(TENSOR) => attribute.t.is_set(),
        Some(INT | INTS | FLOAT | FLOATS | STRING | STRINGS) => true,
        _ => false,
    }
}

/// A constant, with its data if that is small or wanted; `None` if the value is no constant of a type of
/// fixed size.
fn initializer(value: Value<'_>, is_wanted: bool) -> Result<Option<TensorProto>, Error> {
    let name = value.name()?;
    let tensor = match value.constant_tensor()? {
        None => return Ok(None),
        Some(constant) if is_wanted || constant.bytes.len() < LARGE => constant.to_proto(),
        Some(constant) => elsewhere(&name, constant.element, constant.sizes),
    };
    Ok(Some(TensorProto {
        name: Some(name),
        ..tensor
    }))
}

/// A tensor whose data is in memory of the host.
fn elsewhere(name: &str, element: i32, sizes: &[i64]) -> TensorProto {
    let location = StringStringEntryProto {
        key: Some(String::from("location")),
        value: Some(name.to_owned()),
        ..StringStringEntryProto::default()
    };
    TensorProto {
        name: Some(name.to_owned()),
        data_type: Some(element),
        dims: sizes.to_vec(),
        data_location: Some(tensor_proto::DataLocation::EXTERNAL),
        external_data: vec![location],
        ..TensorProto::default()
    }
}

/// A value with its type, as far as that is known.
fn declaration(value: Value<'_>) -> Result<ValueInfoProto, Error> {
    let name = value.name()?;
    Ok(match value.tensor_type()? {
        None => model::untyped(&name),
        Some(found) => ValueInfoProto {
            name: Some(name),
            r#type: tensor(found).into(),
            ..ValueInfoProto::default()
        },
    })
}

fn tensor(found: TypeAndSizes) -> TypeProto {
    use tensor_shape_proto::dimension::Value as Size;
    let names = found.names;
    let shape = found.sizes.map(|sizes| TensorShapeProto {
        dim: std::iter::zip(sizes, names)
            .map(|(size, name)| tensor_shape_proto::Dimension {
                value: match size {
                    0.. => Some(Size::DimValue(size)),
                    _ if name.is_empty() => None,
                    _ => Some(Size::DimParam(name)),
                },
                ..tensor_shape_proto::Dimension::default()
            })
            .collect(),
        ..TensorShapeProto::default()
    });
    let tensor = type_proto::Tensor {
        elem_type: Some(found.element),
        shape: shape.into(),
        ..type_proto::Tensor::default()
    };
    TypeProto {
        value: Some(tensor.into()),
        ..TypeProto::default()
    }
}

/// Whether a declared value is a tensor whose elements have a fixed size.
pub(super) fn is_of_fixed_size(value: &ValueInfoProto) -> bool {
    let element = tensor_type(value).and_then(|tensor| tensor.elem_type);
    element.is_some_and(|element| element != 0 && element != model::STRING)
}
