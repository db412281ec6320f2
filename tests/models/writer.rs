//! Graphs that are written node by node.

use std::cell::Cell;
use std::fmt::Display;
use std::rc::Rc;

use revseq_onnx::model::{FLOAT, GraphProto, INT64, NodeProto, TensorProto};

use crate::text;

/// A graph as it is written. An input of a node may be a [literal](text::literal).
#[derive(Debug, Default)]
pub struct Writer {
    nodes: Vec<NodeProto>,
    constants: Vec<TensorProto>,
    /// The graphs that later nodes may have.
    graphs: Vec<(String, GraphProto)>,
    count: Rc<Cell<usize>>,
}

impl Writer {
    /// Begins a model's graph.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Begins a graph within this one, whose names are its own.
    #[must_use]
    pub fn within(&self) -> Self {
        Self {
            count: Rc::clone(&self.count),
            ..Self::default()
        }
    }

    /// Returns a name that no other value has.
    #[must_use]
    pub fn fresh(&self, name: &str) -> String {
        self.count.set(self.count.get() + 1);
        format!("{name}{}", self.count.get())
    }

    /// The number of names so far, as a seed.
    #[must_use]
    pub fn count(&self) -> usize {
        self.count.get()
    }

    /// The number of nodes so far.
    #[must_use]
    pub fn len(&self) -> usize {
        self.nodes.len()
    }

    /// Whether there is no node yet.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.nodes.is_empty()
    }

    /// Adds a node such as `Concat<axis=1>(a, b)`; its output.
    pub fn op(&mut self, call: impl Display) -> String {
        let [output] = self.ops(call);
        output
    }

    /// Adds a node of several outputs.
    ///
    /// # Panics
    /// The text is no call, or names a graph that was not added.
    pub fn ops<const OUTPUTS: usize>(&mut self, call: impl Display) -> [String; OUTPUTS] {
        let outputs = [(); OUTPUTS].map(|()| self.fresh("v"));
        self.add(&outputs.join(", "), call);
        outputs
    }

    /// Adds a node whose outputs have these names.
    ///
    /// # Panics
    /// The text is no call, or names a graph that was not added.
    pub fn add(&mut self, outputs: &str, call: impl Display) {
        let mut node = text::node(&format!("{outputs} = {call}"));
        for input in &mut node.input {
            if let Some(literal) = text::literal(input) {
                *input = self.constant(literal);
            }
        }
        let named = node.output.iter().find(|it| !it.is_empty());
        node.name = named.map(|it| format!("{it}_node"));
        let graphs = &self.graphs;
        text::attach(&mut node, |name| {
            let found = graphs.iter().find(|(it, _)| it == name);
            found.map(|(_, graph)| graph.clone())
        });
        self.nodes.push(node);
    }

    /// Adds a graph that later nodes may have as an attribute; its name.
    pub fn inner(&mut self, graph: GraphProto) -> String {
        let name = self.fresh("graph");
        self.graphs.push((name.clone(), graph));
        name
    }

    /// Adds an initializer; its name.
    pub fn constant(&mut self, tensor: TensorProto) -> String {
        let name = self.fresh("constant");
        self.constants.push(TensorProto {
            name: Some(name.clone()),
            ..tensor
        });
        name
    }

    /// Adds an initializer of these bytes; its name.
    pub fn bytes(&mut self, code: i32, sizes: &[usize], bytes: Vec<u8>) -> String {
        self.constant(text::tensor("", code, sizes, bytes))
    }

    /// Adds a vector of int64; its name.
    pub fn ints(&mut self, values: &[i64]) -> String {
        let bytes = values.iter().flat_map(|it| it.to_le_bytes()).collect();
        self.bytes(INT64, &[values.len()], bytes)
    }

    /// Adds floats, by their places; the name.
    pub fn floats(&mut self, sizes: &[usize], number: impl Fn(usize) -> f32) -> String {
        let bytes = (0..sizes.iter().product()).flat_map(|it| number(it).to_le_bytes());
        let bytes = bytes.collect();
        self.bytes(FLOAT, sizes, bytes)
    }

    /// Adds weights that are all alike as little as random ones; their name.
    pub fn weights(&mut self, sizes: &[usize]) -> String {
        let seed = self.count() + 1;
        self.floats(sizes, |at| ((at * 37 + seed * 11) % 64) as f32 / 64.0 - 0.5)
    }

    /// Ends a graph with these inputs and outputs, of the form of [`text::values`].
    #[must_use]
    pub fn graph(self, inputs: &str, outputs: &str) -> GraphProto {
        GraphProto {
            name: Some(self.fresh("graph")),
            input: text::values(inputs),
            output: text::values(outputs),
            node: self.nodes,
            initializer: self.constants,
            ..GraphProto::default()
        }
    }

    /// Ends a model with these inputs and outputs, and this version of ONNX's operators; its bytes.
    ///
    /// # Panics
    /// The model is of more than 2 GiB.
    #[must_use]
    pub fn model(self, inputs: &str, outputs: &str, opset: i64) -> Vec<u8> {
        text::model(self.graph(inputs, outputs), opset)
    }
}
