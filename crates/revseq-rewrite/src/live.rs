//! What no one reads any more goes; what no one ever read stays.

use std::collections::HashSet;

use crate::model::{GraphProto, ModelProto, NodeProto};

/// The values that are read by none: as they were before any rewriting.
pub(crate) struct Unread {
    values: HashSet<String>,
    /// All values that there were.
    known: HashSet<String>,
}

impl Unread {
    /// Looks through a model that is not yet rewritten.
    pub(crate) fn of(model: &ModelProto) -> Self {
        let mut unread = Self {
            values: HashSet::new(),
            known: HashSet::new(),
        };
        if let Some(graph) = model.graph.as_option() {
            unread.look(graph);
        }
        for function in &model.functions {
            let mut read = function.output.iter().cloned().collect();
            unread.look_nodes(&function.node, &mut read);
        }
        unread
    }

    fn look(&mut self, graph: &GraphProto) -> HashSet<String> {
        let mut read = outputs(graph);
        self.look_nodes(&graph.node, &mut read);
        for tensor in &graph.initializer {
            let name = tensor.name.clone().unwrap_or_default();
            if !read.contains(&name) {
                self.values.insert(name);
            }
        }
        for value in graph.input.iter() {
            self.known.extend(value.name.clone());
        }
        for tensor in &graph.initializer {
            self.known.extend(tensor.name.clone());
        }
        read
    }

    fn look_nodes(&mut self, nodes: &[NodeProto], read: &mut HashSet<String>) {
        for node in nodes.iter().rev() {
            self.known.extend(node.outputs().map(str::to_owned));
            if !is_read(node, read) {
                self.values.extend(node.outputs().map(str::to_owned));
            }
            read.extend(node.inputs().map(str::to_owned));
            for graph in node.graphs() {
                read.extend(self.look(graph));
            }
        }
    }

    /// Removes from a model what was read before and is no more: nodes,
    /// initializers, and what is declared of them.
    pub(crate) fn sweep(&self, model: &mut ModelProto) {
        if let Some(graph) = model.graph.as_option_mut() {
            self.sweep_graph(graph);
        }
        for function in &mut model.functions {
            let mut read = function.output.iter().cloned().collect();
            self.sweep_nodes(&mut function.node, &mut read);
            let mut here: HashSet<&str> = function.input.iter().map(String::as_str).collect();
            here.extend(function.node.iter().flat_map(NodeProto::outputs));
            let known = &self.known;
            function.value_info.retain(|value| {
                let name = value.name.as_deref().unwrap_or_default();
                here.contains(name) || !known.contains(name)
            });
        }
    }

    fn sweep_graph(&self, graph: &mut GraphProto) -> HashSet<String> {
        let mut read = outputs(graph);
        self.sweep_nodes(&mut graph.node, &mut read);
        // Before version 4 of the format every initializer is an input as well.
        let mut kept: HashSet<String> = graph
            .input
            .iter()
            .filter_map(|value| value.name.clone())
            .collect();
        kept.extend(self.values.iter().cloned());
        graph.initializer.retain(|tensor| {
            let name = tensor.name.as_deref().unwrap_or_default();
            read.contains(name) || kept.contains(name)
        });
        let mut here: HashSet<&str> = HashSet::new();
        here.extend(graph.input.iter().filter_map(|value| value.name.as_deref()));
        here.extend(
            graph
                .initializer
                .iter()
                .filter_map(|tensor| tensor.name.as_deref()),
        );
        here.extend(graph.node.iter().flat_map(NodeProto::outputs));
        graph.value_info.retain(|value| {
            let name = value.name.as_deref().unwrap_or_default();
            here.contains(name) || !self.known.contains(name)
        });
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
            read.extend(node.inputs().map(str::to_owned));
            for graph in node.graphs_mut() {
                read.extend(self.sweep_graph(graph));
            }
        }
        let mut kept = kept.into_iter();
        nodes.retain(|_| kept.next().unwrap_or(true));
    }
}

fn outputs(graph: &GraphProto) -> HashSet<String> {
    graph
        .output
        .iter()
        .filter_map(|value| value.name.clone())
        .collect()
}

fn is_read(node: &NodeProto, read: &HashSet<String>) -> bool {
    node.outputs().any(|output| read.contains(output))
}
