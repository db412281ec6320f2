//! Cells that read a step of a sequence.
//!
//! What a step reaches, in the order of the nodes, is its cone. A value in it that a product reads may
//! be the output of a cell: the operators between are its formula, and what they read from outside of
//! the cone, besides constants, are states. `passes/cells` says whether it is a cell.

use std::cmp::Reverse;
use std::collections::{BTreeSet, BinaryHeap, HashSet};

use crate::model::NodeProto;
use crate::passes::cells::Cell;
use crate::passes::steps::body::{Body, Sequence, through_identity};

use super::slices::{Slices, Step};
use super::{Graph, is_product};

/// The most nodes that a step is followed to.
const MAXIMUM_REACHED: usize = 192;

/// The most nodes of a cell: one with a product for each gate has forty.
const MAXIMUM_NODES: usize = 128;

/// Number of operators between a state's product and the one that the input's joins, at most.
const MAXIMUM_AFTER_PRODUCT: usize = 8;

/// The most values that a cell may read from outside, more than any does.
const MAXIMUM_OUTSIDE: usize = 64;

/// A cell, and the step that it reads.
pub(super) struct StepCell<'a> {
    pub(super) step: Step<'a>,
    pub(super) cell: Cell<'a>,
    /// The node that makes its output.
    pub(super) index: usize,
    /// Its nodes.
    pub(super) nodes: BTreeSet<usize>,
}

/// All cells that read steps, in order of time within each sequence.
pub(super) fn find<'a>(graph: &Graph<'a>, slices: &Slices<'a>) -> Vec<StepCell<'a>> {
    let fed = fed(graph);
    let none = HashSet::new();
    let mut cells = Vec::new();
    for sequence in &slices.sequences {
        let first = cells.len();
        let steps = sequence.iter().map(|&value| (value, slices.steps[value]));
        let mut without = HashSet::new();
        for step in steps.clone() {
            let before = cells.len();
            let is_fed = |_, output: &str| fed.contains(output);
            Cone::new(graph, &fed, &none, step).cells(is_fed, |_| true, &mut cells);
            if cells.len() == before {
                without.insert(step.1.at);
            }
        }
        // No product has to read the last output. It is made by the operator of the others, at a step
        // without a cell or, where one step is read in both directions, near one with a cell.
        let hidden: HashSet<&str> = cells[first..].iter().map(|it| it.cell.hidden).collect();
        let last = cells[first..].iter();
        let last = last.filter(|it| !hidden.contains(it.cell.output));
        without.extend(last.flat_map(|it| it.step.at - 1..=it.step.at + 1));
        let operator = |index: usize| graph.scope.nodes[index].op();
        let mut kinds: Vec<(&str, Cell<'_>)> = Vec::new();
        for one in &cells[first..] {
            if !kinds.iter().any(|(_, cell)| is_alike(cell, &one.cell)) {
                kinds.push((operator(one.index), one.cell.clone()));
            }
        }
        let ends: HashSet<usize> = cells[first..].iter().map(|it| it.index).collect();
        for step in steps.filter(|(_, step)| without.contains(&step.at)) {
            let is_like = |index, _: &str| kinds.iter().any(|(it, _)| *it == operator(index));
            let is_one = |cell: &Cell<'_>| kinds.iter().any(|(_, it)| is_of_kind(it, cell));
            Cone::new(graph, &fed, &ends, step).cells(is_like, is_one, &mut cells);
        }
    }
    cells
}

/// Whether two cells compute the same with their operands.
pub(super) fn is_alike(one: &Cell<'_>, other: &Cell<'_>) -> bool {
    is_of_kind(one, other) && one.gates == other.gates
}

/// Whether two cells compute the same, but for their weights.
pub(super) fn is_of_kind(one: &Cell<'_>, other: &Cell<'_>) -> bool {
    (one.kind, &one.activations) == (other.kind, &other.activations)
}

/// The values that products read, alone or joined with others.
fn fed<'a>(graph: &Graph<'a>) -> HashSet<&'a str> {
    let mut fed = HashSet::new();
    let products = graph.scope.nodes.iter().filter(|node| is_product(node));
    for factor in products.filter_map(|node| node.input(0)) {
        let factor = through_identity(graph.scope, factor);
        fed.insert(factor);
        if let Some(joined) = graph.scope.first_output_of(factor, "Concat") {
            fed.extend(
                joined
                    .inputs()
                    .map(|part| through_identity(graph.scope, part)),
            );
        }
    }
    fed
}

/// The nodes that a step reaches before the outputs of its cells.
struct Cone<'g, 'a> {
    graph: &'g Graph<'a>,
    fed: &'g HashSet<&'a str>,
    /// The step, and the value that it is.
    value: &'a str,
    step: Step<'a>,
    /// The nodes at which it ends.
    ends: &'g HashSet<usize>,
    reached: BTreeSet<usize>,
}

impl<'g, 'a> Cone<'g, 'a> {
    fn new(
        graph: &'g Graph<'a>,
        fed: &'g HashSet<&'a str>,
        ends: &'g HashSet<usize>,
        (value, step): (&'a str, Step<'a>),
    ) -> Self {
        Self {
            graph,
            fed,
            value,
            step,
            ends,
            reached: BTreeSet::new(),
        }
    }

    /// Finds the cells whose outputs `may_be` these values, and that `fit`.
    fn cells(
        mut self,
        may_be: impl Fn(usize, &'a str) -> bool,
        fits: impl Fn(&Cell<'a>) -> bool,
        cells: &mut Vec<StepCell<'a>>,
    ) {
        let readers = |value: &str| self.graph.readers(value).iter().copied().map(Reverse);
        let mut open: BinaryHeap<Reverse<usize>> = readers(self.value).collect();
        while let Some(Reverse(index)) = open.pop()
            && self.reached.len() < MAXIMUM_REACHED
        {
            if self.ends.contains(&index) || !self.reached.insert(index) {
                continue;
            }
            let node: &'a NodeProto = &self.graph.scope.nodes[index];
            if let [output] = node.output.as_slice()
                && may_be(index, output)
                && let Some(cell) = self.cell(index, output).filter(|it| fits(&it.cell))
            {
                if let Some((_, memory)) = cell.cell.memory {
                    // What else reads it is the cell of the next step, and all those behind.
                    let next = self.graph.readers(memory);
                    open.retain(|Reverse(it)| cell.nodes.contains(it) || !next.contains(it));
                }
                cells.push(cell);
                continue;
            }
            open.extend(node.outputs().flat_map(readers));
        }
    }

    /// The cell that makes a value.
    fn cell(&self, index: usize, output: &'a str) -> Option<StepCell<'a>> {
        let (nodes, outside) = self.formula(index)?;
        let graph = self.graph;
        let sequence = Sequence {
            value: self.step.sequence,
            axis: self.step.axis,
            backwards: false,
        };
        let states: Vec<&str> = outside
            .iter()
            .map(|it| through_identity(graph.scope, it))
            .collect();
        let body = Body::of_step(graph.scope, &graph.facts, &states, (self.value, sequence));
        let cell = Cell::of(&body, output)?;
        let is_own = cell.output == output && body.plain(cell.input) == self.value;
        is_own.then_some(StepCell {
            step: self.step,
            cell,
            index,
            nodes,
        })
    }

    /// Returns the operators that make the output of a node, and what they read from outside; `None` if it is
    /// too much for a cell, or does not read the step.
    fn formula(&self, index: usize) -> Option<(BTreeSet<usize>, Vec<&'a str>)> {
        let mut nodes = BTreeSet::new();
        let mut outside = Vec::new();
        let mut reads_step = false;
        let mut open = vec![index];
        while let Some(index) = open.pop() {
            if !nodes.insert(index) {
                continue;
            }
            let node: &'a NodeProto = &self.graph.scope.nodes[index];
            if node.graphs().next().is_some() {
                return None;
            }
            for input in node.inputs() {
                if input == self.value {
                    reads_step = true;
                } else if let Some((maker, _)) = self.graph.scope.maker(input)
                    && (self.reached.contains(&maker) || self.is_of_product(input))
                {
                    open.push(maker);
                } else if !outside.contains(&input) {
                    outside.push(input);
                }
            }
            if nodes.len() > MAXIMUM_NODES || outside.len() > MAXIMUM_OUTSIDE {
                return None;
            }
        }
        reads_step.then_some((nodes, outside))
    }

    /// Whether a value that the step does not reach is a product, with a bias or in part: that of a
    /// state.
    fn is_of_product(&self, value: &'a str) -> bool {
        let mut value = value;
        for _ in 0..MAXIMUM_AFTER_PRODUCT {
            if self.fed.contains(value) {
                return false;
            }
            let Some((_, node)) = self.graph.scope.maker(value) else {
                return false;
            };
            if is_product(node) {
                return true;
            }
            let is_constant = |value: &&str| self.graph.scope.maker(value).is_none();
            let mut inputs = node.inputs();
            let next = match node.op() {
                "Identity" | "Reshape" | "Slice" | "Split" | "Squeeze" => inputs.next(),
                "Add" => inputs.find(|it| !is_constant(it)),
                _ => None,
            };
            match next {
                Some(next) => value = next,
                None => return false,
            }
        }
        false
    }
}
