//! `Tile` by numbers from data.

use tract_onnx::model::ParsingContext;
use tract_onnx::pb::NodeProto;
use tract_onnx::tract_hir::internal::*;

use super::{KnownSizes, Numbers, OfSizes, of_sizes, parse_with_data, size};
use crate::operator::Parsed;

#[derive(Clone, Debug)]
struct Tile;

pub(crate) fn parse(ctx: &ParsingContext<'_>, node: &NodeProto) -> Parsed {
    of_sizes(ctx, node, parse_with_data(ctx, node), Tile)
}

impl OfSizes for Tile {
    const NAME: &str = "Tile";

    fn rank(&self, data: usize, _count: usize) -> usize {
        data
    }

    fn size(&self, axis: usize, known: &KnownSizes<'_>) -> Option<TDim> {
        Some(known.data[axis].clone() * known.number(axis)?)
    }

    fn shape(&self, data: &[usize], numbers: &Numbers<'_>) -> TractResult<TVec<usize>> {
        let repeats = numbers(1)?;
        ensure!(
            repeats.len() == data.len(),
            "it has {} repeats for {} axes",
            repeats.len(),
            data.len()
        );
        let sizes = std::iter::zip(data, repeats);
        sizes
            .map(|(along, times)| Ok(along.saturating_mul(size(times)?)))
            .collect()
    }

    fn output(&self, inputs: TVec<TValue>, shape: &[usize]) -> TractResult<Tensor> {
        let mut inputs = inputs.into_iter();
        let mut tiled = inputs.next().context("it has data")?.into_tensor();
        for (axis, size) in shape.iter().enumerate() {
            let along = tiled.shape()[axis];
            if along == *size {
                continue;
            }
            tiled = Tensor::stack_tensors(axis, &vec![&tiled; size / along])?;
        }
        Ok(tiled)
    }
}
