//! Reversals, and the operators they pass through, for all passes about them.
//!
//! Both kinds of reversal are read into one type: a Slice with a step of -1 over a whole axis, and
//! a ReverseSequence. A reversal of a node's output is asked for the reversal of the node's input
//! that does the same; the passes check who else reads the values in between.
//!
//! ```text
//! Flip(axis 0) of Transpose(x, perm [1, 0])  =  Transpose(Flip(axis 1) of x, perm [1, 0])
//! ```

use super::axis_from_front;
use crate::emit::Emit;
use crate::model::{NodeProto, int};
use crate::operators::is_elementwise;
use crate::scope::Scope;
use crate::sizes;

/// A reversal, relative to one of the values around it.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Reversal<'a> {
    /// Reversal of a whole axis.
    Flip { axis: usize },
    /// ReverseSequence.
    Sequence {
        time: usize,
        batch: usize,
        lengths: &'a str,
    },
}

impl<'a> Reversal<'a> {
    /// Reads a node as a reversal.
    pub(super) fn of(scope: &'a Scope<'a>, node: &'a NodeProto) -> Option<Self> {
        let data = node.input(0)?;
        let counted = |axis: i64| axis_from_front(scope, data, axis);
        if node.is("ReverseSequence") {
            return Some(Self::Sequence {
                time: counted(node.int("time_axis").or(0)?)?,
                batch: counted(node.int("batch_axis").or(1)?)?,
                lengths: node.input(1)?,
            });
        }
        let axis = counted(sizes::flipped_axis(scope, node)?)?;
        Some(Self::Flip { axis })
    }

    /// The same with mapped axes.
    fn with_axes(&self, map: impl Fn(usize) -> Option<usize>) -> Option<Self> {
        Some(match self {
            Self::Flip { axis } => Self::Flip { axis: map(*axis)? },
            Self::Sequence {
                time,
                batch,
                lengths,
            } => {
                let (time, batch) = (map(*time)?, map(*batch)?);
                Self::Sequence {
                    time,
                    batch,
                    lengths,
                }
            }
        })
    }

    /// The reversal of a node's input that equals this one of its output; `None` if the node does
    /// not commute with it.
    pub(super) fn before(&self, scope: &Scope<'_>, node: &NodeProto) -> Option<Self> {
        if !node.domain().is_empty() {
            return None;
        }
        match node.op() {
            op if is_elementwise(op) => Some(self.clone()),
            _ => self.with_axes(|axis| sizes::axis_of_input(scope, node, axis)),
        }
    }

    /// Whether it is the same as another one in a graph.
    pub(super) fn is_same(&self, scope: &Scope<'_>, other: &Reversal<'_>) -> bool {
        match (self, other) {
            (
                Self::Sequence { lengths, .. },
                Reversal::Sequence {
                    lengths: others, ..
                },
            ) => scope.is_same(lengths, scope, others) && self.axes() == other.axes(),
            _ => self == other,
        }
    }

    fn axes(&self) -> (usize, Option<usize>) {
        match *self {
            Self::Flip { axis } => (axis, None),
            Self::Sequence { time, batch, .. } => (time, Some(batch)),
        }
    }

    /// Writes the value in reverse.
    pub(super) fn write(&self, emit: &Emit<'_>, data: &str) -> String {
        match *self {
            Self::Flip { axis } => emit.flip(data, axis as i64),
            Self::Sequence {
                time,
                batch,
                lengths,
            } => {
                let axes = [
                    int("batch_axis", batch as i64),
                    int("time_axis", time as i64),
                ];
                emit.with("ReverseSequence", (data, lengths), axes)
            }
        }
    }
}
