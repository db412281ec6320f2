//! The form of a model that tract reads: the same values by operators, and in
//! an order, that tract has.
//!
//! Each pass is exact. They are taken in this order, after [`order`] has sorted
//! the nodes: what is in functions and in the branches that are taken becomes
//! part of the main graph, where the later ones see it.

mod branch;
mod dft;
mod function;
mod grown;
mod inline;
mod list;
mod microsoft;
pub(crate) mod order;
mod scan;
mod suppression;

use crate::model::NodeProto;
use crate::pass::{Edit, Pass, Verdict};

pub(crate) use function::{PASS as FUNCTION, check_expansion, remove_uncalled};

/// The passes for what is left when the functions are inlined, in their order.
pub(crate) const PASSES: &[&Pass] = &[
    &branch::PASS,
    &list::PASS,
    &grown::PASS,
    &scan::PASS,
    &dft::PASS,
    &suppression::PASS,
    &microsoft::PASS,
];

/// Whether a pass is about an operator.
pub(crate) fn concerns(operator: &str) -> bool {
    OPERATORS.contains(&operator) || microsoft::OPERATORS.contains(&operator)
}

/// The standard operators that the passes are about.
const OPERATORS: &[&str] = &[
    "ConcatFromSequence",
    "DFT",
    "If",
    "NonMaxSuppression",
    "Scan",
    "SequenceAt",
    "SequenceInsert",
    "SequenceLength",
];

/// What replaces a node.
fn edit(nodes: Vec<NodeProto>, what: String) -> Verdict {
    Verdict::Edit(Edit {
        nodes,
        what,
        ..Edit::default()
    })
}
