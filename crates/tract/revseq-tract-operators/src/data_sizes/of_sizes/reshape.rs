//! `Reshape` to sizes from data.

use tract_onnx::model::ParsingContext;
use tract_onnx::pb::NodeProto;
use tract_onnx::tract_core::ops::change_axes::to_axis_ops_with_onnx_rules;
use tract_onnx::tract_hir::internal::*;

use super::zero_sizes::looked_at;
use super::{KnownSizes, Numbers, OfSizes, of_sizes, parse_with_data};
use crate::dims::is_not_negative;
use crate::operator::{Parsed, over_parsed};

#[derive(Clone, Debug)]
struct Reshape {
    /// Whether a 0 is a size, and not that of the same axis before.
    allows_zero: bool,
}

pub(crate) fn parse(ctx: &ParsingContext<'_>, node: &NodeProto) -> Parsed {
    let mut parsed = parse_with_data(ctx, node);
    let allows_zero = node.get_attr_opt("allowzero")?.unwrap_or(0_i64) != 0;
    if !allows_zero {
        parsed = over_parsed(parsed, looked_at);
    }
    of_sizes(ctx, node, parsed, Reshape { allows_zero })
}

/// The shape that sizes stand for, of which one of -1 is left open.
fn shape(data: &[usize], sizes: &[i64], allows_zero: bool) -> TractResult<TVec<usize>> {
    let sizes_of_axes = sizes.iter().enumerate().map(|(axis, size)| match size {
        0 if !allows_zero => data.get(axis).copied().with_context(|| {
            let rank = data.len();
            format!("it takes over axis {axis} of an input of rank {rank}")
        }),
        -1 => Ok(1),
        _ => usize::try_from(*size)
            .ok()
            .with_context(|| format!("it has a size of {size}, expected -1 or one from 0")),
    });
    let mut shape = sizes_of_axes.collect::<TractResult<TVec<usize>>>()?;
    let volume = |shape: &[usize]| {
        let mut sizes = shape.iter().copied();
        sizes.try_fold(1_usize, usize::checked_mul)
    };
    let (before, others) = (volume(data), volume(&shape));
    let mut open = (0..sizes.len()).filter(|axis| sizes[*axis] == -1);
    if let Some(axis) = open.next() {
        let rest = before.zip(others.filter(|others| *others > 0));
        shape[axis] = rest.map_or(0, |(before, others)| before / others);
    }
    ensure!(
        open.next().is_none() && volume(&shape) == before,
        "it reshapes {data:?} to {sizes:?}, which has another number of elements"
    );
    Ok(shape)
}

impl OfSizes for Reshape {
    const NAME: &str = "Reshape";
    const KEEPS_ELEMENTS: bool = true;

    fn rank(&self, _data: usize, count: usize) -> usize {
        count
    }

    fn size(&self, axis: usize, known: &KnownSizes<'_>) -> Option<TDim> {
        let data: Option<Vec<usize>> = known.data.iter().map(|it| it.to_usize().ok()).collect();
        let numbers: Option<Vec<i64>> = known.numbers.iter().copied().collect();
        if let (Some(data), Some(numbers)) = (data, numbers)
            && data.contains(&0)
            && let Ok(shape) = self.shape(&data, &|_| Ok(numbers.clone()))
        {
            return shape.get(axis).map(|size| size.to_dim());
        }
        let size = match known.number(axis) {
            Some(0) if !self.allows_zero => known.data.get(axis).cloned(),
            number => number.filter(|it| *it >= 0).map(|it| it.to_dim()),
        };
        size.or_else(|| {
            let to = &known.sizes?[axis];
            is_not_negative(to).then(|| to.clone())
        })
    }

    /// tract divides by sizes and compares expressions.
    fn is_ours(&self, inputs: &[InferenceFact], sizes: &[TDim]) -> Option<bool> {
        let data = inputs[0].shape.concretize()?;
        let is_known = data.iter().chain(sizes).all(|size| size.to_i64().is_ok());
        let fits = || to_axis_ops_with_onnx_rules(&data, sizes, self.allows_zero).is_ok();
        Some(data.contains(&0.to_dim()) || !is_known && !fits())
    }

    fn shape(&self, data: &[usize], numbers: &Numbers<'_>) -> TractResult<TVec<usize>> {
        let sizes = numbers(1)?;
        let read = |allows_zero| shape(data, &sizes, allows_zero);
        let is_of_nothing = data.contains(&0) && !sizes.contains(&-1);
        read(self.allows_zero).or_else(|error| match is_of_nothing {
            // Exporters write a computed size of 0 without allowzero. ONNX has an error there.
            true => read(true).map_err(|_| error),
            false => Err(error),
        })
    }

    fn output(&self, inputs: TVec<TValue>, shape: &[usize]) -> TractResult<Tensor> {
        let data = inputs.into_iter().next().context("it has data")?;
        data.into_tensor().into_shape(shape)
    }
}
