//! The passes for tract: the same values, by operators and in an order that tract takes.
//!
//! Each pass runs in this order, after [`order`] has sorted the nodes: functions and taken branches
//! become part of the main graph first, where the later passes see them.

mod attention;
mod batch_statistics;
mod branch;
mod branch_list;
mod broadcast_state;
mod dft;
mod einsum;
mod features;
mod function;
mod grown;
mod inline;
mod layer_normalization;
mod list;
mod microsoft;
mod nonzero;
pub(crate) mod order;
mod scalars;
mod scan;
mod spectrum;
mod transposed;
mod wrap;

use crate::model::NodeProto;
use crate::pass::{Edit, Pass, Verdict};

pub(crate) use scan::{BATCHED as BATCHED_SCAN, LOOP as SCAN_LOOP};

pub(crate) use grown::PASS as APPENDED_LIST;
pub(crate) use list::PASS as LIST;

pub(crate) use function::{PASS as FUNCTION, check_expansion, remove_uncalled};

/// The passes after the functions are inlined, in their order.
pub(crate) const PASSES: &[&Pass] = &[
    &branch::PASS,
    &branch_list::PASS,
    &list::PASS,
    &list::STACKED,
    &grown::PASS,
    &broadcast_state::PASS,
    &scan::PASS,
    &spectrum::LENGTH,
    &spectrum::SIGNAL,
    &dft::PASS,
    &nonzero::PASS,
    &scalars::PASS,
    &transposed::PASS,
    &attention::PASS,
    &batch_statistics::PASS,
    &layer_normalization::PASS,
    &einsum::PASS,
    &wrap::PASS,
    &features::PASS,
    &microsoft::PASS,
    &super::unrolled::TRACT,
];

/// The names of all passes for tract, in their order.
pub(crate) const NAMES: [&str; PASSES.len() + 2] = {
    let mut names = [order::NAME; PASSES.len() + 2];
    names[1] = FUNCTION.info.name;
    let mut index = 0;
    while index < PASSES.len() {
        names[index + 2] = PASSES[index].info.name;
        index += 1;
    }
    names
};

pub(crate) use super::unrolled::concerns as may_be_unrolled;

/// Whether a pass applies to an operator, or to nodes behind it. A model without any of them is not
/// looked through.
pub(crate) fn concerns(operator: &str) -> bool {
    matches!(operator, layer_normalization::OPERATOR | nonzero::OPERATOR)
        || PASSES.iter().any(|pass| pass.concerns(operator))
}

/// Whether a pass is one of those here.
pub(crate) fn is_one(name: &str) -> bool {
    NAMES.contains(&name)
}

fn edit(nodes: Vec<NodeProto>, what: String) -> Verdict {
    Ok(Edit {
        nodes,
        what,
        ..Edit::default()
    })
}
