//! Accessors for what is asked of messages often. A field that a writer left out is empty.

use std::collections::HashSet;

use buffa::Enumeration;

use super::{
    AttributeProto, AttributeType, FunctionProto, GraphProto, ModelProto, NodeProto,
    OperatorSetIdProto, StringStringEntryProto, TensorProto, ValueInfoProto, domain, tensor_proto,
};

/// Adds the name of a message.
macro_rules! named {
    ($($message:ty),+) => {
        $(impl $message {
            /// Its name; empty if it has none.
            #[must_use]
            pub fn name(&self) -> &str {
                self.name.as_deref().unwrap_or_default()
            }
        })+
    };
}

named!(
    AttributeProto,
    FunctionProto,
    NodeProto,
    TensorProto,
    ValueInfoProto
);

impl OperatorSetIdProto {
    /// The domain; ONNX's own is empty.
    #[must_use]
    pub fn domain(&self) -> &str {
        domain(self.domain.as_deref())
    }

    /// The version; 0 if there is none.
    #[must_use]
    pub fn version(&self) -> i64 {
        self.version.unwrap_or_default()
    }
}

impl FunctionProto {
    /// Its domain; ONNX's own is empty.
    #[must_use]
    pub fn domain(&self) -> &str {
        domain(self.domain.as_deref())
    }
}

impl StringStringEntryProto {
    /// Its key; empty if it has none.
    #[must_use]
    pub fn key(&self) -> &str {
        self.key.as_deref().unwrap_or_default()
    }

    /// Its value; empty if it has none.
    #[must_use]
    pub fn value(&self) -> &str {
        self.value.as_deref().unwrap_or_default()
    }
}

impl TensorProto {
    /// ONNX's code of the element type; 0 if it has none.
    #[must_use]
    pub fn code(&self) -> i32 {
        self.data_type.unwrap_or_default()
    }

    /// Its little-endian data, if it is stored so.
    #[must_use]
    pub fn raw(&self) -> &[u8] {
        self.raw_data.as_deref().unwrap_or_default()
    }

    /// Whether its data is in another file.
    #[must_use]
    pub fn is_external(&self) -> bool {
        self.data_location == Some(tensor_proto::DataLocation::EXTERNAL)
    }
}

impl AttributeProto {
    /// All its tensors.
    pub fn all_tensors(&self) -> impl Iterator<Item = &TensorProto> {
        self.t.as_option().into_iter().chain(&self.tensors)
    }

    /// All its graphs.
    pub fn all_graphs(&self) -> impl Iterator<Item = &GraphProto> {
        self.g.as_option().into_iter().chain(&self.graphs)
    }

    /// ONNX's name of its type; `UNDEFINED` if it has none.
    #[must_use]
    pub fn type_name(&self) -> &'static str {
        let kind = self.r#type.unwrap_or(AttributeType::UNDEFINED);
        kind.proto_name()
    }

    /// The name of the function's attribute that it refers to; empty if it has a value itself.
    #[must_use]
    pub fn reference(&self) -> &str {
        self.ref_attr_name.as_deref().unwrap_or_default()
    }
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

    /// The names of its initializers, dense ones first.
    pub fn constants(&self) -> impl Iterator<Item = &str> {
        self.tensors().chain(self.sparse_tensors())
    }

    /// The names of all values it defines.
    pub fn defined(&self) -> impl Iterator<Item = &str> {
        let given = self.inputs().chain(self.constants());
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

    /// This graph and all in its nodes.
    pub fn with_inner(&self) -> impl Iterator<Item = &GraphProto> {
        let within = all_nodes(&self.node).flat_map(NodeProto::graphs);
        std::iter::once(self).chain(within)
    }

    /// Collects all names of values and nodes that it or its subgraphs mention.
    pub(crate) fn mentioned<'a>(&'a self, names: &mut HashSet<&'a str>) {
        names.extend(self.defined());
        names.extend(self.seen_elsewhere());
        let declared = self.value_info.iter();
        names.extend(declared.filter_map(|value| value.name.as_deref()));
        mentioned(&self.node, names);
    }
}

impl ModelProto {
    /// All nodes, wherever they are: those of the main graph and of the functions, and those of the
    /// graphs in these.
    pub fn all_nodes(&self) -> impl Iterator<Item = &NodeProto> {
        let main = self.graph.as_option().map(|graph| &graph.node);
        let functions = self.functions.iter().map(|function| &function.node);
        main.into_iter()
            .chain(functions)
            .flat_map(|it| all_nodes(it))
    }
}

/// Some nodes and those of the graphs in them, each before those within it.
pub fn all_nodes(nodes: &[NodeProto]) -> impl Iterator<Item = &NodeProto> {
    let mut open = vec![nodes.iter()];
    std::iter::from_fn(move || {
        loop {
            let Some(node) = open.last_mut()?.next() else {
                open.pop();
                continue;
            };
            let within: Vec<&GraphProto> = node.graphs().collect();
            open.extend(within.into_iter().rev().map(|graph| graph.node.iter()));
            return Some(node);
        }
    })
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
    /// No value: the operator's default holds.
    Absent,
    /// The value given in the node.
    Value(T),
    /// A reference in a function: the caller gives the value.
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
            .find(|attribute| attribute.name() == name)
    }

    fn attribute_value<'a, T>(
        &'a self,
        name: &str,
        value: impl FnOnce(&'a AttributeProto) -> Option<T>,
    ) -> Attribute<T> {
        match self.attribute(name) {
            None => Attribute::Absent,
            Some(attribute) if !attribute.reference().is_empty() => Attribute::Reference,
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
        self.attribute.iter().flat_map(AttributeProto::all_graphs)
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
        match self.name() {
            "" => format!("{}#{index}", self.op()),
            name => name.to_owned(),
        }
    }
}
