//! Inlines the nodes of a function or a branch in place of the node that contains it.
//!
//! All values of the body get fresh names, since the graph around may use the same ones; those of
//! its outputs become the names that the replaced node gave them. Names that the body does not
//! define are those of the graphs around, and stay. References to a function's attributes become
//! the values of the call, or the operator's default.
//!
//! ```text
//! node c: y = f(a), with f(x) = { t = Exp(x); out = Neg(t) }  →  c/f/t = Exp(a); y = Neg(c/f/t)
//! ```

use std::collections::HashMap;

use crate::model::{self, AttributeProto, GraphProto, NodeProto, TensorProto};
use crate::rename::identity;
use crate::scope::Names;

/// Renames a body's nodes and values for their new place.
pub(super) struct Inline<'a> {
    names: &'a Names,
    /// The prefix of new names: the replaced node, and the body within it.
    prefix: String,
    /// The new names of values. All others belong to the graphs around.
    values: HashMap<String, String>,
    /// The attributes of a call. A branch has none: its references are to the attributes of the
    /// enclosing function.
    attributes: Option<HashMap<&'a str, &'a AttributeProto>>,
    nodes: Vec<NodeProto>,
}

impl<'a> Inline<'a> {
    /// Inlines a branch.
    pub(super) fn branch(prefix: String, names: &'a Names) -> Self {
        Self {
            names,
            prefix,
            values: HashMap::new(),
            attributes: None,
            nodes: Vec::new(),
        }
    }

    /// Inlines a function called with these inputs and attributes.
    pub(super) fn function(
        prefix: String,
        names: &'a Names,
        inputs: impl Iterator<Item = (String, String)>,
        attributes: HashMap<&'a str, &'a AttributeProto>,
    ) -> Self {
        Self {
            values: inputs.collect(),
            attributes: Some(attributes),
            ..Self::branch(prefix, names)
        }
    }

    /// Adds the body's initializers, as nodes.
    pub(super) fn tensors(mut self, tensors: &[TensorProto]) -> Self {
        for tensor in tensors {
            let mut value = tensor.clone();
            let name = value.name.take().unwrap_or_default();
            let constant = model::node(
                "Constant",
                &[],
                &[&name],
                vec![model::tensor("value", value)],
            );
            self.nodes.push(constant);
        }
        self
    }

    /// The body's nodes, renamed; its outputs get the names of the replaced node's outputs.
    pub(super) fn nodes(
        mut self,
        body: &[NodeProto],
        outputs: impl Iterator<Item = (String, String)>,
    ) -> Vec<NodeProto> {
        let mut nodes = std::mem::take(&mut self.nodes);
        let stored = nodes.len();
        nodes.extend_from_slice(body);
        for (index, node) in nodes.iter_mut().enumerate() {
            // The index within the body.
            let label = match index.checked_sub(stored) {
                Some(index) => node.label(index),
                None => node.output[0].clone(),
            };
            node.name = Some(self.names.fresh(&format!("{}/{label}", self.prefix)));
        }
        let mut handed_on = Vec::new();
        for (inner, outer) in outputs.filter(|(_, outer)| !outer.is_empty()) {
            let is_made = nodes
                .iter()
                .flat_map(NodeProto::outputs)
                .any(|it| it == inner);
            if is_made && !self.values.contains_key(&inner) {
                self.values.insert(inner, outer);
            } else {
                handed_on.push((inner, outer));
            }
        }
        self.define(nodes.iter().flat_map(NodeProto::outputs));
        for node in &mut nodes {
            self.rename(node, &HashMap::new());
        }
        for (inner, outer) in handed_on {
            nodes.push(identity(&self.value(&inner), &outer));
        }
        nodes
    }

    /// Gives fresh names to values that have none yet.
    fn define<'v>(&mut self, values: impl Iterator<Item = &'v str>) {
        for value in values {
            if !self.values.contains_key(value) {
                let fresh = self.names.fresh(&format!("{}/{value}", self.prefix));
                self.values.insert(value.to_owned(), fresh);
            }
        }
    }

    fn value(&self, name: &str) -> String {
        self.values
            .get(name)
            .map_or(name, String::as_str)
            .to_owned()
    }

    /// Renames a node's inputs and outputs. `inner` holds the values of the graphs between it and
    /// the body.
    fn rename(&mut self, node: &mut NodeProto, inner: &HashMap<String, String>) {
        for name in node.input.iter_mut().chain(&mut node.output) {
            if let Some(new) = inner.get(name).or_else(|| self.values.get(name)) {
                name.clone_from(new);
            }
        }
        if let Some(attributes) = &self.attributes {
            node.attribute = std::mem::take(&mut node.attribute)
                .into_iter()
                .filter_map(|attribute| resolve(attribute, attributes))
                .collect();
        }
        for graph in node.graphs_mut() {
            self.rename_graph(graph, inner.clone());
        }
    }

    /// Renames a subgraph, including its own values, since the graphs around it may now use the
    /// same names.
    fn rename_graph(&mut self, graph: &mut GraphProto, mut inner: HashMap<String, String>) {
        let inputs = graph.input.iter().filter_map(|value| value.name.clone());
        let tensors = graph.initializer.iter().filter_map(|it| it.name.clone());
        let made = graph.node.iter().flat_map(NodeProto::outputs);
        let own: Vec<String> = inputs
            .chain(tensors)
            .chain(made.map(str::to_owned))
            .collect();
        for name in own {
            let fresh = self.names.fresh(&format!("{}/{name}", self.prefix));
            inner.insert(name, fresh);
        }
        let rename = |name: &mut Option<String>| {
            let old = name.as_deref().unwrap_or_default();
            let new = inner.get(old).or_else(|| self.values.get(old));
            if let Some(new) = new {
                *name = Some(new.clone());
            }
        };
        graph
            .initializer
            .iter_mut()
            .for_each(|it| rename(&mut it.name));
        // They refer to values by the old names.
        graph.quantization_annotation.clear();
        let values = graph.input.iter_mut().chain(&mut graph.output);
        values
            .chain(&mut graph.value_info)
            .for_each(|value| rename(&mut value.name));
        for node in &mut graph.node {
            self.rename(node, &inner);
        }
    }
}

/// Replaces a reference by the attribute of the call; `None` if the call gives none and the
/// operator's default holds.
fn resolve(
    attribute: AttributeProto,
    call: &HashMap<&str, &AttributeProto>,
) -> Option<AttributeProto> {
    match attribute.ref_attr_name.as_deref().unwrap_or_default() {
        "" => Some(attribute),
        outer => call.get(outer).map(|&value| AttributeProto {
            name: attribute.name,
            ..value.clone()
        }),
    }
}
