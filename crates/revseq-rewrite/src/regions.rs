//! The regions of a graph that a rewrite replaces, for hosts that hand out nodes instead of models.
//!
//! The model is rewritten as ever, and what changed is found by comparing the nodes. Nodes that are new and
//! read one another are one replacement, but for constants and sizes: each replacement has its own. The
//! nodes that made the same values before are its region, with those that nothing else needs. A replacement
//! may read only what its region reads, so a region grows by the nodes between; if others read what these
//! make, the replacement makes it too.
//!
//! ```text
//! x → Transpose → t → Loop → y             x → LSTM → y
//!                 └→ Relu → r
//! the Loop's region is {Transpose, Loop}, and its replacement {Transpose, LSTM}: x → t, y
//! ```

use std::collections::{BTreeSet, HashMap, HashSet};

use crate::model::{self, GraphProto, ModelProto, NodeProto, TensorProto, ValueInfoProto};
use crate::report::Report;
use crate::{Error, Options, order, rewrite};

/// A part of a model's main graph, and what computes the same.
#[derive(Clone, Debug, PartialEq)]
pub struct Region {
    /// The nodes, by their indices in the graph, in order. No path leads out of them and back.
    pub nodes: Vec<usize>,
    /// The values that the replacement reads and the nodes do too, but for constants.
    pub inputs: Vec<String>,
    /// The values that the nodes make and others read.
    pub outputs: Vec<String>,
    /// A model with these inputs and outputs, typed as far as the whole model says. Initializers that it
    /// takes over are those of the graph.
    pub replacement: ModelProto,
}

/// The regions of a graph that a rewrite replaces.
#[derive(Clone, Debug, Default)]
pub struct Regions {
    /// Regions without a common node.
    pub regions: Vec<Region>,
    /// The reasons why nodes that could be replaced belong to none.
    pub left: Vec<String>,
    /// The report of the rewrite.
    pub report: Report,
}

/// The most nodes by which a region grows.
const MAXIMUM_GROWTH: usize = 64;

/// Whether a region may take over an operator only to reach a value behind it: one that takes little
/// time, so that it does not matter where it runs.
fn is_light(node: &NodeProto) -> bool {
    match node.op() {
        "Add" | "And" | "Cast" | "Concat" | "Constant" | "ConstantOfShape" | "Div" | "Equal"
        | "Expand" | "Flatten" | "Gather" | "Greater" | "GreaterOrEqual" | "Identity" | "Less"
        | "LessOrEqual" | "Max" | "Min" | "Mul" | "Neg" | "Not" | "Or" | "Range" | "ReduceMax"
        | "ReduceMin" | "ReduceSum" | "Reshape" | "ReverseSequence" | "Shape" | "Slice"
        | "Split" | "Squeeze" | "Sub" | "Transpose" | "Unsqueeze" | "Where" => {
            node.domain().is_empty()
        }
        _ => false,
    }
}

/// Finds what a [`rewrite`] of a model replaces in its main graph.
///
/// `reads_captured` says whether a node counts as reading what its own graphs capture. If it does not, a
/// replacement that reads such a value takes over the node that makes it.
///
/// # Errors
/// As [`rewrite`].
pub fn regions(
    mut model: ModelProto,
    options: &Options,
    reads_captured: bool,
) -> Result<Regions, Error> {
    let before = model.graph.as_option().map(Before::new);
    let before = before.unwrap_or_default();
    let mut found = Regions {
        report: rewrite(&mut model, options)?,
        ..Regions::default()
    };
    let graph = model.graph.as_option();
    let Some(graph) = graph.filter(|_| found.report.rewritten().next().is_some()) else {
        return Ok(found);
    };
    let change = Change::new(&before, graph, reads_captured);
    let mut taken = HashSet::new();
    for part in change.parts() {
        let grown = change.region(part, &taken).and_then(|grown| {
            let replacement = grown.replacement(&model, graph, &before)?;
            taken.extend(grown.nodes.iter().copied());
            Ok(Region {
                nodes: grown.nodes.iter().copied().collect(),
                replacement,
                inputs: grown.inputs.into_iter().map(str::to_owned).collect(),
                outputs: grown.outputs.into_iter().map(str::to_owned).collect(),
            })
        });
        match grown {
            Ok(region) => found.regions.push(region),
            Err(reason) => found.left.push(reason),
        }
    }
    Ok(found)
}

/// What of a graph is needed once it is rewritten.
#[derive(Default)]
struct Before {
    nodes: Vec<NodeProto>,
    /// The values whose types are known.
    declared: HashMap<String, ValueInfoProto>,
    /// The initializers that nodes without graphs read. Those nodes may be part of a replacement.
    initializers: HashMap<String, TensorProto>,
}

impl Before {
    fn new(graph: &GraphProto) -> Self {
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
struct Nodes<'a> {
    nodes: &'a [NodeProto],
    makers: HashMap<&'a str, usize>,
    readers: HashMap<&'a str, Vec<usize>>,
    reads: Vec<Vec<&'a str>>,
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

    fn readers(&self, value: &str) -> &[usize] {
        self.readers.get(value).map_or(&[], Vec::as_slice)
    }

    /// The nodes that some of these values lead to, but for those beyond a node where `stops` holds.
    fn behind(
        &self,
        values: impl IntoIterator<Item = &'a str>,
        stops: impl Fn(usize) -> bool,
    ) -> HashSet<usize> {
        let mut found = HashSet::new();
        let mut values: Vec<&str> = values.into_iter().collect();
        while let Some(value) = values.pop() {
            for &reader in self.readers(value) {
                if found.insert(reader) && !stops(reader) {
                    values.extend(self.nodes[reader].outputs());
                }
            }
        }
        found
    }

    /// The nodes that lead to some of these nodes.
    fn before(&self, nodes: &BTreeSet<usize>) -> HashSet<usize> {
        let mut found = HashSet::new();
        let mut open: Vec<usize> = nodes.iter().copied().collect();
        while let Some(node) = open.pop() {
            let makers = self.reads[node].iter();
            for &maker in makers.filter_map(|name| self.makers.get(name)) {
                if found.insert(maker) {
                    open.push(maker);
                }
            }
        }
        found
    }
}

/// A graph before and after it was rewritten.
struct Change<'a> {
    before: Nodes<'a>,
    after: Nodes<'a>,
    /// Whether each node of the rewritten graph is new or changed.
    is_new: Vec<bool>,
    /// Whether each of its nodes is new and makes a constant, a size, or something of these alone.
    is_small: Vec<bool>,
    /// Whether each node of the graph is gone or changed.
    is_gone: Vec<bool>,
    /// The values that are no node's: initializers that no caller can replace.
    constants: HashSet<&'a str>,
    /// The outputs of the graph.
    outputs: HashSet<&'a str>,
    /// Whether a node counts as reading what its own graphs capture.
    reads_captured: bool,
}

/// A region while it grows.
struct Grown<'a> {
    nodes: BTreeSet<usize>,
    /// The nodes of the replacement: new ones, and those of the region that stay.
    replacement: Vec<&'a NodeProto>,
    inputs: Vec<&'a str>,
    outputs: Vec<&'a str>,
}

impl<'a> Change<'a> {
    fn new(original: &'a Before, graph: &'a GraphProto, reads_captured: bool) -> Self {
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
            let is_small_itself = |name: &&str| {
                let maker = after.makers.get(*name);
                maker.is_some_and(|&maker| maker < index && is_small[maker])
            };
            let of_small =
                !after.reads[index].is_empty() && after.reads[index].iter().all(is_small_itself);
            is_small[index] =
                is_new[index] && (node.is("Constant") || node.is("Shape") || of_small);
        }
        let inputs: HashSet<&str> = graph.inputs().collect();
        let constants = graph.tensors().filter(|name| !inputs.contains(name));
        let gone = original.initializers.keys().map(String::as_str);
        Self {
            before,
            after,
            is_new,
            is_small,
            is_gone,
            constants: constants.chain(gone).collect(),
            outputs: graph.seen_elsewhere().collect(),
            reads_captured,
        }
    }

    /// The new nodes, in parts that have nothing in common but small nodes.
    fn parts(&self) -> Vec<Vec<usize>> {
        let mut seen = HashSet::new();
        let mut parts = Vec::new();
        for node in 0..self.is_new.len() {
            let mut is_next =
                |&node: &usize| self.is_new[node] && !self.is_small[node] && seen.insert(node);
            let mut part: Vec<usize> = [node].into_iter().filter(&mut is_next).collect();
            let mut next = 0;
            while let Some(&node) = part.get(next) {
                next += 1;
                let makers = self.after.reads[node].iter();
                let makers = makers.filter_map(|name| self.after.makers.get(name));
                let made = self.after.nodes[node].outputs();
                let readers = made.flat_map(|name| self.after.readers(name));
                part.extend(makers.chain(readers).copied().filter(&mut is_next));
            }
            part.sort_unstable();
            parts.extend((!part.is_empty()).then(|| self.with_small(part)));
        }
        parts
    }

    /// Adds the small nodes that some nodes read.
    fn with_small(&self, mut part: Vec<usize>) -> Vec<usize> {
        let mut next = 0;
        let mut known: HashSet<usize> = part.iter().copied().collect();
        while let Some(&node) = part.get(next) {
            next += 1;
            let makers = self.after.reads[node].iter();
            let makers = makers.filter_map(|name| self.after.makers.get(name).copied());
            part.extend(makers.filter(|&maker| self.is_small[maker] && known.insert(maker)));
        }
        part
    }

    /// The region that a part of the new nodes replaces, without nodes that are `taken`; or the reason
    /// why there is none.
    fn region(&self, part: Vec<usize>, taken: &HashSet<usize>) -> Result<Grown<'a>, String> {
        let new = part.iter().map(|&node| &self.after.nodes[node]);
        let mut grown = Grown {
            nodes: BTreeSet::new(),
            replacement: new.collect(),
            inputs: Vec::new(),
            outputs: Vec::new(),
        };
        let makes: HashSet<&str> = grown.made().collect();
        let is_read = |&value: &&str| {
            let mut readers = self.after.readers(value).iter();
            self.outputs.contains(value) || readers.any(|reader| !self.is_new[*reader])
        };
        for value in makes.into_iter().filter(is_read) {
            let maker = self.before.makers.get(value);
            let maker = maker.ok_or_else(|| format!("{value:?} is new and read by others"))?;
            grown.nodes.insert(*maker);
        }
        self.add_what_only_it_needs(&mut grown, taken);
        for _ in 0..MAXIMUM_GROWTH {
            self.close(&mut grown)?;
            self.complete(&mut grown)?;
            if let Some(node) = grown.nodes.iter().find(|&node| taken.contains(node)) {
                let label = self.before.nodes[*node].label(*node);
                return Err(format!("{label:?} is part of two replacements"));
            }
            let missing = self.missing(&mut grown);
            if missing.is_empty() {
                grown.outputs = self.outputs(&grown.nodes);
                return Ok(grown);
            }
            self.reach(&mut grown, missing)?;
        }
        Err(String::from("what it reads is far away"))
    }

    /// Adds nodes that are gone and that nothing but the region read.
    fn add_what_only_it_needs(&self, grown: &mut Grown<'a>, taken: &HashSet<usize>) {
        for node in (0..self.is_gone.len()).rev() {
            let outputs = || self.before.nodes[node].outputs();
            let is_read = |value| !self.before.readers(value).is_empty();
            if self.is_gone[node]
                && !taken.contains(&node)
                && outputs().any(is_read)
                && !outputs().any(|value| self.is_read_beside(&grown.nodes, value))
            {
                grown.nodes.insert(node);
            }
        }
    }

    /// Adds the nodes on paths out of the region and back.
    fn close(&self, grown: &mut Grown<'a>) -> Result<(), String> {
        let made = grown
            .nodes
            .iter()
            .flat_map(|&it| self.before.nodes[it].outputs());
        let behind = self.before.behind(made, |_| false);
        let before = self.before.before(&grown.nodes);
        self.add(grown, grown.beside(&behind, &before))
    }

    /// Adds the nodes between values and the region.
    fn reach(&self, grown: &mut Grown<'a>, values: Vec<&'a str>) -> Result<(), String> {
        let before = self.before.before(&grown.nodes);
        for value in values {
            let behind = self.before.behind([value], |it| grown.nodes.contains(&it));
            let mut between = grown.beside(&behind, &before);
            if between.is_empty() && self.is_captured(grown, value) {
                between.extend(self.before.makers.get(value));
            }
            if between.is_empty() {
                return Err(format!("it would read {value:?}, which the loop does not"));
            }
            self.add(grown, between)?;
        }
        Ok(())
    }

    /// Whether a graph in a node of a region captures a value.
    fn is_captured(&self, grown: &Grown<'a>, value: &str) -> bool {
        let mut nodes = grown.nodes.iter();
        nodes.any(|&node| self.before.reads[node].contains(&value))
    }

    fn add(&self, grown: &mut Grown<'a>, nodes: Vec<usize>) -> Result<(), String> {
        if nodes.len() > MAXIMUM_GROWTH {
            return Err(format!(
                "{} nodes are between it and what it reads",
                nodes.len()
            ));
        }
        for index in nodes {
            let node = &self.before.nodes[index];
            if !self.is_gone[index] && !is_light(node) {
                let label = node.label(index);
                return Err(format!(
                    "{label:?}, {}, is between it and what it reads",
                    node.op()
                ));
            }
            grown.nodes.insert(index);
        }
        Ok(())
    }

    /// Lets the replacement make all that others read of the region, and what it reads itself of what
    /// the region makes.
    fn complete(&self, grown: &mut Grown<'a>) -> Result<(), String> {
        let mut made: HashSet<&str> = grown.made().collect();
        let mut needed: Vec<&str> = self.outputs(&grown.nodes);
        needed.extend(grown.read());
        while let Some(value) = needed.pop() {
            let Some(maker) = self.before.makers.get(value).copied() else {
                continue;
            };
            if made.contains(value) || !grown.nodes.contains(&maker) {
                continue;
            }
            let node = &self.before.nodes[maker];
            if node.graphs().next().is_some() {
                let label = node.label(maker);
                return Err(format!(
                    "{value:?}, which {label:?} makes, is needed besides"
                ));
            }
            made.extend(node.outputs());
            needed.extend(self.before.reads[maker].iter().copied());
            grown.replacement.push(node);
        }
        Ok(())
    }

    /// The values that the nodes of a region make and others read.
    fn outputs(&self, nodes: &BTreeSet<usize>) -> Vec<&'a str> {
        let made = nodes.iter().flat_map(|&it| self.before.nodes[it].outputs());
        made.filter(|value| self.is_read_beside(nodes, value))
            .collect()
    }

    /// Whether the graph outputs a value, or a node beside these reads it.
    fn is_read_beside(&self, nodes: &BTreeSet<usize>, value: &str) -> bool {
        let mut readers = self.before.readers(value).iter();
        self.outputs.contains(value) || readers.any(|it| !nodes.contains(it))
    }

    /// Sets the inputs of a replacement, and returns those that its region does not read.
    fn missing(&self, grown: &mut Grown<'a>) -> Vec<&'a str> {
        let made: HashSet<&str> = grown.made().collect();
        let is_input = |name: &&str| !made.contains(name) && !self.constants.contains(name);
        let inputs: BTreeSet<&str> = grown.read().into_iter().filter(is_input).collect();
        grown.inputs = inputs.into_iter().collect();
        let mut read: HashSet<&str> = HashSet::new();
        for &node in &grown.nodes {
            match self.reads_captured {
                true => read.extend(&self.before.reads[node]),
                false => read.extend(self.before.nodes[node].inputs()),
            }
        }
        let inputs = grown.inputs.iter().copied();
        inputs.filter(|name| !read.contains(name)).collect()
    }
}

impl<'a> Grown<'a> {
    /// The nodes of both sets that are not in the region.
    fn beside(&self, one: &HashSet<usize>, other: &HashSet<usize>) -> Vec<usize> {
        let both = one.intersection(other).copied();
        both.filter(|it| !self.nodes.contains(it)).collect()
    }

    fn made(&self) -> impl Iterator<Item = &'a str> {
        self.replacement.iter().flat_map(|node| node.outputs())
    }

    fn read(&self) -> Vec<&'a str> {
        self.replacement
            .iter()
            .flat_map(|node| order::reads(node))
            .collect()
    }

    /// The replacement as a model.
    fn replacement(
        &self,
        whole: &ModelProto,
        graph: &GraphProto,
        before: &Before,
    ) -> Result<ModelProto, String> {
        let declaration = |name: &&str| {
            let known = before.declared.get(*name).cloned();
            known.unwrap_or_else(|| model::untyped(name))
        };
        let nodes: Vec<NodeProto> = self.replacement.iter().copied().cloned().collect();
        let order = order::sorted(&nodes).map_err(|_| String::from("it reads itself"))?;
        let read: HashSet<&str> = self.read().into_iter().collect();
        let name = |tensor: &TensorProto| tensor.name.clone().unwrap_or_default();
        let is_read = |tensor: &&TensorProto| read.contains(&*name(tensor));
        let mut initializers: HashMap<String, &TensorProto> = HashMap::new();
        let tensors = before.initializers.values().chain(&graph.initializer);
        initializers.extend(tensors.filter(is_read).map(|it| (name(it), it)));
        let mut initializers: Vec<TensorProto> = initializers.into_values().cloned().collect();
        initializers.sort_by_key(name);
        let graph = GraphProto {
            name: graph.name.clone(),
            node: order.nodes.iter().map(|&it| nodes[it].clone()).collect(),
            input: self.inputs.iter().map(declaration).collect(),
            output: self.outputs.iter().map(declaration).collect(),
            initializer: initializers,
            ..GraphProto::default()
        };
        Ok(ModelProto {
            ir_version: whole.ir_version,
            opset_import: whole.opset_import.clone(),
            graph: graph.into(),
            ..ModelProto::default()
        })
    }
}
