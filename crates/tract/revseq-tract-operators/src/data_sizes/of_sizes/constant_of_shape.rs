//! `ConstantOfShape` with a shape from data.

use tract_onnx::model::ParsingContext;
use tract_onnx::pb::NodeProto;
use tract_onnx::tract_hir::internal::*;
use tract_onnx::tract_hir::ops::array;

use super::{KnownSizes, Numbers, OfSizes, of_sizes, size, wide_sizes};
use crate::operator::{Parsed, over};

/// The value of all elements, of no axis.
#[derive(Clone, Debug)]
struct ConstantOfShape(Arc<Tensor>);

pub(crate) fn parse(ctx: &ParsingContext<'_>, node: &NodeProto) -> Parsed {
    let value = match node.get_attr_opt("value")? {
        Some(value) => ctx.load_tensor(value)?,
        // tract's default is a double.
        None => tensor0(0_f32),
    };
    ensure!(
        value.len() == 1,
        "its value has sizes {:?}, expected one element",
        value.shape()
    );
    let value = value.into_shape(&[])?.into_arc_tensor();
    let upstream = expand(array::ConstantOfShape::new(Arc::clone(&value)));
    let upstream = over(upstream, wide_sizes(0));
    of_sizes(ctx, node, Ok((upstream, vec![])), ConstantOfShape(value))
}

impl OfSizes for ConstantOfShape {
    const NAME: &str = "ConstantOfShape";
    const HAS_DATA: bool = false;

    fn rank(&self, _data: usize, count: usize) -> usize {
        count
    }

    fn size(&self, axis: usize, known: &KnownSizes<'_>) -> Option<TDim> {
        known.number(axis).map(|size| size.to_dim())
    }

    fn shape(&self, _data: &[usize], numbers: &Numbers<'_>) -> TractResult<TVec<usize>> {
        numbers(0)?.into_iter().map(size).collect()
    }

    fn output(&self, _inputs: TVec<TValue>, shape: &[usize]) -> TractResult<Tensor> {
        self.0.broadcast_to_shape(shape)
    }
}
