//! Checksums of the nodes and constants that each output is computed from.

use std::collections::HashMap;

use crc32fast::Hasher;
use revseq_onnx::model::{AttributeProto, GraphProto, NodeProto, TensorProto};
use revseq_onnx::order;

use super::Model;

impl Model {
    /// Returns a checksum for each output, of all nodes and constants that it is computed from. The
    /// names of nodes, of constants and of the values between nodes do not matter, nor do other
    /// outputs.
    pub(crate) fn origins(&self) -> Vec<u32> {
        of_graph(self.graph(), None, |_, input| checksum(|it| it.text(input)))
    }
}

/// The checksums of a graph's values, and of those around it.
type Scope<'a, 's> = super::scope::Scope<'a, 's, u32>;

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
        let dims = tensor.dims.iter();
        let dims: Vec<u8> = dims.flat_map(|dim| dim.to_le_bytes()).collect();
        self.number(tensor.code().cast_unsigned());
        self.bytes(&dims);
        self.bytes(tensor.raw());
        tensor.string_data.iter().for_each(|it| self.bytes(it));
    }

    fn attribute(&mut self, attribute: &AttributeProto, scope: &Scope<'_, '_>) {
        self.text(attribute.name());
        attribute
            .all_tensors()
            .for_each(|tensor| self.tensor(tensor));
        for graph in attribute.all_graphs() {
            let inner = of_graph(graph, Some(scope), |index, _| {
                checksum(|it| it.number(index as u32))
            });
            inner.into_iter().for_each(|output| self.number(output));
        }
        // Some writers omit what is empty or zero.
        let rest = AttributeProto {
            name: attribute.name.clone(),
            ref_attr_name: attribute.ref_attr_name.clone().filter(|it| !it.is_empty()),
            r#type: attribute.r#type,
            f: attribute.f.filter(|it| it.to_bits() != 0),
            i: attribute.i.filter(|it| *it != 0),
            s: attribute.s.clone().filter(|it| !it.is_empty()),
            sparse_tensor: attribute.sparse_tensor.clone(),
            floats: attribute.floats.clone(),
            ints: attribute.ints.clone(),
            strings: attribute.strings.clone(),
            sparse_tensors: attribute.sparse_tensors.clone(),
            ..AttributeProto::default()
        };
        // What is less than a model that was read fits.
        self.bytes(&revseq_onnx::encode(&rest).unwrap_or_default());
    }

    fn node(&mut self, node: &NodeProto, scope: &Scope<'_, '_>) {
        self.text(node.domain());
        self.text(node.op());
        self.number(node.input.len() as u32);
        node.input.iter().for_each(|it| self.number(scope.get(it)));
        let mut attributes: Vec<&AttributeProto> = node.attribute.iter().collect();
        attributes.sort_by_key(|attribute| attribute.name());
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
    let inputs = inputs.map(|(index, it)| (it.name(), of_input(index, it.name())));
    scope.values.extend(inputs);
    for tensor in &graph.initializer {
        let sum = checksum(|it| it.tensor(tensor));
        scope.values.entry(tensor.name()).or_insert(sum);
    }
    for sparse in &graph.sparse_initializer {
        let name = sparse.values.as_option().map_or("", TensorProto::name);
        let sum = checksum(|it| it.bytes(&revseq_onnx::encode(sparse).unwrap_or_default()));
        scope.values.entry(name).or_insert(sum);
    }
    // A checked model has an order.
    let order = order::sorted(&graph.node).map(|order| order.nodes);
    for index in order.unwrap_or_default() {
        let node = &graph.node[index];
        let made = checksum(|it| it.node(node, &scope));
        for (slot, output) in node.output.iter().enumerate() {
            let sum = checksum(|it| {
                it.number(made);
                it.number(slot as u32);
            });
            scope.values.insert(output, sum);
        }
    }
    scope.values.remove("");
    graph.outputs().map(|output| scope.get(output)).collect()
}
