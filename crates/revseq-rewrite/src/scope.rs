//! A graph with its values found by name, and the graphs around it.

use std::collections::{HashMap, HashSet};

use crate::model::{FunctionProto, GraphProto, ModelProto, NodeProto, TensorProto, ValueInfoProto};

/// Where a graph is in a model.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Path {
    /// The function that it is in, if it is not in the main graph.
    pub(crate) function: Option<usize>,
    /// From there inwards: the node, and which of its graphs.
    pub(crate) steps: Vec<(usize, usize)>,
}

/// A graph among the graphs around it.
pub(crate) struct Scope<'a> {
    /// Its nodes, in order.
    pub(crate) nodes: &'a [NodeProto],
    pub(crate) inputs: Vec<&'a str>,
    pub(crate) outputs: Vec<&'a str>,
    pub(crate) parent: Option<&'a Scope<'a>>,
    /// The version of ONNX's operators.
    pub(crate) opset: i64,
    producers: HashMap<&'a str, (usize, usize)>,
    initializers: HashMap<&'a str, &'a TensorProto>,
    declared_inputs: HashMap<&'a str, &'a ValueInfoProto>,
    declared: HashMap<&'a str, &'a ValueInfoProto>,
    /// How often each value is read, here and in the graphs within; a graph's
    /// output is read once by whoever reads that.
    uses: HashMap<&'a str, usize>,
}

/// Where a value comes from.
#[derive(Clone, Copy)]
pub(crate) enum Source<'a> {
    /// An output of a node.
    Node { node: &'a NodeProto, output: usize },
    /// A tensor in the model that nothing can replace.
    Initializer(&'a TensorProto),
    /// An input of the graph; an initializer may stand in for it.
    Input(Option<&'a ValueInfoProto>),
}

impl<'a> Scope<'a> {
    /// Whether the model's version of ONNX's operators has one that a pass writes.
    ///
    /// # Errors
    /// Why the node is left alone.
    pub(crate) fn needs(&self, operator: &str, since: i64) -> Result<(), String> {
        if self.opset < since {
            return Err(format!(
                "version {} of ONNX's operators has no {operator}",
                self.opset
            ));
        }
        Ok(())
    }

    /// The main graph, or a graph in an attribute.
    pub(crate) fn graph(graph: &'a GraphProto, parent: Option<&'a Scope<'a>>, opset: i64) -> Self {
        let name = |value: &'a ValueInfoProto| value.name.as_deref().unwrap_or_default();
        let by_name = |values: &'a [ValueInfoProto]| {
            values.iter().map(|value| (name(value), value)).collect()
        };
        let declared = graph.value_info.iter().chain(&graph.output);
        Self {
            parent,
            initializers: graph
                .initializer
                .iter()
                .map(|tensor| (tensor.name.as_deref().unwrap_or_default(), tensor))
                .collect(),
            declared_inputs: by_name(&graph.input),
            declared: declared.map(|value| (name(value), value)).collect(),
            ..Self::new(
                &graph.node,
                graph.input.iter().map(name).collect(),
                graph.output.iter().map(name).collect(),
                opset,
            )
        }
    }

    /// The body of a function.
    pub(crate) fn function(function: &'a FunctionProto, opset: i64) -> Self {
        Self::new(
            &function.node,
            function.input.iter().map(String::as_str).collect(),
            function.output.iter().map(String::as_str).collect(),
            opset,
        )
    }

    fn new(
        nodes: &'a [NodeProto],
        inputs: Vec<&'a str>,
        outputs: Vec<&'a str>,
        opset: i64,
    ) -> Self {
        let mut producers = HashMap::new();
        for (index, node) in nodes.iter().enumerate() {
            for (output, name) in node.output.iter().enumerate() {
                producers.insert(name.as_str(), (index, output));
            }
        }
        let mut uses = HashMap::new();
        count_uses(nodes, &mut uses);
        for output in &outputs {
            *uses.entry(*output).or_insert(0) += 1;
        }
        Self {
            nodes,
            inputs,
            outputs,
            parent: None,
            opset,
            producers,
            initializers: HashMap::new(),
            declared_inputs: HashMap::new(),
            declared: HashMap::new(),
            uses,
        }
    }

    /// Where a value comes from, and the graph that it is in.
    pub(crate) fn source(&'a self, name: &str) -> Option<(&'a Scope<'a>, Source<'a>)> {
        if let Some(&(index, output)) = self.producers.get(name) {
            let node = &self.nodes[index];
            return Some((self, Source::Node { node, output }));
        }
        if self.inputs.contains(&name) {
            return Some((self, Source::Input(self.declared_inputs.get(name).copied())));
        }
        if let Some(tensor) = self.initializers.get(name) {
            return Some((self, Source::Initializer(tensor)));
        }
        self.parent?.source(name)
    }

    /// The node that a value comes from, which of its outputs it is, and the graph.
    pub(crate) fn producer(&'a self, name: &str) -> Option<(&'a Scope<'a>, &'a NodeProto, usize)> {
        match self.source(name)? {
            (scope, Source::Node { node, output, .. }) => Some((scope, node, output)),
            _ => None,
        }
    }

    /// The node of this graph that a value comes from, if it is the first output
    /// of one of ONNX's operators of that name.
    pub(crate) fn first_output_of(&'a self, name: &str, op: &str) -> Option<&'a NodeProto> {
        let &(index, output) = self.producers.get(name)?;
        let node = &self.nodes[index];
        (output == 0 && node.is(op)).then_some(node)
    }

    /// Whether this graph itself defines a value.
    pub(crate) fn defines(&self, name: &str) -> bool {
        self.producers.contains_key(name)
            || self.inputs.contains(&name)
            || self.initializers.contains_key(name)
    }

    /// How often a value is read.
    pub(crate) fn uses(&self, name: &str) -> usize {
        self.uses.get(name).copied().unwrap_or(0)
    }

    /// What is declared of a value. Only what graph inputs declare is enforced.
    pub(crate) fn declaration(&'a self, name: &str) -> Option<&'a ValueInfoProto> {
        let here = self
            .declared_inputs
            .get(name)
            .or_else(|| self.declared.get(name));
        match here {
            Some(value) => Some(value),
            None if self.defines(name) => None,
            None => self.parent?.declaration(name),
        }
    }
}

/// Counts the reads of values by nodes and the graphs within them.
fn count_uses<'a>(nodes: &'a [NodeProto], uses: &mut HashMap<&'a str, usize>) {
    for node in nodes {
        for input in node.inputs() {
            *uses.entry(input).or_insert(0) += 1;
        }
        for graph in node.graphs() {
            count_uses(&graph.node, uses);
            for output in &graph.output {
                *uses
                    .entry(output.name.as_deref().unwrap_or_default())
                    .or_insert(0) += 1;
            }
        }
    }
}

/// Names that no value and no node of a model has.
pub(crate) struct Names {
    taken: HashSet<String>,
}

impl Names {
    /// All names that a model uses are taken.
    pub(crate) fn new(model: &ModelProto) -> Self {
        let mut names = Self {
            taken: HashSet::new(),
        };
        if let Some(graph) = model.graph.as_option() {
            names.take_graph(graph);
        }
        for function in &model.functions {
            names.taken.extend(function.input.iter().cloned());
            names.take_nodes(&function.node);
        }
        names
    }

    fn take_graph(&mut self, graph: &GraphProto) {
        let values = graph
            .input
            .iter()
            .chain(&graph.output)
            .chain(&graph.value_info);
        self.taken
            .extend(values.filter_map(|value| value.name.clone()));
        let tensors = graph.initializer.iter();
        self.taken
            .extend(tensors.filter_map(|tensor| tensor.name.clone()));
        self.take_nodes(&graph.node);
    }

    fn take_nodes(&mut self, nodes: &[NodeProto]) {
        for node in nodes {
            self.taken.extend(node.name.clone());
            self.taken
                .extend(node.input.iter().chain(&node.output).cloned());
            for graph in node.graphs() {
                self.take_graph(graph);
            }
        }
    }

    /// A name that is free, like the one that is wished for; it is taken then.
    pub(crate) fn fresh(&mut self, wish: &str) -> String {
        let mut name = wish.to_owned();
        let mut number = 1;
        while !self.taken.insert(name.clone()) {
            number += 1;
            name = format!("{wish}_{number}");
        }
        name
    }
}
