//! Reads, writes and inspects ONNX messages, and makes new ones.

use std::collections::{BTreeSet, HashSet};

use buffa::{DecodeOptions, Message, MessageField};

mod codes;

use crate::Error;
pub use crate::proto::{
    AttributeProto, FunctionProto, GraphProto, ModelProto, NodeProto, OperatorSetIdProto,
    TensorProto, TensorShapeProto, TypeProto, ValueInfoProto, attribute_proto::AttributeType,
    tensor_proto, tensor_shape_proto, type_proto,
};
pub use codes::*;

/// The maximum nesting depth of messages, the same as in other ONNX readers.
const MAXIMUM_DEPTH: u32 = 100;

/// The memory allowed for messages, in bytes: a constant plus a multiple of the file size.
const MEMORY_ALLOWANCE: usize = 1 << 30;
const MEMORY_PER_BYTE: usize = 8;

/// Decodes a model. Fields unknown to this version of ONNX are kept.
///
/// # Errors
///
/// If the bytes are not a model, or nest too deeply.
pub fn decode(bytes: &[u8]) -> Result<ModelProto, Error> {
    // A message of two bytes takes hundreds in memory, so limit memory by file size.
    let memory = MEMORY_PER_BYTE.saturating_mul(bytes.len());
    let memory = memory.saturating_add(MEMORY_ALLOWANCE);
    let options = DecodeOptions::new()
        .with_recursion_limit(MAXIMUM_DEPTH)
        .with_unknown_field_limit(usize::MAX)
        .with_element_memory_limit(memory);
    let model: ModelProto = options.decode_from_slice(bytes).map_err(Error::Decode)?;
    if model.graph.is_unset() {
        return Err(Error::NoGraph);
    }
    Ok(model)
}

/// Encodes a model, or a part of one, with fields in numerical order like ONNX's own writers, so that
/// an untouched model of theirs gives the same file.
///
/// # Errors
///
/// If it exceeds protobuf's 2 GiB.
pub fn encode(model: &impl Message) -> Result<Vec<u8>, Error> {
    model.try_encode_to_vec().map_err(Error::Encode)
}

/// The external data files of a model, as it names them: paths below its folder, if it can be
/// trusted.
#[must_use]
pub fn external_files(model: &ModelProto) -> BTreeSet<String> {
    let mut files = BTreeSet::new();
    if let Some(graph) = model.graph.as_option() {
        graph_files(graph, &mut files);
    }
    for function in &model.functions {
        node_files(&function.node, &mut files);
    }
    files
}

fn graph_files(graph: &GraphProto, files: &mut BTreeSet<String>) {
    let sparse = graph.sparse_initializer.iter();
    let sparse = sparse.flat_map(|tensor| {
        tensor
            .values
            .as_option()
            .into_iter()
            .chain(tensor.indices.as_option())
    });
    for tensor in graph.initializer.iter().chain(sparse) {
        tensor_file(tensor, files);
    }
    node_files(&graph.node, files);
}

fn node_files(nodes: &[NodeProto], files: &mut BTreeSet<String>) {
    for node in nodes {
        for attribute in &node.attribute {
            for tensor in attribute
                .t
                .as_option()
                .into_iter()
                .chain(&attribute.tensors)
            {
                tensor_file(tensor, files);
            }
        }
        for graph in node.graphs() {
            graph_files(graph, files);
        }
    }
}

fn tensor_file(tensor: &TensorProto, files: &mut BTreeSet<String>) {
    if tensor.data_location == Some(tensor_proto::DataLocation::EXTERNAL) {
        let location = tensor
            .external_data
            .iter()
            .find(|entry| entry.key.as_deref() == Some("location"));
        files.extend(location.and_then(|entry| entry.value.clone()));
    }
}

/// Normalises an operator domain; ONNX's own is empty.
#[must_use]
pub fn domain(name: Option<&str>) -> &str {
    match name.unwrap_or_default() {
        "ai.onnx" => "",
        domain => domain,
    }
}

/// The opset of a function or model that imports none.
const DEFAULT_OPSET: i64 = 13;

/// The imported version of ONNX's own operators; a default for a model or function that imports
/// none.
#[must_use]
pub fn opset(imports: &[OperatorSetIdProto]) -> i64 {
    default_import(imports).map_or(DEFAULT_OPSET, |import| import.version.unwrap_or(1))
}

/// The import of ONNX's own operators.
#[must_use]
pub fn default_import(imports: &[OperatorSetIdProto]) -> Option<&OperatorSetIdProto> {
    imports
        .iter()
        .find(|import| matches!(import.domain.as_deref().unwrap_or_default(), "" | "ai.onnx"))
}

/// The names that a model's training graphs mention. They read values of the main graph and update
/// its initializers by name.
#[must_use]
pub fn trained_names(model: &ModelProto) -> HashSet<&str> {
    let mut names = HashSet::new();
    for training in &model.training_info {
        let graphs = [&training.initialization, &training.algorithm];
        for graph in graphs.into_iter().filter_map(MessageField::as_option) {
            graph.mentioned(&mut names);
        }
        let bindings = training.initialization_binding.iter();
        for binding in bindings.chain(&training.update_binding) {
            names.extend(binding.key.as_deref());
            names.extend(binding.value.as_deref());
        }
    }
    names
}

impl GraphProto {
    /// The names of its outputs, in order.
    pub fn outputs(&self) -> impl Iterator<Item = &str> {
        self.output.iter().filter_map(|value| value.name.as_deref())
    }

    /// The names of its inputs, in order.
    pub fn inputs(&self) -> impl Iterator<Item = &str> {
        self.input.iter().filter_map(|value| value.name.as_deref())
    }

    /// The names of its dense initializers.
    pub fn tensors(&self) -> impl Iterator<Item = &str> {
        let tensors = self.initializer.iter();
        tensors.filter_map(|tensor| tensor.name.as_deref())
    }

    /// The names of its sparse initializers.
    pub fn sparse_tensors(&self) -> impl Iterator<Item = &str> {
        let tensors = self.sparse_initializer.iter();
        tensors.filter_map(|tensor| tensor.values.as_option()?.name.as_deref())
    }

    /// The names of all values it defines.
    pub fn defined(&self) -> impl Iterator<Item = &str> {
        let given = self.inputs().chain(self.tensors());
        let given = given.chain(self.sparse_tensors());
        given.chain(self.node.iter().flat_map(NodeProto::outputs))
    }

    /// The names of values that are read outside its nodes: its outputs, and quantization
    /// annotations, which name a value and the tensors of its scale and zero point.
    pub fn seen_elsewhere(&self) -> impl Iterator<Item = &str> {
        let annotated = self.quantization_annotation.iter().flat_map(|annotation| {
            let parameters = annotation.quant_parameter_tensor_names.iter();
            let parameters = parameters.filter_map(|entry| entry.value.as_deref());
            annotation
                .tensor_name
                .as_deref()
                .into_iter()
                .chain(parameters)
        });
        self.outputs().chain(annotated)
    }

    /// Collects all names of values and nodes that it or its subgraphs mention.
    pub(crate) fn mentioned<'a>(&'a self, names: &mut HashSet<&'a str>) {
        names.extend(self.defined());
        names.extend(self.seen_elsewhere());
        names.extend(
            self.value_info
                .iter()
                .filter_map(|value| value.name.as_deref()),
        );
        mentioned(&self.node, names);
    }
}

/// Collects all names of values and nodes that nodes mention.
pub(crate) fn mentioned<'a>(nodes: &'a [NodeProto], names: &mut HashSet<&'a str>) {
    for node in nodes {
        names.extend(node.name.as_deref());
        names.extend(node.inputs().chain(node.outputs()));
        for graph in node.graphs() {
            graph.mentioned(names);
        }
    }
}

/// An attribute's value.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Attribute<T> {
    /// Absent: the operator's default holds.
    Absent,
    /// Given in the node.
    Value(T),
    /// In a function: given by the caller.
    Reference,
}

impl<T> Attribute<T> {
    /// The value, or the operator's default; `None` if the caller of the function gives it.
    pub fn or(self, default: T) -> Option<T> {
        match self {
            Self::Absent => Some(default),
            Self::Value(value) => Some(value),
            Self::Reference => None,
        }
    }

    /// The value given in the node itself.
    pub fn value(self) -> Option<T> {
        match self {
            Self::Value(value) => Some(value),
            Self::Absent | Self::Reference => None,
        }
    }
}

impl NodeProto {
    /// The operator's name.
    pub fn op(&self) -> &str {
        self.op_type.as_deref().unwrap_or_default()
    }

    /// The operator's domain; ONNX's own is empty.
    pub fn domain(&self) -> &str {
        domain(self.domain.as_deref())
    }

    /// Whether it is this operator of ONNX's own domain.
    pub fn is(&self, op: &str) -> bool {
        self.op() == op && self.domain().is_empty()
    }

    /// An input, if present.
    pub fn input(&self, index: usize) -> Option<&str> {
        self.input
            .get(index)
            .map(String::as_str)
            .filter(|name| !name.is_empty())
    }

    /// The inputs that are present.
    pub fn inputs(&self) -> impl Iterator<Item = &str> {
        self.input
            .iter()
            .map(String::as_str)
            .filter(|name| !name.is_empty())
    }

    /// The outputs that are present.
    pub fn outputs(&self) -> impl Iterator<Item = &str> {
        self.output
            .iter()
            .map(String::as_str)
            .filter(|name| !name.is_empty())
    }

    /// An attribute's message.
    pub fn attribute(&self, name: &str) -> Option<&AttributeProto> {
        self.attribute
            .iter()
            .find(|attribute| attribute.name.as_deref() == Some(name))
    }

    fn attribute_value<'a, T>(
        &'a self,
        name: &str,
        value: impl FnOnce(&'a AttributeProto) -> Option<T>,
    ) -> Attribute<T> {
        match self.attribute(name) {
            None => Attribute::Absent,
            Some(attribute) if !attribute.ref_attr_name.as_deref().unwrap_or("").is_empty() => {
                Attribute::Reference
            }
            Some(attribute) => value(attribute).map_or(Attribute::Absent, Attribute::Value),
        }
    }

    /// An integer.
    pub fn int(&self, name: &str) -> Attribute<i64> {
        // Some writers omit a field that is zero.
        self.attribute_value(name, |attribute| Some(attribute.i.unwrap_or(0)))
    }

    /// A list of integers.
    pub fn ints(&self, name: &str) -> Attribute<&[i64]> {
        self.attribute_value(name, |attribute| Some(attribute.ints.as_slice()))
    }

    /// A float32.
    pub fn float(&self, name: &str) -> Attribute<f32> {
        self.attribute_value(name, |attribute| Some(attribute.f.unwrap_or(0.0)))
    }

    /// A list of float32.
    pub fn floats(&self, name: &str) -> Attribute<&[f32]> {
        self.attribute_value(name, |attribute| Some(attribute.floats.as_slice()))
    }

    /// A text; absent if it is not UTF-8.
    pub fn text(&self, name: &str) -> Attribute<&str> {
        self.attribute_value(name, |attribute| {
            std::str::from_utf8(attribute.s.as_deref()?).ok()
        })
    }

    /// A tensor.
    pub fn tensor(&self, name: &str) -> Attribute<&TensorProto> {
        self.attribute_value(name, |attribute| attribute.t.as_option())
    }

    /// A subgraph.
    pub fn graph(&self, name: &str) -> Option<&GraphProto> {
        self.attribute(name)?.g.as_option()
    }

    /// All subgraphs, in order.
    pub fn graphs(&self) -> impl Iterator<Item = &GraphProto> {
        self.attribute
            .iter()
            .flat_map(|attribute| attribute.g.as_option().into_iter().chain(&attribute.graphs))
    }

    /// All subgraphs, in the same order, mutable.
    pub fn graphs_mut(&mut self) -> impl Iterator<Item = &mut GraphProto> {
        self.attribute.iter_mut().flat_map(|attribute| {
            attribute
                .g
                .as_option_mut()
                .into_iter()
                .chain(&mut attribute.graphs)
        })
    }

    /// Its name, or its operator and its index among the nodes of its graph.
    pub fn label(&self, index: usize) -> String {
        match self.name.as_deref() {
            Some(name) if !name.is_empty() => name.to_owned(),
            _ => format!("{}#{index}", self.op()),
        }
    }
}

/// Makes a node with an operator of ONNX's own; an empty name stands for an input or output that is
/// left out.
#[must_use]
pub fn node(
    op: &str,
    inputs: &[&str],
    outputs: &[&str],
    attributes: Vec<AttributeProto>,
) -> NodeProto {
    let owned = |names: &[&str]| names.iter().map(|&name| name.to_owned()).collect();
    NodeProto {
        input: owned(inputs),
        output: owned(outputs),
        op_type: Some(op.to_owned()),
        attribute: attributes,
        ..NodeProto::default()
    }
}

/// Makes an integer attribute.
#[must_use]
pub fn int(name: &str, value: i64) -> AttributeProto {
    AttributeProto {
        name: Some(name.to_owned()),
        r#type: Some(AttributeType::INT),
        i: Some(value),
        ..AttributeProto::default()
    }
}

/// Makes a float attribute.
#[must_use]
pub fn float(name: &str, value: f32) -> AttributeProto {
    AttributeProto {
        name: Some(name.to_owned()),
        r#type: Some(AttributeType::FLOAT),
        f: Some(value),
        ..AttributeProto::default()
    }
}

/// Makes an attribute of integers.
#[must_use]
pub fn ints(name: &str, values: &[i64]) -> AttributeProto {
    AttributeProto {
        name: Some(name.to_owned()),
        r#type: Some(AttributeType::INTS),
        ints: values.to_vec(),
        ..AttributeProto::default()
    }
}

/// Makes an attribute of floats.
#[must_use]
pub fn floats(name: &str, values: &[f32]) -> AttributeProto {
    AttributeProto {
        name: Some(name.to_owned()),
        r#type: Some(AttributeType::FLOATS),
        floats: values.to_vec(),
        ..AttributeProto::default()
    }
}

/// Makes a text attribute.
#[must_use]
pub fn text(name: &str, value: &str) -> AttributeProto {
    AttributeProto {
        name: Some(name.to_owned()),
        r#type: Some(AttributeType::STRING),
        s: Some(value.as_bytes().to_vec()),
        ..AttributeProto::default()
    }
}

/// Makes an attribute of strings.
#[must_use]
pub fn texts(name: &str, values: &[&str]) -> AttributeProto {
    AttributeProto {
        name: Some(name.to_owned()),
        r#type: Some(AttributeType::STRINGS),
        strings: values
            .iter()
            .map(|value| value.as_bytes().to_vec())
            .collect(),
        ..AttributeProto::default()
    }
}

/// Makes a tensor attribute.
#[must_use]
pub fn tensor(name: &str, value: TensorProto) -> AttributeProto {
    AttributeProto {
        name: Some(name.to_owned()),
        r#type: Some(AttributeType::TENSOR),
        t: MessageField::some(value),
        ..AttributeProto::default()
    }
}

/// Makes a scalar 0 of a type of 8 to 64 bits that is a number or bool; `None` for other types.
#[must_use]
pub fn zero(code: i32) -> Option<TensorProto> {
    let size = match code {
        BOOL | INT8 | UINT8 => 1,
        FLOAT16 | BFLOAT16 | INT16 | UINT16 => 2,
        FLOAT | INT32 | UINT32 => 4,
        DOUBLE | INT64 | UINT64 => 8,
        _ => return None,
    };
    Some(TensorProto {
        data_type: Some(code),
        raw_data: Some(vec![0; size]),
        ..TensorProto::default()
    })
}

/// Makes an int64 tensor of row-major elements; a scalar if `sizes` is empty.
#[must_use]
pub fn int64_tensor(sizes: &[i64], values: &[i64]) -> TensorProto {
    TensorProto {
        dims: sizes.to_vec(),
        data_type: Some(INT64),
        raw_data: Some(
            values
                .iter()
                .flat_map(|value| value.to_le_bytes())
                .collect(),
        ),
        ..TensorProto::default()
    }
}

/// Makes a float32 scalar.
#[must_use]
pub fn float_scalar(value: f32) -> TensorProto {
    TensorProto {
        data_type: Some(FLOAT),
        raw_data: Some(value.to_le_bytes().to_vec()),
        ..TensorProto::default()
    }
}

/// The declared sizes of a value: `None` if the rank is unknown, with `None` for each unknown size.
#[must_use]
pub fn declared_sizes(value: &ValueInfoProto) -> Option<Vec<Option<i64>>> {
    let tensor = tensor_type(value)?;
    let sizes = tensor
        .shape
        .as_option()?
        .dim
        .iter()
        .map(|dim| match dim.value {
            Some(tensor_shape_proto::dimension::Value::DimValue(size)) if size >= 0 => Some(size),
            _ => None,
        });
    Some(sizes.collect())
}

/// Makes a value that is declared as a tensor, with `None` for each unknown size.
#[must_use]
pub fn value(name: &str, elem_type: i32, sizes: &[Option<i64>]) -> ValueInfoProto {
    let dims = sizes.iter().map(|&size| tensor_shape_proto::Dimension {
        value: size.map(tensor_shape_proto::dimension::Value::DimValue),
        ..tensor_shape_proto::Dimension::default()
    });
    let shape = TensorShapeProto {
        dim: dims.collect(),
        ..Default::default()
    };
    let tensor = type_proto::Tensor {
        elem_type: Some(elem_type),
        shape: MessageField::some(shape),
        ..Default::default()
    };
    ValueInfoProto {
        name: Some(name.to_owned()),
        r#type: MessageField::some(TypeProto {
            value: Some(tensor.into()),
            ..Default::default()
        }),
        ..Default::default()
    }
}

/// Makes a value with a name and no declared type.
#[must_use]
pub fn untyped(name: &str) -> ValueInfoProto {
    ValueInfoProto {
        name: Some(name.to_owned()),
        ..ValueInfoProto::default()
    }
}

/// A tensor's declared element type, as ONNX's code.
#[must_use]
pub fn element_type(value: &ValueInfoProto) -> Option<i32> {
    tensor_type(value)?.elem_type.filter(|&code| code != 0)
}

/// A value's declared tensor type.
#[must_use]
pub fn tensor_type(value: &ValueInfoProto) -> Option<&type_proto::Tensor> {
    match value.r#type.as_option()?.value.as_ref()? {
        type_proto::Value::TensorType(tensor) => Some(tensor),
        _ => None,
    }
}
