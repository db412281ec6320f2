//! A region while it grows.

use std::collections::{BTreeSet, HashMap, HashSet};

use super::Region;
use super::change::Change;
use crate::model::{self, GraphProto, ModelProto, NodeProto, ValueInfoProto};
use crate::onnx::tensor_shape_proto::Dimension;
use crate::order;

/// Why a growth ends before its region is closed.
enum Stop {
    /// It meets these parts.
    Meets(BTreeSet<usize>),
    /// It has no region, for this reason.
    Stays(String),
}

/// A region that has grown, and its replacement.
pub(super) struct Grown<'a> {
    pub(super) parts: BTreeSet<usize>,
    /// The nodes of the graph that it replaces.
    pub(super) nodes: BTreeSet<usize>,
    /// The nodes of the replacement: new ones, and copies of those that it replaces.
    replacement: Vec<&'a NodeProto>,
    inputs: Vec<&'a str>,
    /// The values that its nodes make and others read.
    outputs: Vec<&'a str>,
}

/// A region of parts while it grows.
struct Growth<'c, 'a> {
    change: &'c Change<'a>,
    nodes: BTreeSet<usize>,
    replacement: Vec<&'a NodeProto>,
    inputs: Vec<&'a str>,
    /// The other regions.
    others: Vec<&'c Grown<'a>>,
    /// The other region that each node belongs to.
    other_of: HashMap<usize, usize>,
}

impl<'c, 'a> Growth<'c, 'a> {
    /// Begins with the nodes that make what others read, and those that nothing else needs.
    fn new(change: &'c Change<'a>, parts: &BTreeSet<usize>, others: Vec<&'c Grown<'a>>) -> Self {
        let own: Vec<usize> = parts
            .iter()
            .flat_map(|&part| &change.parts[part])
            .copied()
            .collect();
        let made = own
            .iter()
            .flat_map(|&node| change.after.nodes[node].outputs());
        let makers = made
            .filter(|value| change.is_read_by_others(value))
            .filter_map(|value| change.before.makers.get(value).copied());
        let nodes = makers.collect();
        let all = change.with_small(own);
        let mut other_of = HashMap::new();
        for (index, other) in others.iter().enumerate() {
            other_of.extend(other.nodes.iter().map(|&node| (node, index)));
        }
        let mut growth = Self {
            change,
            nodes,
            replacement: all.iter().map(|&it| &change.after.nodes[it]).collect(),
            inputs: Vec::new(),
            others,
            other_of,
        };
        growth.add_what_only_it_needs();
        growth
    }

    /// Grows until the nodes are closed, the replacement makes all that others read of them, and reads
    /// nothing that they do not.
    fn run(&mut self) -> Result<(), Stop> {
        loop {
            self.add(self.between(&self.nodes))?;
            if !self.complete()? {
                continue;
            }
            let Some(missing) = self.missing() else {
                return Ok(());
            };
            self.reach(missing)?;
        }
    }

    /// Adds nodes that are gone and that nothing but the region reads.
    fn add_what_only_it_needs(&mut self) {
        let change = self.change;
        for node in (0..change.is_gone.len()).rev() {
            let outputs = || change.before.nodes[node].outputs();
            let is_read = |value| !change.before.readers(value).is_empty();
            if change.is_gone[node]
                && !self.other_of.contains_key(&node)
                && outputs().any(is_read)
                && !outputs().any(|value| self.is_read_beside(value))
            {
                self.nodes.insert(node);
            }
        }
    }

    /// The nodes on paths out of some nodes and back, with other regions as a whole.
    fn between(&self, nodes: &BTreeSet<usize>) -> Vec<usize> {
        let behind = self.reachable(nodes, |it| self.change.before.behind(it));
        let before = self.reachable(nodes, |it| self.change.before.before(it));
        let both = std::iter::zip(behind, before).enumerate();
        let both =
            both.filter(|(node, (behind, before))| *behind && *before && !nodes.contains(node));
        both.map(|(node, _)| node).collect()
    }

    /// Whether each node can be reached from some nodes by at least one step; of another region all nodes
    /// can be if one can.
    fn reachable<I: Iterator<Item = usize>>(
        &self,
        nodes: &BTreeSet<usize>,
        next: impl Fn(usize) -> I,
    ) -> Vec<bool> {
        let mut is_reached = vec![false; self.change.is_gone.len()];
        let mut open: Vec<usize> = nodes.iter().copied().collect();
        while let Some(node) = open.pop() {
            for next in next(node) {
                if is_reached[next] {
                    continue;
                }
                let other = self.other_of.get(&next);
                let unit = other.map(|&other| self.others[other].nodes.iter().copied());
                let unit = unit.into_iter().flatten().chain([next]);
                for node in unit {
                    if !std::mem::replace(&mut is_reached[node], true) {
                        open.push(node);
                    }
                }
            }
        }
        is_reached
    }

    fn add(&mut self, nodes: Vec<usize>) -> Result<(), Stop> {
        for node in nodes {
            if let Some(&other) = self.other_of.get(&node) {
                return Err(Stop::Meets(self.others[other].parts.clone()));
            }
            self.nodes.insert(node);
        }
        Ok(())
    }

    /// Lets the replacement make all that others read of the region, and what it reads itself of what
    /// the region makes. Returns whether that is so; if not, the region grew.
    fn complete(&mut self) -> Result<bool, Stop> {
        let (before, after) = (&self.change.before, &self.change.after);
        let mut made: HashSet<&str> = self.made().collect();
        let mut needed: Vec<&str> = self.outputs();
        needed.extend(self.read());
        while let Some(value) = needed.pop() {
            let Some(&maker) = before.makers.get(value) else {
                continue;
            };
            if made.contains(value) || !self.nodes.contains(&maker) {
                continue;
            }
            let new = after.makers.get(value).copied();
            let node = &before.nodes[maker];
            let copied: Vec<(&NodeProto, &Vec<&str>)> =
                match new.filter(|&new| self.change.is_new[new]) {
                    Some(new) => {
                        if let Some(&part) = self.change.part_of.get(&new) {
                            return Err(Stop::Meets(BTreeSet::from([part])));
                        }
                        let small = self.change.with_small(vec![new]).into_iter();
                        small
                            .map(|it| (&after.nodes[it], &after.reads[it]))
                            .collect()
                    }
                    None if self.change.replaces_graph(maker) => {
                        self.add_readers(value, node.label(maker))?;
                        return Ok(false);
                    }
                    None => vec![(node, &before.reads[maker])],
                };
            for (node, reads) in copied {
                if node.outputs().all(|value| made.insert(value)) {
                    needed.extend(reads);
                    self.replacement.push(node);
                }
            }
        }
        Ok(true)
    }

    /// Adds the readers of a value that nothing makes any more: they are gone as well.
    fn add_readers(&mut self, value: &str, label: String) -> Result<(), Stop> {
        let readers = self.change.before.readers(value).iter().copied();
        let readers: Vec<usize> = readers.filter(|it| !self.nodes.contains(it)).collect();
        if readers.is_empty() || readers.iter().any(|&it| !self.change.is_gone[it]) {
            let reason = format!("{value:?}, which {label:?} makes, is needed besides");
            return Err(Stop::Stays(reason));
        }
        self.add(readers)
    }

    /// Sets the inputs of the replacement, and returns the first that the region does not read.
    fn missing(&mut self) -> Option<&'a str> {
        let made: HashSet<&str> = self.made().collect();
        let constants = &self.change.constants;
        let is_input = |name: &&str| !made.contains(name) && !constants.contains(name);
        let inputs: BTreeSet<&str> = self.read().into_iter().filter(is_input).collect();
        self.inputs = inputs.into_iter().collect();
        let nodes = self.nodes.iter();
        let read: HashSet<&str> = nodes.flat_map(|&it| self.change.counted(it)).collect();
        let mut inputs = self.inputs.iter().copied();
        inputs.find(|name| !read.contains(name))
    }

    /// Adds a reader of a value, or the node that makes it, whichever takes along the fewest nodes that
    /// stayed as they were.
    fn reach(&mut self, value: &'a str) -> Result<(), Stop> {
        let before = &self.change.before;
        let readers = before.readers(value).iter().copied();
        let readers = readers.filter(|&it| self.change.counted(it).contains(&value));
        let maker = before.makers.get(value).copied();
        let mut best: Option<((usize, usize), Vec<usize>)> = None;
        for node in readers.chain(maker) {
            let mut nodes = self.nodes.clone();
            nodes.insert(node);
            let mut added = self.between(&nodes);
            added.push(node);
            let stayed = added.iter().filter(|&&it| !self.change.is_gone[it]).count();
            let cost = (stayed, added.len());
            if best.as_ref().is_none_or(|(least, _)| cost < *least) {
                best = Some((cost, added));
            }
        }
        match best {
            Some((_, added)) => self.add(added),
            None => Err(Stop::Stays(format!(
                "it would read {value:?}, which no node reads"
            ))),
        }
    }

    /// The values that the nodes make and others read.
    fn outputs(&self) -> Vec<&'a str> {
        let nodes = self.nodes.iter();
        let made = nodes.flat_map(|&it| self.change.before.nodes[it].outputs());
        made.filter(|value| self.is_read_beside(value)).collect()
    }

    /// Whether the graph outputs a value, or a node beside the region reads it.
    fn is_read_beside(&self, value: &str) -> bool {
        let mut readers = self.change.before.readers(value).iter();
        self.change.outputs.contains(value) || readers.any(|it| !self.nodes.contains(it))
    }

    fn made(&self) -> impl Iterator<Item = &'a str> {
        self.replacement.iter().flat_map(|node| node.outputs())
    }

    fn read(&self) -> Vec<&'a str> {
        reads(&self.replacement).collect()
    }
}

fn reads<'a>(nodes: &[&'a NodeProto]) -> impl Iterator<Item = &'a str> {
    nodes.iter().flat_map(|node| order::reads(node))
}

impl<'a> Grown<'a> {
    /// The region of parts and of those that it meets, beside others.
    pub(super) fn of<'c>(
        change: &'c Change<'a>,
        mut parts: BTreeSet<usize>,
        others: &[&'c Self],
    ) -> Result<Self, String> {
        loop {
            let others = others.iter().copied();
            let others = others.filter(|it| it.parts.is_disjoint(&parts)).collect();
            let mut growth = Growth::new(change, &parts, others);
            match growth.run() {
                Ok(()) => {
                    let outputs = growth.outputs();
                    return Ok(Self {
                        parts,
                        nodes: growth.nodes,
                        replacement: growth.replacement,
                        inputs: growth.inputs,
                        outputs,
                    });
                }
                Err(Stop::Meets(met)) => parts.extend(met),
                Err(Stop::Stays(reason)) => return Err(reason),
            }
        }
    }

    /// The region that it has become, of a model that was rewritten.
    pub(super) fn region(&self, change: &Change<'_>, whole: &ModelProto) -> Result<Region, String> {
        let inputs = whole.graph.input.iter().map(ValueInfoProto::name);
        let inputs: HashSet<&str> = inputs.collect();
        let declaration = |name: &&str| {
            let known = change.declared(name);
            let stripped = |known| without_sizes(known, inputs.contains(name));
            known.map_or_else(|| model::untyped(name), stripped)
        };
        let nodes: Vec<NodeProto> = self.replacement.iter().copied().cloned().collect();
        let order = order::sorted(&nodes).map_err(|_| String::from("it reads itself"))?;
        let read: HashSet<&str> = reads(&self.replacement).collect();
        let graph = GraphProto {
            name: whole.graph.name.clone(),
            node: order.nodes.iter().map(|&it| nodes[it].clone()).collect(),
            input: self.inputs.iter().map(declaration).collect(),
            output: self.outputs.iter().map(declaration).collect(),
            initializer: change.initializers(&read),
            ..GraphProto::default()
        };
        let owned = |names: &[&str]| names.iter().map(|&it| it.to_owned()).collect();
        Ok(Region {
            nodes: self.nodes.iter().copied().collect(),
            inputs: owned(&self.inputs),
            outputs: owned(&self.outputs),
            replacement: ModelProto {
                ir_version: whole.ir_version,
                opset_import: whole.opset_import.clone(),
                graph: graph.into(),
                ..ModelProto::default()
            },
        })
    }
}

/// The nodes with which the region of a part begins to grow.
pub(super) fn beginning(change: &Change<'_>, part: usize) -> Vec<usize> {
    let growth = Growth::new(change, &BTreeSet::from([part]), Vec::new());
    growth.nodes.into_iter().collect()
}

/// A declaration without sizes: those that are declared between nodes may be wrong. The graph's inputs have
/// as many axes as are declared, which is taken for proved: a runtime checks it.
fn without_sizes(value: &ValueInfoProto, is_given: bool) -> ValueInfoProto {
    let mut value = value.clone();
    if let Some(tensor) = model::tensor_type_mut(&mut value) {
        match tensor.shape.as_option_mut() {
            Some(shape) if is_given => shape.dim.fill(Dimension::default()),
            _ => tensor.shape = Default::default(),
        }
    }
    value
}
