//! Which nodes of a body run before the loop, and which behind it.

use std::collections::{HashMap, HashSet};

use crate::model::NodeProto;
use crate::order;
use crate::passes::known_sizes;
use crate::passes::steps::body::Body;
use crate::sizes;
use crate::types;
use revseq_onnx::tensor::element_size;

use super::super::values::Values;

/// What a value of all steps may take of the second-level cache, in bytes: half of the usual ones.
const CACHE: i64 = 1 << 19;

/// What a product's operand of all steps may take, in bytes.
const OPERAND: i64 = 1 << 26;

/// Operators that give the elements of their first input other axes, which takes no time.
const VIEWS: &[&str] = &["Identity", "Reshape", "Squeeze", "Unsqueeze"];

/// What leaves a loop.
#[derive(Default)]
pub(super) struct Choice<'a> {
    /// The nodes that are computed before it, and no longer in it.
    before: HashSet<usize>,
    /// The values of these that it reads, each step its own.
    pub(super) read: Vec<&'a str>,
    /// The nodes that are computed behind it, in order.
    pub(super) behind: Vec<usize>,
    /// The values that these read of it, with their numbers of axes.
    pub(super) kept: Vec<(&'a str, usize)>,
    /// The outputs of its body that are made outside.
    made: HashSet<&'a str>,
}

impl<'a> Choice<'a> {
    /// Chooses nodes of a loop whose scan outputs follow so many others, and writes what is computed
    /// before it. Some nodes have no form behind it.
    pub(super) fn of(
        values: &mut Values<'a, '_>,
        first_scan: usize,
        without_form: &HashSet<usize>,
    ) -> Self {
        let mut search = Search::new(values.body, first_scan);
        search.write_before(values);
        // Of no step, runtimes make up the sizes of what a Loop outputs.
        let (behind, kept) = match values.has_steps() {
            true => search.behind(without_form),
            false => Default::default(),
        };
        let mut choice = Self {
            behind,
            kept,
            ..Self::default()
        };
        let is_made = |value: &&str| {
            let maker = search.body.inner.maker(value).map(|(index, _)| index);
            maker.is_some_and(|it| search.before.contains(&it) || choice.behind.contains(&it))
        };
        let made = search.scanned.iter().copied();
        choice.made = made.filter(is_made).collect();
        search.read(&mut choice);
        choice
    }

    pub(super) fn is_nothing(&self) -> bool {
        self.before.is_empty() && self.behind.is_empty() && self.made.is_empty()
    }

    /// The nodes that are no longer in the loop.
    pub(super) fn gone(&self) -> impl Iterator<Item = usize> {
        self.before.iter().chain(&self.behind).copied()
    }

    /// Whether an output of the body is made outside.
    pub(super) fn makes(&self, value: &str) -> bool {
        self.made.contains(value)
    }

    pub(super) fn what(&self) -> String {
        let (before, behind) = (self.before.len(), self.behind.len());
        format!(
            "the same with {before} of its nodes before it and {behind} behind it, over all steps"
        )
    }
}

struct Search<'a> {
    body: &'a Body<'a>,
    /// The nodes that read each value.
    readers: HashMap<&'a str, Vec<usize>>,
    /// The outputs that are no scan outputs, or not known to be.
    fixed: HashSet<&'a str>,
    /// The values that are scan outputs.
    scanned: HashSet<&'a str>,
    /// The values that depend on the step and on no state.
    stepped: HashSet<&'a str>,
    /// The nodes that are written over all steps.
    before: HashSet<usize>,
    /// Those of them that are products, and the sums of these with constants.
    products: HashSet<usize>,
}

impl<'a> Search<'a> {
    fn new(body: &'a Body<'a>, first_scan: usize) -> Self {
        let inner = body.inner;
        let mut readers: HashMap<&str, Vec<usize>> = HashMap::new();
        for (index, node) in inner.nodes.iter().enumerate() {
            for name in order::reads(node) {
                readers.entry(name).or_default().push(index);
            }
        }
        let last = first_scan + body.scanned.len();
        let (before, behind) = inner.outputs.split_at(first_scan.min(inner.outputs.len()));
        let beyond = inner.outputs.iter().skip(last);
        let fixed: HashSet<&str> = before.iter().chain(beyond).copied().collect();
        let scanned = behind.iter().take(body.scanned.len()).copied();
        let slices = body.slices.iter().map(|(slice, _)| *slice);
        let counters = body.counters.iter().map(|state| state.carried);
        Self {
            body,
            readers,
            scanned: scanned.filter(|value| !fixed.contains(value)).collect(),
            fixed,
            stepped: slices.chain(counters).chain(body.iteration).collect(),
            before: HashSet::new(),
            products: HashSet::new(),
        }
    }

    /// Writes the nodes that depend on no state over all steps, where that is worth it.
    fn write_before(&mut self, values: &mut Values<'a, '_>) {
        for (index, node) in self.body.inner.nodes.iter().enumerate() {
            let is_stepped = node.inputs().any(|name| self.stepped.contains(name));
            let is_counter = || node.outputs().any(|it| self.body.counter(it).is_some());
            if is_stepped && is_counter() {
                self.stepped.extend(node.outputs());
                continue;
            }
            let is_product = self.is_product(node, |name| self.stepped.contains(name));
            let is_worth = is_product || self.reads_step(node) || self.is_worth(node);
            let is_read = node.outputs().any(|it| self.body.inner.uses(it) > 0);
            if !(is_stepped && is_worth && is_read) {
                continue;
            }
            if super::write_node(values, node).is_ok() {
                self.before.insert(index);
                self.stepped.extend(node.outputs());
                if is_product {
                    self.products.insert(index);
                }
            }
        }
    }

    /// Whether a node multiplies one value of each step with one that is the same in all of them, or adds
    /// one to such a product.
    fn is_product(&self, node: &NodeProto, is_stepped: impl Fn(&str) -> bool) -> bool {
        let [Some(one), Some(other)] = [node.input(0), node.input(1)] else {
            return false;
        };
        let (data, constant) = match (is_stepped(one), is_stepped(other)) {
            (true, false) => (one, other),
            (false, true) => (other, one),
            _ => return false,
        };
        let is_of_product = || {
            let maker = self.body.inner.maker(data);
            maker.is_some_and(|(index, _)| self.products.contains(&index))
        };
        self.is_same(constant)
            && (node.is("MatMul") || node.is("Gemm") || node.is("Add") && is_of_product())
    }

    /// Whether a value is the same in all steps, and known outside.
    fn is_same(&self, name: &str) -> bool {
        let inner = self.body.inner;
        let maker = inner.maker(name);
        let is_input = || inner.input(name).is_some();
        maker.map_or_else(|| !is_input(), |(_, node)| node.is("Constant"))
    }

    /// Whether a node reads the step's part of a value from outside.
    fn reads_step(&self, node: &NodeProto) -> bool {
        let [Some(table), Some(step)] = [node.input(0), node.input(1)] else {
            return false;
        };
        node.is("Gather") && !self.body.inner.defines(table) && self.body.counter(step).is_some()
    }

    /// Whether the outputs of a node fit the cache over all steps.
    fn is_worth(&self, node: &NodeProto) -> bool {
        VIEWS.contains(&node.op())
            || node
                .outputs()
                .all(|it| self.bytes(it).is_some_and(|bytes| bytes <= CACHE))
    }

    /// The bytes of a value over all steps.
    fn bytes(&self, name: &str) -> Option<i64> {
        let inner = self.body.inner;
        // Elements of an unknown type are seldom larger than this.
        let element = types::of(inner, name).and_then(element_size).unwrap_or(8);
        let bytes = i64::try_from(element).ok()?;
        let bytes = bytes.checked_mul(self.body.steps.number()?)?;
        let mut sizes = known_sizes(inner, name)?.into_iter();
        sizes.try_fold(bytes, |bytes, size| bytes.checked_mul(size?))
    }

    /// The nodes of which nothing but scan outputs follow, where it is worth it that they run behind the
    /// loop, and what they read of it.
    fn behind(&mut self, without_form: &HashSet<usize>) -> (Vec<usize>, Vec<(&'a str, usize)>) {
        let inner = self.body.inner;
        let mut possible = vec![false; inner.nodes.len()];
        let mut products = self.products.clone();
        for (index, node) in inner.nodes.iter().enumerate() {
            let is_product = self.is_product(node, |name| !self.is_same(name));
            if is_product {
                self.products.insert(index);
            }
            possible[index] = !self.before.contains(&index)
                && !without_form.contains(&index)
                && node.graphs().next().is_none()
                && !node.is("Constant")
                && (is_product || self.is_worth(node));
        }
        std::mem::swap(&mut self.products, &mut products);
        loop {
            let behind = self.only_scanned(&possible);
            let mut kept = Vec::new();
            let mut is_possible = true;
            for &index in &behind {
                for name in self.read_of_loop(&inner.nodes[index], &behind) {
                    let is_operand = products.contains(&index);
                    match sizes::rank(inner, name).filter(|_| self.may_be_kept(name, is_operand)) {
                        Some(rank) if kept.iter().all(|&(known, _)| known != name) => {
                            kept.push((name, rank));
                        }
                        Some(_) => {}
                        None => {
                            possible[index] = false;
                            is_possible = false;
                        }
                    }
                }
            }
            if is_possible {
                let has_product = behind.iter().any(|index| products.contains(index));
                return match has_product || behind.len() > kept.len() {
                    true => (behind, kept),
                    false => Default::default(),
                };
            }
        }
    }

    /// Those of the possible nodes of which nothing but scan outputs follow.
    fn only_scanned(&self, possible: &[bool]) -> Vec<usize> {
        let mut is_behind = vec![false; possible.len()];
        for index in (0..possible.len()).rev() {
            let is_free = |output: &str| {
                let readers = self.readers.get(output).map_or(&[][..], Vec::as_slice);
                !self.fixed.contains(output)
                    && (!readers.is_empty() || self.scanned.contains(output))
                    && readers.iter().all(|&reader| is_behind[reader])
            };
            is_behind[index] =
                possible[index] && self.body.inner.nodes[index].outputs().all(is_free);
        }
        (0..is_behind.len())
            .filter(|&index| is_behind[index])
            .collect()
    }

    /// The values of the loop that a node behind it reads.
    fn read_of_loop(&self, node: &'a NodeProto, behind: &[usize]) -> Vec<&'a str> {
        let is_inside = |name: &&str| {
            let maker = self.body.inner.maker(name).map(|(index, _)| index);
            let is_made =
                maker.is_some_and(|maker| self.before.contains(&maker) || behind.contains(&maker));
            !is_made && !self.is_same(name) && !self.stepped.contains(*name)
        };
        node.inputs().filter(is_inside).collect()
    }

    /// Whether a value of the loop may be one of all steps behind it.
    fn may_be_kept(&self, name: &str, is_operand: bool) -> bool {
        match self.bytes(name) {
            Some(bytes) => bytes <= if is_operand { OPERAND } else { CACHE },
            None => is_operand,
        }
    }

    /// Chooses which of the values that are computed before the loop it reads.
    fn read(&self, choice: &mut Choice<'a>) {
        let nodes = self.body.inner.nodes;
        let mut needed = self.fixed.clone();
        // A Scan has its sequences anyway.
        needed.extend(self.body.slices.iter().map(|(slice, _)| slice));
        needed.extend(
            self.scanned
                .iter()
                .filter(|value| !choice.made.contains(*value)),
        );
        for (index, node) in nodes.iter().enumerate() {
            if !self.before.contains(&index) && !choice.behind.contains(&index) {
                needed.extend(order::reads(node));
            }
        }
        let mut has_product = false;
        for index in (0..nodes.len())
            .rev()
            .filter(|index| self.before.contains(index))
        {
            let node = &nodes[index];
            let read: Vec<&str> = node.outputs().filter(|it| needed.contains(it)).collect();
            let is_product = self.products.contains(&index);
            let is_there = |name: &str| needed.contains(name) || !self.stepped.contains(name);
            let is_kept = self.reads_step(node) || !is_product && node.inputs().all(is_there);
            if !read.is_empty() && is_kept {
                needed.extend(node.inputs());
                continue;
            }
            has_product |= is_product;
            choice.before.insert(index);
            choice.read.extend(read);
        }
        if choice.before.len() <= choice.read.len() && !has_product {
            choice.before.clear();
            choice.read.clear();
        }
    }
}
