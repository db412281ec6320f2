//! Reads, writes and inspects ONNX messages.

use std::collections::{BTreeSet, HashSet};

use buffa::{DecodeOptions, Message, MessageField};

use crate::Error;
pub use crate::onnx::ModelProto;
pub(crate) use crate::onnx::{
    AttributeProto, FunctionProto, GraphProto, NodeProto, OperatorSetIdProto, TensorProto,
    ValueInfoProto, attribute_proto::AttributeType, tensor_proto, tensor_shape_proto, type_proto,
};

/// The maximum nesting depth of messages, the same as in other ONNX readers.
const MAXIMUM_DEPTH: u32 = 100;

/// The memory allowed for messages, in bytes: a constant plus a multiple of the file size.
const MEMORY_ALLOWANCE: usize = 1 << 30;
const MEMORY_PER_BYTE: usize = 8;

// ONNX's codes of element types.
pub(crate) const FLOAT: i32 = 1;
pub(crate) const UINT8: i32 = 2;
pub(crate) const INT8: i32 = 3;
pub(crate) const UINT16: i32 = 4;
pub(crate) const INT16: i32 = 5;
pub(crate) const INT32: i32 = 6;
pub(crate) const INT64: i32 = 7;
pub(crate) const STRING: i32 = 8;
pub(crate) const BOOL: i32 = 9;
pub(crate) const FLOAT16: i32 = 10;
pub(crate) const DOUBLE: i32 = 11;
pub(crate) const UINT32: i32 = 12;
pub(crate) const UINT64: i32 = 13;
pub(crate) const BFLOAT16: i32 = 16;

/// Decodes a model. Fields unknown to this version of ONNX are kept.
///
/// # Errors
///
/// If the bytes are not a model, or nest too deeply.
pub fn decode(bytes: &[u8]) -> Result<ModelProto, Error> {
    // A message of two bytes takes hundreds in memory, so limit memory by file size.
    let memory = MEMORY_ALLOWANCE + MEMORY_PER_BYTE * bytes.len();
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

/// Encodes a model, with fields in numerical order like ONNX's own writers, so that an untouched
/// model of theirs gives the same file.
///
/// # Errors
///
/// If it exceeds protobuf's 2 GiB.
pub fn encode(model: &ModelProto) -> Result<Vec<u8>, Error> {
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

/// A normalised operator domain; ONNX's own is empty.
pub(crate) fn domain(name: Option<&str>) -> &str {
    match name.unwrap_or_default() {
        "ai.onnx" => "",
        domain => domain,
    }
}

/// The names that a model's training graphs mention. They read values of the main graph and update
/// its initializers by name.
pub(crate) fn trained_names(model: &ModelProto) -> HashSet<&str> {
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
    pub(crate) fn outputs(&self) -> impl Iterator<Item = &str> {
        self.output.iter().filter_map(|value| value.name.as_deref())
    }

    pub(crate) fn inputs(&self) -> impl Iterator<Item = &str> {
        self.input.iter().filter_map(|value| value.name.as_deref())
    }

    /// The names of its dense initializers.
    pub(crate) fn tensors(&self) -> impl Iterator<Item = &str> {
        let tensors = self.initializer.iter();
        tensors.filter_map(|tensor| tensor.name.as_deref())
    }

    pub(crate) fn sparse_tensors(&self) -> impl Iterator<Item = &str> {
        let tensors = self.sparse_initializer.iter();
        tensors.filter_map(|tensor| tensor.values.as_option()?.name.as_deref())
    }

    /// The names of all values it defines.
    pub(crate) fn defined(&self) -> impl Iterator<Item = &str> {
        let given = self.inputs().chain(self.tensors());
        let given = given.chain(self.sparse_tensors());
        given.chain(self.node.iter().flat_map(NodeProto::outputs))
    }

    /// The names of values that are read outside its nodes: its outputs, and quantization
    /// annotations, which name a value and the tensors of its scale and zero point.
    pub(crate) fn seen_elsewhere(&self) -> impl Iterator<Item = &str> {
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
pub(crate) enum Attribute<T> {
    /// Absent: the operator's default holds.
    Absent,
    /// Given in the node.
    Value(T),
    /// In a function: given by the caller.
    Reference,
}

impl<T> Attribute<T> {
    /// The value, or the operator's default; `None` if the caller gives it.
    pub(crate) fn or(self, default: T) -> Option<T> {
        match self {
            Self::Absent => Some(default),
            Self::Value(value) => Some(value),
            Self::Reference => None,
        }
    }

    /// The value given in the node itself.
    pub(crate) fn value(self) -> Option<T> {
        match self {
            Self::Value(value) => Some(value),
            Self::Absent | Self::Reference => None,
        }
    }
}

impl NodeProto {
    /// The operator's name.
    pub(crate) fn op(&self) -> &str {
        self.op_type.as_deref().unwrap_or_default()
    }

    /// The operator's domain; ONNX's own is empty.
    pub(crate) fn domain(&self) -> &str {
        domain(self.domain.as_deref())
    }

    /// Whether it is this operator of ONNX's own domain.
    pub(crate) fn is(&self, op: &str) -> bool {
        self.op() == op && self.domain().is_empty()
    }

    /// An input, if present.
    pub(crate) fn input(&self, index: usize) -> Option<&str> {
        self.input
            .get(index)
            .map(String::as_str)
            .filter(|name| !name.is_empty())
    }

    /// The inputs that are present.
    pub(crate) fn inputs(&self) -> impl Iterator<Item = &str> {
        self.input
            .iter()
            .map(String::as_str)
            .filter(|name| !name.is_empty())
    }

    /// The outputs that are present.
    pub(crate) fn outputs(&self) -> impl Iterator<Item = &str> {
        self.output
            .iter()
            .map(String::as_str)
            .filter(|name| !name.is_empty())
    }

    /// An attribute's message.
    pub(crate) fn attribute(&self, name: &str) -> Option<&AttributeProto> {
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

    pub(crate) fn int(&self, name: &str) -> Attribute<i64> {
        // Some writers omit a field that is zero.
        self.attribute_value(name, |attribute| Some(attribute.i.unwrap_or(0)))
    }

    pub(crate) fn ints(&self, name: &str) -> Attribute<&[i64]> {
        self.attribute_value(name, |attribute| Some(attribute.ints.as_slice()))
    }

    pub(crate) fn float(&self, name: &str) -> Attribute<f32> {
        self.attribute_value(name, |attribute| Some(attribute.f.unwrap_or(0.0)))
    }

    pub(crate) fn floats(&self, name: &str) -> Attribute<&[f32]> {
        self.attribute_value(name, |attribute| Some(attribute.floats.as_slice()))
    }

    pub(crate) fn text(&self, name: &str) -> Attribute<&str> {
        self.attribute_value(name, |attribute| {
            std::str::from_utf8(attribute.s.as_deref()?).ok()
        })
    }

    pub(crate) fn tensor(&self, name: &str) -> Attribute<&TensorProto> {
        self.attribute_value(name, |attribute| attribute.t.as_option())
    }

    pub(crate) fn graph(&self, name: &str) -> Option<&GraphProto> {
        self.attribute(name)?.g.as_option()
    }

    /// All subgraphs, in order.
    pub(crate) fn graphs(&self) -> impl Iterator<Item = &GraphProto> {
        self.attribute
            .iter()
            .flat_map(|attribute| attribute.g.as_option().into_iter().chain(&attribute.graphs))
    }

    /// All subgraphs, in the same order, mutable.
    pub(crate) fn graphs_mut(&mut self) -> impl Iterator<Item = &mut GraphProto> {
        self.attribute.iter_mut().flat_map(|attribute| {
            attribute
                .g
                .as_option_mut()
                .into_iter()
                .chain(&mut attribute.graphs)
        })
    }

    /// Its name, or its operator and index.
    pub(crate) fn label(&self, index: usize) -> String {
        match self.name.as_deref() {
            Some(name) if !name.is_empty() => name.to_owned(),
            _ => format!("{}#{index}", self.op()),
        }
    }
}

/// A node with an operator of ONNX's own.
pub(crate) fn node(
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

/// An integer attribute.
pub(crate) fn int(name: &str, value: i64) -> AttributeProto {
    AttributeProto {
        name: Some(name.to_owned()),
        r#type: Some(AttributeType::INT),
        i: Some(value),
        ..AttributeProto::default()
    }
}

/// A float attribute.
pub(crate) fn float(name: &str, value: f32) -> AttributeProto {
    AttributeProto {
        name: Some(name.to_owned()),
        r#type: Some(AttributeType::FLOAT),
        f: Some(value),
        ..AttributeProto::default()
    }
}

/// An attribute of integers.
pub(crate) fn ints(name: &str, values: &[i64]) -> AttributeProto {
    AttributeProto {
        name: Some(name.to_owned()),
        r#type: Some(AttributeType::INTS),
        ints: values.to_vec(),
        ..AttributeProto::default()
    }
}

/// An attribute of floats.
pub(crate) fn floats(name: &str, values: &[f32]) -> AttributeProto {
    AttributeProto {
        name: Some(name.to_owned()),
        r#type: Some(AttributeType::FLOATS),
        floats: values.to_vec(),
        ..AttributeProto::default()
    }
}

/// A text attribute.
pub(crate) fn text(name: &str, value: &str) -> AttributeProto {
    AttributeProto {
        name: Some(name.to_owned()),
        r#type: Some(AttributeType::STRING),
        s: Some(value.as_bytes().to_vec()),
        ..AttributeProto::default()
    }
}

/// An attribute of strings.
pub(crate) fn texts(name: &str, values: &[&str]) -> AttributeProto {
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

/// A tensor attribute.
pub(crate) fn tensor(name: &str, value: TensorProto) -> AttributeProto {
    AttributeProto {
        name: Some(name.to_owned()),
        r#type: Some(AttributeType::TENSOR),
        t: MessageField::some(value),
        ..AttributeProto::default()
    }
}

/// A scalar 0 of a floating-point type; `None` for other types.
pub(crate) fn zero(code: i32) -> Option<TensorProto> {
    let size = match code {
        FLOAT => 4,
        FLOAT16 | BFLOAT16 => 2,
        DOUBLE => 8,
        _ => return None,
    };
    Some(TensorProto {
        data_type: Some(code),
        raw_data: Some(vec![0; size]),
        ..TensorProto::default()
    })
}

/// An int64 tensor; a scalar if `sizes` is empty.
pub(crate) fn int64_tensor(sizes: &[i64], values: &[i64]) -> TensorProto {
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

/// A float32 scalar.
pub(crate) fn float_scalar(value: f32) -> TensorProto {
    TensorProto {
        data_type: Some(FLOAT),
        raw_data: Some(value.to_le_bytes().to_vec()),
        ..TensorProto::default()
    }
}

/// The declared sizes: `None` if the rank is unknown, with `None` for each unknown size.
pub(crate) fn declared_sizes(value: &ValueInfoProto) -> Option<Vec<Option<i64>>> {
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

/// A value with a name and no declared type.
pub(crate) fn untyped(name: &str) -> ValueInfoProto {
    ValueInfoProto {
        name: Some(name.to_owned()),
        ..ValueInfoProto::default()
    }
}

/// A tensor's declared element type, as ONNX's code.
pub(crate) fn element_type(value: &ValueInfoProto) -> Option<i32> {
    tensor_type(value)?.elem_type.filter(|&code| code != 0)
}

/// A value's declared tensor type.
pub(crate) fn tensor_type(value: &ValueInfoProto) -> Option<&type_proto::Tensor> {
    match value.r#type.as_option()?.value.as_ref()? {
        type_proto::Value::TensorType(tensor) => Some(tensor),
        _ => None,
    }
}
