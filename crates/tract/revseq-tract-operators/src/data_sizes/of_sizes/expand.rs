//! `Expand` to sizes from data.

use tract_onnx::model::ParsingContext;
use tract_onnx::pb::NodeProto;
use tract_onnx::tract_hir::internal::*;

use super::{KnownSizes, Numbers, OfSizes, of_sizes, parse_with_data, size};
use crate::operator::Parsed;

#[derive(Clone, Debug)]
struct Expand;

pub(crate) fn parse(ctx: &ParsingContext<'_>, node: &NodeProto) -> Parsed {
    of_sizes(ctx, node, parse_with_data(ctx, node), Expand)
}

impl OfSizes for Expand {
    const NAME: &str = "Expand";

    fn rank(&self, data: usize, count: usize) -> usize {
        count.max(data)
    }

    fn size(&self, axis: usize, known: &KnownSizes<'_>) -> Option<TDim> {
        let leading = |count: usize| (axis + count).checked_sub(known.rank);
        let before = leading(known.data.len()).map_or(1.to_dim(), |at| known.data[at].clone());
        let to = match leading(known.numbers.len()) {
            None if !known.numbers.is_empty() => Some(1),
            at => at.and_then(|at| known.number(at)),
        };
        match (before.to_i64(), to) {
            (_, Some(1)) => Some(before),
            (Ok(1), to) => to.map(|size| size.to_dim()),
            (Ok(_), _) => Some(before),
            (Err(_), to) => to.map(|size| size.to_dim()),
        }
    }

    fn shape(&self, data: &[usize], numbers: &Numbers<'_>) -> TractResult<TVec<usize>> {
        let sizes = numbers(1)?;
        let mut shape: TVec<usize> = data.into();
        while shape.len() < sizes.len() {
            shape.insert(0, 1);
        }
        let missing = shape.len() - sizes.len();
        for (before, to) in std::iter::zip(&mut shape[missing..], sizes) {
            let to = size(to)?;
            ensure!(
                *before == to || *before == 1 || to == 1,
                "it expands {data:?} to {to} where it has {before} elements"
            );
            *before = if *before == 1 { to } else { *before };
        }
        Ok(shape)
    }

    fn output(&self, inputs: TVec<TValue>, shape: &[usize]) -> TractResult<Tensor> {
        inputs[0].broadcast_to_shape(shape)
    }
}
