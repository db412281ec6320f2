//! Sizes after MatMul and Gemm.

use super::{Size, broadcast};
use crate::model::NodeProto;
use crate::scope::Scope;
use crate::sizes;

/// The rank of a product of operands of these ranks. A vector has no axis for its rows or columns.
pub(super) fn rank_of(ranks: [usize; 2]) -> Option<usize> {
    let most = ranks[0].max(ranks[1]).max(2);
    let vectors = ranks.iter().filter(|&&rank| rank == 1).count();
    (!ranks.contains(&0)).then_some(most - vectors)
}

pub(super) fn axis_of<'a>(
    scope: &'a Scope<'a>,
    node: &'a NodeProto,
    axis: usize,
) -> Option<Size<'a>> {
    let inputs = [node.input(0)?, node.input(1)?];
    let ranks = [
        sizes::rank(scope, inputs[0])?,
        sizes::rank(scope, inputs[1])?,
    ];
    let rank = rank_of(ranks)?;
    let own: Vec<(usize, usize)> = (ranks.iter().enumerate())
        .filter(|&(_, &rank)| rank > 1)
        .map(|(input, &rank)| (input, if input == 0 { rank - 2 } else { rank - 1 }))
        .collect();
    // The rows of the first operand and the columns of the second are the last axes, in this order.
    match (axis + own.len()).checked_sub(rank) {
        Some(place) => {
            let &(input, axis) = own.get(place)?;
            sizes::axis(scope, inputs[input], axis)
        }
        None => {
            let behind = rank - own.len() - axis;
            let mut sizes = Vec::new();
            for (input, &rank) in inputs.iter().zip(&ranks) {
                let batch = rank.saturating_sub(2).checked_sub(behind);
                if let Some(axis) = batch {
                    sizes.push(sizes::axis(scope, input, axis)?);
                }
            }
            broadcast(sizes)
        }
    }
}

pub(super) fn axis_of_gemm<'a>(
    scope: &'a Scope<'a>,
    node: &'a NodeProto,
    axis: usize,
) -> Option<Size<'a>> {
    let attribute = *["transA", "transB"].get(axis)?;
    let is_transposed = node.int(attribute).or(0)? != 0;
    let own = if is_transposed { 1 - axis } else { axis };
    sizes::axis(scope, node.input(axis)?, own)
}
