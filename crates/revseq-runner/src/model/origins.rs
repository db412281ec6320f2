//! From what each output is computed, as a checksum.

use std::collections::HashMap;

use crc32fast::Hasher;
use prost::Message;
use tract_onnx::pb::{AttributeProto, GraphProto, NodeProto, TensorProto};

use super::check::canonical_domain;
use super::{Model, order};

impl Model {
    /// For each output, a checksum of all nodes and constants that it is computed from. The names of
    /// nodes, of constants and of the values between nodes do not matter, nor do other outputs.
    pub(crate) fn origins(&self) -> Vec<u32> {
        of_graph(self.graph(), None, |_, input| checksum(|it| it.text(input)))
    }
}

/// The checksums of a graph's values, and of those around it.
struct Scope<'a, 's> {
    values: HashMap<&'a str, u32>,
    outer: Option<&'s Scope<'a, 's>>,
}

impl Scope<'_, '_> {
    /// The checksum of a value; 0 for an input that is left out.
    fn of(&self, name: &str) -> u32 {
        let outer = || self.outer.map(|outer| outer.of(name));
        let own = self.values.get(name).copied();
        own.or_else(outer).unwrap_or_default()
    }
}

/// A checksum of parts, each delimited.
#[derive(Default)]
struct Parts(Hasher);

impl Parts {
    fn bytes(&mut self, bytes: &[u8]) {
        self.0.update(&(bytes.len() as u64).to_le_bytes());
        self.0.update(bytes);
    }

    fn text(&mut self, text: &str) {
        self.bytes(text.as_bytes());
    }

    fn number(&mut self, number: u32) {
        self.0.update(&number.to_le_bytes());
    }

    fn tensor(&mut self, tensor: &TensorProto) {
        let TensorProto { dims, raw_data, .. } = tensor;
        let dims: Vec<u8> = dims.iter().flat_map(|dim| dim.to_le_bytes()).collect();
        self.number(tensor.data_type.cast_unsigned());
        self.bytes(&dims);
        self.bytes(raw_data);
        tensor.string_data.iter().for_each(|it| self.bytes(it));
    }

    fn attribute(&mut self, attribute: &AttributeProto, scope: &Scope<'_, '_>) {
        self.text(&attribute.name);
        let tensors = attribute.t.iter().chain(&attribute.tensors);
        tensors.for_each(|tensor| self.tensor(tensor));
        for graph in attribute.g.iter().chain(&attribute.graphs) {
            let inner = of_graph(graph, Some(scope), |index, _| {
                checksum(|it| it.number(index as u32))
            });
            inner.into_iter().for_each(|output| self.number(output));
        }
        let rest = AttributeProto {
            doc_string: String::new(),
            t: None,
            tensors: vec![],
            g: None,
            graphs: vec![],
            ..attribute.clone()
        };
        self.bytes(&rest.encode_to_vec());
    }

    fn node(&mut self, node: &NodeProto, scope: &Scope<'_, '_>) {
        self.text(canonical_domain(&node.domain));
        self.text(&node.op_type);
        self.number(node.input.len() as u32);
        node.input.iter().for_each(|it| self.number(scope.of(it)));
        let mut attributes: Vec<&AttributeProto> = node.attribute.iter().collect();
        attributes.sort_by_key(|attribute| &attribute.name);
        for attribute in attributes {
            self.attribute(attribute, scope);
        }
    }
}

fn checksum(add: impl FnOnce(&mut Parts)) -> u32 {
    let mut parts = Parts::default();
    add(&mut parts);
    parts.0.finalize()
}

/// The checksums of a graph's outputs; `of_input` gives those of its inputs, from the place and the
/// name.
fn of_graph<'a>(
    graph: &'a GraphProto,
    outer: Option<&Scope<'a, '_>>,
    of_input: impl Fn(usize, &'a str) -> u32,
) -> Vec<u32> {
    let mut scope = Scope {
        values: HashMap::new(),
        outer,
    };
    let inputs = graph.input.iter().enumerate();
    let inputs = inputs.map(|(index, it)| (it.name.as_str(), of_input(index, &it.name)));
    scope.values.extend(inputs);
    for tensor in &graph.initializer {
        let of = checksum(|it| it.tensor(tensor));
        scope.values.entry(tensor.name.as_str()).or_insert(of);
    }
    for sparse in &graph.sparse_initializer {
        let name = sparse.values.as_ref().map_or("", |it| it.name.as_str());
        let of = checksum(|it| it.bytes(&sparse.encode_to_vec()));
        scope.values.entry(name).or_insert(of);
    }
    // A checked model has an order.
    for index in order::sorted(&graph.node).unwrap_or_default() {
        let node = &graph.node[index];
        let made = checksum(|it| it.node(node, &scope));
        for (slot, output) in node.output.iter().enumerate() {
            let of = checksum(|it| {
                it.number(made);
                it.number(slot as u32);
            });
            scope.values.insert(output, of);
        }
    }
    scope.values.remove("");
    let outputs = graph.output.iter();
    outputs.map(|output| scope.of(&output.name)).collect()
}
