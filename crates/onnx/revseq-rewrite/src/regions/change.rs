//! A graph before and after it was rewritten.

use std::collections::{BTreeMap, HashMap, HashSet};

use crate::model::{GraphProto, NodeProto, TensorProto, ValueInfoProto};
use crate::order;

/// What of a graph is needed once it is rewritten.
#[derive(Default)]
pub(super) struct Before {
    nodes: Vec<NodeProto>,
    /// The values whose types are known.
    declared: HashMap<String, ValueInfoProto>,
    /// The initializers that nodes without graphs read. Those nodes may be part of a replacement.
    initializers: HashMap<String, TensorProto>,
}

impl Before {
    pub(super) fn new(graph: &GraphProto) -> Self {
        let values = graph.value_info.iter().chain(&graph.input);
        let values = values.chain(&graph.output);
        let typed = values.filter(|value| value.r#type.is_set());
        let inputs: HashSet<&str> = graph.inputs().collect();
        let plain = graph
            .node
            .iter()
            .filter(|node| node.graphs().next().is_none());
        let read: HashSet<&str> = plain.flat_map(NodeProto::inputs).collect();
        let is_read = |name: &str| read.contains(name) && !inputs.contains(name);
        let tensors = graph.initializer.iter();
        let tensors = tensors.filter(|it| it.name.as_deref().is_some_and(is_read));
        Self {
            nodes: graph.node.clone(),
            declared: typed
                .filter_map(|value| Some((value.name.clone()?, value.clone())))
                .collect(),
            initializers: tensors
                .filter_map(|tensor| Some((tensor.name.clone()?, tensor.clone())))
                .collect(),
        }
    }
}

/// The nodes of a graph: who makes a value, and who reads it.
pub(super) struct Nodes<'a> {
    pub(super) nodes: &'a [NodeProto],
    pub(super) makers: HashMap<&'a str, usize>,
    readers: HashMap<&'a str, Vec<usize>>,
    /// The values that each node reads, or a graph in it.
    pub(super) reads: Vec<Vec<&'a str>>,
}

impl<'a> Nodes<'a> {
    fn new(nodes: &'a [NodeProto]) -> Self {
        let mut makers = HashMap::new();
        let mut readers: HashMap<&str, Vec<usize>> = HashMap::new();
        let mut all = Vec::with_capacity(nodes.len());
        for (index, node) in nodes.iter().enumerate() {
            makers.extend(node.outputs().map(|name| (name, index)));
            let reads = order::reads(node);
            for name in &reads {
                readers.entry(name).or_default().push(index);
            }
            all.push(reads);
        }
        Self {
            nodes,
            makers,
            readers,
            reads: all,
        }
    }

    pub(super) fn readers(&self, value: &str) -> &[usize] {
        self.readers.get(value).map_or(&[], Vec::as_slice)
    }

    /// The nodes that read what a node makes.
    pub(super) fn behind(&self, node: usize) -> impl Iterator<Item = usize> {
        let made = self.nodes[node].outputs();
        made.flat_map(|value| self.readers(value)).copied()
    }

    /// The nodes that make what a node reads.
    pub(super) fn before(&self, node: usize) -> impl Iterator<Item = usize> {
        let reads = self.reads[node].iter();
        reads.filter_map(|value| self.makers.get(value).copied())
    }
}

/// A graph before and after it was rewritten.
pub(super) struct Change<'a> {
    pub(super) before: Nodes<'a>,
    pub(super) after: Nodes<'a>,
    /// Whether each node of the rewritten graph is new or changed.
    pub(super) is_new: Vec<bool>,
    /// Whether each of its nodes is new and makes a constant, a size, or something of these alone.
    is_small: Vec<bool>,
    /// The new nodes that are not small, in parts that have nothing in common but small nodes.
    pub(super) parts: Vec<Vec<usize>>,
    /// The part of each of these.
    pub(super) part_of: HashMap<usize, usize>,
    /// Whether each node of the graph is gone or changed.
    pub(super) is_gone: Vec<bool>,
    /// The values that are no node's: initializers that no caller can replace.
    pub(super) constants: HashSet<&'a str>,
    /// The outputs of the graph.
    pub(super) outputs: HashSet<&'a str>,
    /// Whether a node counts as reading what its own graphs capture.
    reads_captured: bool,
    /// The graph before, and after.
    original: &'a Before,
    graph: &'a GraphProto,
}

impl<'a> Change<'a> {
    pub(super) fn new(original: &'a Before, graph: &'a GraphProto, reads_captured: bool) -> Self {
        let [before, after] = [&*original.nodes, &graph.node].map(Nodes::new);
        let mut is_gone = vec![true; before.nodes.len()];
        let mut is_new = vec![true; after.nodes.len()];
        for (index, node) in after.nodes.iter().enumerate() {
            let same = node.outputs().next();
            let same = same.and_then(|output| before.makers.get(output).copied());
            if let Some(same) = same
                && before.nodes[same] == *node
            {
                is_gone[same] = false;
                is_new[index] = false;
            }
        }
        let mut is_small = vec![false; after.nodes.len()];
        for (index, node) in after.nodes.iter().enumerate() {
            let mut reads = after.before(index);
            let of_small = !after.reads[index].is_empty()
                && after.reads[index].len() == after.before(index).count()
                && reads.all(|maker| maker < index && is_small[maker]);
            is_small[index] =
                is_new[index] && (node.is("Constant") || node.is("Shape") || of_small);
        }
        let inputs: HashSet<&str> = graph.inputs().collect();
        let constants = graph.tensors().filter(|name| !inputs.contains(name));
        let gone = original.initializers.keys().map(String::as_str);
        let mut change = Self {
            before,
            after,
            is_new,
            is_small,
            parts: Vec::new(),
            part_of: HashMap::new(),
            is_gone,
            constants: constants.chain(gone).collect(),
            outputs: graph.seen_elsewhere().collect(),
            reads_captured,
            original,
            graph,
        };
        change.find_parts();
        change
    }

    fn find_parts(&mut self) {
        for node in 0..self.is_new.len() {
            let number = self.parts.len();
            let mut part = Vec::new();
            let mut open = vec![node];
            while let Some(node) = open.pop() {
                if self.is_new[node] && !self.is_small[node] && !self.part_of.contains_key(&node) {
                    self.part_of.insert(node, number);
                    part.push(node);
                    open.extend(self.after.before(node).chain(self.after.behind(node)));
                }
            }
            part.sort_unstable();
            self.parts.extend((!part.is_empty()).then_some(part));
        }
    }

    /// Adds the small nodes that some new nodes read.
    pub(super) fn with_small(&self, mut nodes: Vec<usize>) -> Vec<usize> {
        let mut next = 0;
        let mut known: HashSet<usize> = nodes.iter().copied().collect();
        while let Some(&node) = nodes.get(next) {
            next += 1;
            let makers = self.after.before(node);
            nodes.extend(makers.filter(|&maker| self.is_small[maker] && known.insert(maker)));
        }
        nodes
    }

    /// Whether others than a part may read a value that it makes: an output of the graph, or what a node
    /// reads that stays.
    pub(super) fn is_read_by_others(&self, value: &str) -> bool {
        let mut readers = self.after.readers(value).iter();
        self.outputs.contains(value) || readers.any(|&reader| !self.is_new[reader])
    }

    /// Whether all of these nodes of the graph are gone.
    pub(super) fn are_gone(&self, nodes: impl IntoIterator<Item = usize>) -> bool {
        nodes.into_iter().all(|node| self.is_gone[node])
    }

    /// Whether a node of the graph has a graph and is gone: a loop or a branch.
    pub(super) fn replaces_graph(&self, node: usize) -> bool {
        self.is_gone[node] && self.before.nodes[node].graphs().next().is_some()
    }

    /// The values that a node of the graph counts as reading.
    pub(super) fn counted(&self, node: usize) -> Vec<&'a str> {
        match self.reads_captured {
            true => self.before.reads[node].clone(),
            false => self.before.nodes[node].inputs().collect(),
        }
    }

    /// The declaration of a value, if its type is known.
    pub(super) fn declared(&self, value: &str) -> Option<&'a ValueInfoProto> {
        self.original.declared.get(value)
    }

    /// The initializers with these names, of the graph before and after, in the order of their names.
    pub(super) fn initializers(&self, read: &HashSet<&str>) -> Vec<TensorProto> {
        let tensors = self.original.initializers.values();
        let tensors = tensors.chain(&self.graph.initializer);
        let named = tensors.filter_map(|it| Some((it.name.as_deref()?, it)));
        let named: BTreeMap<&str, &TensorProto> =
            named.filter(|(name, _)| read.contains(name)).collect();
        named.into_values().cloned().collect()
    }
}
