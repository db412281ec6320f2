//! The readers of a list, in the graph of the list and in those inside of it.

use crate::constant;
use crate::model::{NodeProto, all_nodes};
use crate::passes::tract::list;
use crate::scope::Scope;
use crate::sizes::Size;

/// All readers of a list.
pub(super) struct ListReads<'a> {
    pub(super) nodes: Vec<&'a NodeProto>,
    /// The indices of those in the graph of the list.
    pub(super) here: Vec<usize>,
}

impl<'a> ListReads<'a> {
    /// The readers of a list; an error if others than these operators read it.
    pub(super) fn of(scope: &Scope<'a>, name: &str) -> Result<Self, String> {
        let mut reads = Self {
            nodes: Vec::new(),
            here: Vec::new(),
        };
        if name.is_empty() {
            return Ok(reads);
        }
        let reads_it = |node: &NodeProto| node.inputs().any(|input| input == name);
        for (index, node) in scope.nodes.iter().enumerate() {
            if reads_it(node) {
                reads.here.push(index);
            }
        }
        reads.nodes = all_nodes(scope.nodes).filter(|it| reads_it(it)).collect();
        let is_read_by = |node: &&NodeProto| {
            node.domain().is_empty() && (list::READS.contains(&node.op()) || list::makes(node))
                || node.is("Loop")
        };
        if reads.nodes.len() != scope.uses(name) || !reads.nodes.iter().all(is_read_by) {
            return Err(format!(
                "the sequence {name} has other readers than ConcatFromSequence, SequenceAt and SequenceLength"
            ));
        }
        Ok(reads)
    }

    /// Whether only the length is read.
    pub(super) fn are_lengths(&self) -> bool {
        self.nodes.iter().all(|node| node.is("SequenceLength"))
    }

    /// Whether the tensors are stacked, which fails unless they have one shape, and nothing else reads
    /// more than the length.
    pub(super) fn are_new_axes(&self) -> bool {
        let is_new = |node: &&&NodeProto| node.int("new_axis").or(0) == Some(1);
        let others = self.nodes.iter().filter(|node| !node.is("SequenceLength"));
        let new = others
            .clone()
            .filter(|node| node.is("ConcatFromSequence"))
            .filter(is_new);
        !self.are_lengths() && new.count() == others.count()
    }

    /// The axes along which the tensors are joined, if nothing else reads them; joining fails unless
    /// all other sizes are the same.
    pub(super) fn axes(&self, rank: Option<usize>) -> Option<Vec<usize>> {
        let joined = self.nodes.iter().filter(|node| !node.is("SequenceLength"));
        let axes = joined.map(|node| {
            let is_join = node.is("ConcatFromSequence") && node.int("new_axis").or(0) == Some(0);
            let axis = node.int("axis").value().filter(|_| is_join)?;
            constant::normal_axis(axis, rank?)
        });
        axes.collect()
    }

    /// The only axis along which the tensors are joined, if they may differ along it and nothing else
    /// reads them.
    pub(super) fn ragged_axis(&self, sizes: &[Option<Size<'_>>]) -> Option<usize> {
        let axes = self.axes(Some(sizes.len()))?;
        let &axis = axes.first()?;
        let are_here = self.here.len() == self.nodes.len() && axes.len() == self.nodes.len();
        let mut others = sizes.iter().enumerate().filter(|&(other, _)| other != axis);
        let is_only = axes.iter().all(|&other| other == axis);
        (are_here && is_only && sizes[axis].is_none() && others.all(|(_, size)| size.is_some()))
            .then_some(axis)
    }
}
