//! A graph of ONNX Runtime's as a message of ONNX.
//!
//! The nodes stand in the order of the graph. Large constants stay where they are, and are external data
//! in the message, unless a loop reads them: recognising its cell needs their values.

use std::collections::{HashMap, HashSet};

use revseq_onnx::model::{self, tensor_type, tensor_type_mut};
use revseq_onnx::proto::attribute_proto::AttributeType;
use revseq_onnx::proto::{
    AttributeProto, GraphProto, ModelProto, NodeProto, OperatorSetIdProto, StringStringEntryProto,
    TensorProto, TensorShapeProto, TypeProto, ValueInfoProto, tensor_proto, tensor_shape_proto,
    type_proto,
};

use super::super::EP_NAME_STR;
use super::inner::Inner;
use crate::plugin::error::Error;
use crate::plugin::graph::{Constant, Graph, GraphNode, Value};
use crate::plugin::node::TypeAndSizes;

/// The domain of nodes that have an attribute, or a constant in a graph, which cannot be read. No pass knows
/// it.
pub(super) const UNREAD: &str = "unread";

/// The bytes from which on a constant is large: no shape and no list of axes is.
const LARGE: usize = 1 << 10;

/// The most copies of a constant that there are at once until it is part of an inner session: in the message,
/// in the rewritten one, in a replacement, encoded, decoded, and in the session.
const COPIES: usize = 6;

/// The operators whose graphs are loops.
const LOOPS: [&str; 2] = ["Loop", "Scan"];

/// Whether an operator is a loop.
pub(super) fn is_loop((domain, op_type): &(String, String)) -> bool {
    model::domain(Some(domain)).is_empty() && LOOPS.contains(&&**op_type)
}

/// Whether a node is a loop.
pub(super) fn is_loop_node(node: &NodeProto) -> bool {
    node.domain().is_empty() && LOOPS.contains(&node.op())
}

/// A graph that was read.
pub(super) struct Message<'a> {
    pub(super) model: ModelProto,
    /// The constants of the graph and of those around it that it reads, by their names.
    pub(super) constants: HashMap<String, Value<'a>>,
    /// The constants that cannot be read. Those of the graph are inputs of the model.
    pub(super) unread: HashSet<String>,
}

/// Reads a graph and the graphs in it. What it reads of the graphs around is an input, or a constant.
///
/// Sizes that are declared of the main graph's inputs are proofs, as ONNX Runtime checks them. It checks no
/// others, so the inputs of a graph in a node have a number of axes alone, which the inner session checks.
///
/// Loops in it that were fused before stand in it as they were.
pub(super) fn read<'a>(graph: Graph<'a>, fused: &'a [Inner]) -> Result<Message<'a>, Error> {
    let nodes = graph.nodes()?;
    let mut reader = Reader {
        fused,
        ..Reader::default()
    };
    reader.want(&nodes)?;
    let mut message = reader.graph(graph, false)?;
    reader.add_outer(&nodes, &mut message)?;
    if graph.is_inner()? {
        message.input.iter_mut().for_each(forget_sizes);
    }
    let imports = graph.operator_sets()?.into_iter();
    let model = ModelProto {
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
    };
    Ok(Message {
        model,
        constants: reader.own,
        unread: reader.unread,
    })
}

/// What is known while a graph is read.
#[derive(Default)]
struct Reader<'a> {
    /// The constants whose values are wanted: those that a loop reads, or a node that reads constants only.
    wanted: HashSet<String>,
    /// The constants of the graph, and of those in it around the one in turn. ONNX Runtime knows no data in
    /// files where a graph captures them.
    scopes: Vec<HashMap<String, Value<'a>>>,
    /// The constants that the graph reads.
    own: HashMap<String, Value<'a>>,
    /// The loops in the graph that are one node now.
    fused: &'a [Inner],
    /// The bytes of constants that were read.
    bytes: usize,
    unread: HashSet<String>,
}

impl<'a> Reader<'a> {
    /// Adds the constants of which the values are wanted for these nodes.
    fn want(&mut self, nodes: &[GraphNode<'_>]) -> Result<(), Error> {
        let mut computed = HashSet::new();
        for node in nodes {
            let inputs = node.inputs()?;
            let mut read = Vec::with_capacity(inputs.len());
            let mut is_constant = true;
            for value in inputs {
                let name = value.name()?;
                is_constant &=
                    name.is_empty() || computed.contains(&name) || value.is_constant()?;
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
                self.wanted.extend(read);
            }
        }
        Ok(())
    }

    /// Reads a graph, with all of its constants if it is that of a loop.
    fn graph(&mut self, graph: Graph<'a>, is_of_loop: bool) -> Result<GraphProto, Error> {
        let mut message = GraphProto {
            // ONNX wants one, and ONNX Runtime does not say it.
            name: Some(String::from("graph")),
            ..GraphProto::default()
        };
        self.scopes.push(constants(graph)?);
        for value in graph.inputs()? {
            // Old models list their initializers as inputs, which no caller can replace.
            if !value.is_constant()? {
                message.input.push(declaration(value)?);
            }
        }
        for value in graph.outputs()? {
            message.output.push(declaration(value)?);
        }
        for value in graph.initializers()? {
            let is_wanted = is_of_loop || self.wanted.contains(&value.name()?);
            if value.is_constant()? {
                self.constant(value, is_wanted, &mut message)?;
            }
        }
        for node in graph.nodes()? {
            for value in node.outputs()? {
                if !value.name()?.is_empty() {
                    message.value_info.push(declaration(value)?);
                }
            }
            match self.fused(node)? {
                Some(inner) => message.node.extend(inner.nodes.iter().cloned()),
                None => message.node.push(self.node(node)?),
            }
        }
        self.scopes.pop();
        Ok(message)
    }

    /// Declares the values that a graph reads of those around it.
    fn add_outer(
        &mut self,
        nodes: &[GraphNode<'a>],
        message: &mut GraphProto,
    ) -> Result<(), Error> {
        let mut known: HashSet<String> = message.defined().map(str::to_owned).collect();
        for node in nodes {
            let captured = node.captured()?;
            for value in node.inputs()?.into_iter().chain(captured) {
                let name = value.name()?;
                if name.is_empty() || !known.insert(name.clone()) {
                    continue;
                }
                if !value.is_constant()? {
                    message.input.push(declaration(value)?);
                    continue;
                }
                let is_wanted = self.wanted.contains(&name);
                self.constant(value, is_wanted, message)?;
            }
        }
        Ok(())
    }

    /// The loop that a node stands for; `None` if it stands for none, or two branches have such nodes with outputs
    /// of the same names.
    fn fused(&self, node: GraphNode<'a>) -> Result<Option<&'a Inner>, Error> {
        if self.fused.is_empty() || node.operator()?.0 != EP_NAME_STR {
            return Ok(None);
        }
        let outputs: HashSet<String> = names(node.outputs()?)?.into_iter().collect();
        let mut inner = self.fused.iter().filter(|it| it.outputs == outputs);
        let first = inner.next();
        Ok(first.filter(|first| inner.all(|other| other.nodes == first.nodes)))
    }

    fn node(&mut self, node: GraphNode<'a>) -> Result<NodeProto, Error> {
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
        for attribute in node.each_attribute()? {
            let Ok(attribute) = attribute else {
                message.domain = Some(UNREAD.to_owned());
                continue;
            };
            if graphs.iter().any(|(graph, _)| graph == attribute.name()) {
                continue;
            }
            match is_read(&attribute) {
                true => message.attribute.push(attribute),
                false => message.domain = Some(UNREAD.to_owned()),
            }
        }
        let unread = self.unread.len();
        for (name, graph) in graphs {
            // The loop in the graph may be what the values are wanted for.
            self.want(&graph.nodes()?)?;
            message.attribute.push(AttributeProto {
                name: Some(name),
                r#type: Some(AttributeType::GRAPH),
                g: self.graph(graph, is_of_loop)?.into(),
                ..AttributeProto::default()
            });
        }
        if self.unread.len() > unread {
            message.domain = Some(UNREAD.to_owned());
        }
        Ok(message)
    }

    /// Fails if there is no room for this many bytes more, beside those that were read.
    fn make_room(&mut self, bytes: usize) -> Result<(), Error> {
        self.bytes = self.bytes.saturating_add(bytes);
        let bytes = self.bytes.saturating_mul(COPIES);
        let lacking = |_| Error::OutOfMemory { bytes };
        Vec::<u8>::new().try_reserve_exact(bytes).map_err(lacking)
    }

    /// Adds a constant, with its data if that is small or wanted. One that cannot be read is an input of the
    /// whole.
    fn constant(
        &mut self,
        value: Value<'a>,
        is_wanted: bool,
        message: &mut GraphProto,
    ) -> Result<(), Error> {
        let name = value.name()?;
        let mut scopes = self.scopes.iter().rev();
        let owner = scopes.find_map(|scope| scope.get(&name)).copied();
        let owner = owner.unwrap_or(value);
        let is_inner = self.scopes.len() > 1;
        if !is_inner {
            self.own.insert(name.clone(), owner);
        }
        let tensor = match owner.constant() {
            Ok(Some(constant)) if is_wanted || constant.byte_count() < LARGE => {
                self.make_room(constant.byte_count())?;
                constant.to_proto()
            }
            Ok(Some(constant)) => elsewhere(&name, &constant),
            Ok(None) | Err(_) => {
                self.unread.insert(name);
                if !is_inner {
                    message.input.push(declaration(value)?);
                }
                return Ok(());
            }
        };
        message.initializer.push(TensorProto {
            name: Some(name),
            ..tensor
        });
        Ok(())
    }
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

/// The constants of a graph, by their names.
fn constants(graph: Graph<'_>) -> Result<HashMap<String, Value<'_>>, Error> {
    let constants = graph.initializers()?.into_iter();
    constants.map(|value| Ok((value.name()?, value))).collect()
}

/// A tensor whose data is in memory of the host.
fn elsewhere(name: &str, constant: &Constant<'_>) -> TensorProto {
    let location = StringStringEntryProto {
        key: Some(String::from("location")),
        value: Some(name.to_owned()),
        ..StringStringEntryProto::default()
    };
    TensorProto {
        name: Some(name.to_owned()),
        data_type: Some(constant.element),
        dims: constant.sizes.to_vec(),
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

/// Leaves the sizes of a tensor open, but not how many there are.
fn forget_sizes(value: &mut ValueInfoProto) {
    let shape = tensor_type_mut(value).and_then(|it| it.shape.as_option_mut());
    if let Some(shape) = shape {
        shape.dim.fill(tensor_shape_proto::Dimension::default());
    }
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
