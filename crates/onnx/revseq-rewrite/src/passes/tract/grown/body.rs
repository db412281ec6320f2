//! The uses of a list in a loop's body.

use crate::constant;
use crate::model::{BEFORE_STATES, GraphProto, NodeProto};
use crate::scope::Scope;

use crate::passes::tract::list::{Added, Segment};

/// A list among a Loop's states.
pub(super) struct List<'a> {
    pub(super) state: usize,
    /// Its name before an iteration.
    pub(super) old: &'a str,
    pub(super) initial: Vec<Segment<'a>>,
    /// The tensors that an iteration adds, in order.
    pub(super) added: Vec<Added<'a>>,
    /// The body's nodes that read its length, with the number of tensors added before.
    pub(super) lengths: Vec<(usize, usize)>,
    /// The names by which nodes in graphs of the body's nodes read its length, with the same number.
    pub(super) inner_lengths: Vec<(&'a str, usize)>,
    /// The body's nodes that read the last tensor of the iteration before.
    pub(super) lasts: Vec<usize>,
    /// Whether other nodes read it.
    has_other_reads: bool,
}

impl<'a> List<'a> {
    pub(super) fn of(
        inner: &Scope<'a>,
        state: usize,
        initial: Vec<Segment<'a>>,
    ) -> Result<Self, String> {
        let unfit = "its inputs, outputs and body do not fit together";
        let old = *inner.inputs.get(BEFORE_STATES + state).ok_or(unfit)?;
        let new = *inner.outputs.get(1 + state).ok_or(unfit)?;
        let mut list = Self::with(state, old, initial, Vec::new());
        let mut name = new;
        while name != old {
            let added = Added::of(inner, name)
                .filter(|_| list.added.len() < inner.nodes.len())
                .ok_or("a sequence changes otherwise than by tensors added at an end")?;
            name = added.list;
            list.added.push(added);
        }
        list.added.reverse();
        list.find_reads(inner);
        Ok(list)
    }

    /// A list to which an iteration adds tensors, and that it does not read.
    pub(super) fn with(
        state: usize,
        old: &'a str,
        initial: Vec<Segment<'a>>,
        added: Vec<Added<'a>>,
    ) -> Self {
        Self {
            state,
            old,
            initial,
            added,
            lengths: Vec::new(),
            inner_lengths: Vec::new(),
            lasts: Vec::new(),
            has_other_reads: false,
        }
    }

    fn find_reads(&mut self, inner: &Scope<'a>) {
        let names: Vec<&str> = self.names().collect();
        for (count, &name) in names.iter().enumerate() {
            let mut known = 1;
            for (index, node) in inner.nodes.iter().enumerate() {
                if node.input(0) != Some(name) {
                    continue;
                }
                let reads_last = || {
                    let at = node.input(1).and_then(|at| constant::int(inner, at));
                    count == 0 && at == Some(-1)
                };
                match node.op() {
                    "SequenceLength" => self.lengths.push((index, count)),
                    "SequenceAt" if reads_last() => self.lasts.push(index),
                    _ => continue,
                }
                known += 1;
            }
            let graphs = inner.nodes.iter().flat_map(NodeProto::graphs);
            let measures = all_in(graphs, |node| reads_length(node, name));
            if measures > 0 {
                self.inner_lengths.push((name, count));
            }
            known += measures;
            self.has_other_reads |= inner.uses(name) != known;
        }
        let is_tracked = match self.added.as_slice() {
            [added] => !added.is_front && matches!(self.initial.last(), Some(Segment::One(_))),
            _ => false,
        };
        self.has_other_reads |= !self.lasts.is_empty() && !is_tracked;
    }

    /// The list before an iteration, and with each tensor.
    fn names(&self) -> impl Iterator<Item = &'a str> {
        std::iter::once(self.old).chain(self.added.iter().map(|added| added.name))
    }

    pub(super) fn is_name(&self, name: &str) -> bool {
        self.names().any(|it| it == name)
    }

    /// Whether it has to be at hand in the body, as others than its length and its last tensor are
    /// read.
    pub(super) fn is_read_anywhere(&self) -> bool {
        self.has_other_reads || self.added.len() != 1
    }

    /// The tensor that each iteration adds, if it is one.
    pub(super) fn added_alone(&self) -> Result<&Added<'a>, String> {
        match self.added.as_slice() {
            [added] => Ok(added),
            _ => Err("it adds several tensors to a sequence".to_owned()),
        }
    }
}

/// Whether a node reads the length of a list.
pub(super) fn reads_length(node: &NodeProto, list: &str) -> bool {
    node.is("SequenceLength") && node.input(0) == Some(list)
}

/// The number of nodes of this kind in graphs and the graphs in them.
fn all_in<'g>(
    graphs: impl Iterator<Item = &'g GraphProto>,
    is_one: impl Fn(&NodeProto) -> bool,
) -> usize {
    let nodes = graphs
        .flat_map(GraphProto::with_inner)
        .flat_map(|graph| &graph.node);
    nodes.filter(|node| is_one(node)).count()
}
