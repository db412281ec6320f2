//! Removes values whose last reader is gone; values that never had one stay.
//!
//! Passes replace nodes and leave behind what the old ones read. So the values that nothing read
//! are noted before the first pass, and a sweep removes all others without a reader. It goes from
//! the last node to the first, and so removes a chain of dead nodes at once. In a list that is not
//! sorted, a node after all of its readers counts as one that was never read, and stays.

use std::collections::HashSet;

use crate::model::{self, GraphProto, ModelProto, NodeProto};

/// The values that nothing read before any rewriting.
pub(crate) struct Unread {
    values: HashSet<String>,
    /// All values of the original model, and those that passes declare.
    known: HashSet<String>,
}

impl Unread {
    /// Collects them from a model before it is rewritten.
    pub(crate) fn of(model: &ModelProto) -> Self {
        let mut unread = Self {
            values: HashSet::new(),
            known: HashSet::new(),
        };
        if let Some(graph) = model.graph.as_option() {
            unread.look(graph, owned(model::trained_names(model)).collect());
        }
        for function in &model.functions {
            let mut read = function.output.iter().cloned().collect();
            unread.look_nodes(&function.node, &mut read);
        }
        unread
    }

    /// Lets the declarations of values go with them.
    pub(crate) fn know<'a>(&mut self, names: impl Iterator<Item = &'a str>) {
        self.known.extend(owned(names));
    }

    fn look(&mut self, graph: &GraphProto, mut read: HashSet<String>) -> HashSet<String> {
        read.extend(owned(graph.seen_elsewhere()));
        self.look_nodes(&graph.node, &mut read);
        let unread = graph.tensors().filter(|name| !read.contains(*name));
        self.values.extend(owned(unread));
        self.known
            .extend(owned(graph.inputs().chain(graph.tensors())));
        read
    }

    fn look_nodes(&mut self, nodes: &[NodeProto], read: &mut HashSet<String>) {
        for node in nodes.iter().rev() {
            self.known.extend(owned(node.outputs()));
            if !is_read(node, read) {
                self.values.extend(owned(node.outputs()));
            }
            read.extend(owned(node.inputs()));
            for graph in node.graphs() {
                read.extend(self.look(graph, HashSet::new()));
            }
        }
    }

    /// Removes nodes, initializers and declarations that lost their last reader.
    pub(crate) fn sweep(&self, model: &mut ModelProto, are_fixed: bool) {
        let trained = owned(model::trained_names(model)).collect();
        if let Some(graph) = model.graph.as_option_mut() {
            self.sweep_graph(graph, trained, are_fixed);
        }
        for function in &mut model.functions {
            let mut read = function.output.iter().cloned().collect();
            self.sweep_nodes(&mut function.node, &mut read);
            let mut here: HashSet<&str> = function.input.iter().map(String::as_str).collect();
            here.extend(function.node.iter().flat_map(NodeProto::outputs));
            let known = &self.known;
            function
                .value_info
                .retain(|value| here.contains(value.name()) || !known.contains(value.name()));
        }
    }

    /// Sweeps a graph, in which initializers that are inputs as well stay unless they are fixed.
    fn sweep_graph(
        &self,
        graph: &mut GraphProto,
        mut read: HashSet<String>,
        are_fixed: bool,
    ) -> HashSet<String> {
        read.extend(owned(graph.seen_elsewhere()));
        self.sweep_nodes(&mut graph.node, &mut read);
        let inputs: HashSet<String> = match are_fixed {
            true => HashSet::new(),
            false => owned(graph.inputs()).collect(),
        };
        let mut gone = HashSet::new();
        graph.initializer.retain(|tensor| {
            let name = tensor.name();
            let is_kept =
                read.contains(name) || inputs.contains(name) || self.values.contains(name);
            if !is_kept {
                gone.insert(name.to_owned());
            }
            is_kept
        });
        graph.input.retain(|input| !gone.contains(input.name()));
        let here: HashSet<String> = owned(graph.defined()).collect();
        graph
            .value_info
            .retain(|value| here.contains(value.name()) || !self.known.contains(value.name()));
        read
    }

    fn sweep_nodes(&self, nodes: &mut Vec<NodeProto>, read: &mut HashSet<String>) {
        let mut kept = vec![true; nodes.len()];
        for (index, node) in nodes.iter_mut().enumerate().rev() {
            let was_unread = node.outputs().any(|output| self.values.contains(output));
            kept[index] = is_read(node, read) || was_unread || node.outputs().next().is_none();
            if !kept[index] {
                continue;
            }
            read.extend(owned(node.inputs()));
            for graph in node.graphs_mut() {
                read.extend(self.sweep_graph(graph, HashSet::new(), false));
            }
        }
        let mut kept = kept.into_iter();
        nodes.retain(|_| kept.next().unwrap_or(true));
    }
}

fn owned<'a>(names: impl IntoIterator<Item = &'a str>) -> impl Iterator<Item = String> {
    names.into_iter().map(str::to_owned)
}

fn is_read(node: &NodeProto, read: &HashSet<String>) -> bool {
    node.outputs().any(|output| read.contains(output))
}
