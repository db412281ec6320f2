//! `Pad` by numbers from data, and pads that remove elements, on which tract panics.
//!
//! A Pad that removes elements is one that only adds elements, and a slice of its output for each
//! axis that loses some.
//!
//! ```text
//! Pad(x, [-1, 2])  →  Pad(x, [0, 2])[1:]
//! ```

use tract_onnx::model::{ParsingContext, optional_inputs};
use tract_onnx::pb::NodeProto;
use tract_onnx::tract_core::ops::array::{Pad as Padding, PadMode, Slice};
use tract_onnx::tract_hir::internal::*;

use super::{KnownSizes, Numbers, OfSizes, numbers, of_sizes, parse_with_data};
use crate::data_sizes::size_symbols::axis;
use crate::operator::{Inferred, Inferring, Operator, Parsed, Wired, Wiring, over_parsed};
use crate::operators::int64::on_numbers;

#[derive(Clone, Debug)]
struct Pad {
    mode: PadMode,
    /// The input with the value of new elements.
    value: Option<usize>,
    /// The input with the padded axes.
    axes: Option<usize>,
}

pub(crate) fn parse(ctx: &ParsingContext<'_>, node: &NodeProto) -> Parsed {
    let mut inputs = optional_inputs(node).skip(2);
    let (value, axes) = (inputs.next().flatten(), inputs.next().flatten());
    let op = Pad {
        mode: match node.get_attr_opt("mode")? {
            Some("edge") => PadMode::Edge,
            Some("reflect") => PadMode::Reflect,
            _ => PadMode::default(),
        },
        value,
        axes,
    };
    let cropping = over_parsed(parse_with_data(ctx, node), Cropping(op.clone()));
    of_sizes(ctx, node, over_parsed(cropping, on_numbers()), op)
}

impl Pad {
    /// The pads before and behind each axis.
    fn pads(&self, rank: usize, numbers: &Numbers<'_>) -> TractResult<Vec<[i64; 2]>> {
        let pads = numbers(1)?;
        let axes = match self.axes {
            Some(axes) => numbers(axes)?,
            None => (0..rank as i64).collect(),
        };
        ensure!(
            pads.len() == 2 * axes.len(),
            "it has {} pads along {} axes",
            pads.len(),
            axes.len()
        );
        let mut all = vec![[0, 0]; rank];
        for (at, of_axis) in axes.iter().enumerate() {
            all[axis(*of_axis, rank)?] = [pads[at], pads[at + axes.len()]];
        }
        Ok(all)
    }
}

impl OfSizes for Pad {
    const NAME: &str = "Pad";

    fn rank(&self, data: usize, _count: usize) -> usize {
        data
    }

    fn size(&self, axis: usize, known: &KnownSizes<'_>) -> Option<TDim> {
        let pads = [known.number(axis)?, known.number(axis + known.rank)?];
        let is_added = self.axes.is_none() && pads.iter().all(|pad| *pad >= 0);
        is_added.then(|| known.data[axis].clone() + pads[0] + pads[1])
    }

    /// tract takes no symbols.
    fn is_ours(&self, _inputs: &[InferenceFact], sizes: &[TDim]) -> Option<bool> {
        Some(sizes.iter().any(|pad| pad.to_i64().is_err()))
    }

    fn shape(&self, data: &[usize], numbers: &Numbers<'_>) -> TractResult<TVec<usize>> {
        let pads = self.pads(data.len(), numbers)?;
        let sizes = std::iter::zip(data, pads).enumerate();
        let sizes = sizes.map(|(axis, (size, pads))| {
            let most = |pad: u64| usize::try_from(pad).unwrap_or(usize::MAX);
            let added = pads.map(|pad| most(pad.max(0).unsigned_abs()));
            let removed = pads.map(|pad| most(pad.min(0).unsigned_abs()));
            let size = added
                .into_iter()
                .fold(*size, |sum, pad| sum.saturating_add(pad));
            let left = size.checked_sub(removed[0].saturating_add(removed[1]));
            left.with_context(|| {
                format!(
                    "its pads remove {} and {} of {size} elements along axis {axis}",
                    removed[0], removed[1]
                )
            })
        });
        sizes.collect()
    }

    fn output(&self, inputs: TVec<TValue>, shape: &[usize]) -> TractResult<Tensor> {
        let pads = self.pads(shape.len(), &|input| numbers(&inputs[input]))?;
        let data = inputs[0].shape();
        let added = pads.iter().map(|pads| pads.map(|pad| pad.max(0) as usize));
        let added: Vec<(usize, usize)> = added.map(|[first, last]| (first, last)).collect();
        let mode = match self.value {
            Some(value) => {
                let value = inputs[value].clone().into_tensor().into_shape(&[])?;
                PadMode::Constant(value.into_arc_tensor())
            }
            None => self.mode.clone(),
        };
        let least = |pads: &(usize, usize)| match mode {
            PadMode::Constant(_) => 0,
            _ if *pads == (0, 0) => 0,
            PadMode::Edge => 1,
            PadMode::Reflect => 1 + pads.0.max(pads.1),
        };
        for (axis, (size, pads)) in std::iter::zip(data, &added).enumerate() {
            ensure!(
                *size >= least(pads),
                "its pads {} and {} along axis {axis} repeat more than its {size} elements",
                pads.0,
                pads.1
            );
        }
        let padding = Padding { pads: added, mode };
        let ctx = EvalContext::out_of_plan();
        let output = padding.eval(&ctx, tvec![inputs[0].clone()])?;
        let mut output = output[0].clone().into_tensor();
        for (axis, ([first, _], size)) in std::iter::zip(pads, shape).enumerate() {
            let first = first.min(0).unsigned_abs() as usize;
            if output.shape()[axis] != *size {
                output = output.slice(axis, first, first + size)?;
            }
        }
        Ok(output)
    }
}

/// The operator over a Pad whose negative pads remove elements; tract's only adds elements.
#[derive(Clone, Debug)]
struct Cropping(Pad);

/// Pads from here on would overflow where they are added to a size.
const MOST: u64 = 1 << 60;

impl Operator for Cropping {
    fn infer(&self, node: &mut Inferring<'_>) -> Inferred {
        let pads = node.value(1);
        for pad in pads.and_then(|it| numbers(&it).ok()).into_iter().flatten() {
            ensure!(
                pad.unsigned_abs() < MOST,
                "one of its pads is {pad}, of a value larger than any memory"
            );
        }
        // tract panics if it computes values.
        node.computes = false;
        Ok(None)
    }

    fn wire(&self, node: &mut Wiring<'_>) -> Wired {
        let rank = node.input(0)?.rank();
        let pads = node.input(1).ok().and_then(|fact| fact.konst.clone());
        let pads = pads.and_then(|pads| numbers(&pads).ok());
        rule_if_some!(pads = pads.filter(|pads| pads.iter().any(|pad| *pad < 0)));
        let constant = |input: usize| {
            let constant = node.input(input)?.konst.as_ref();
            numbers(constant.context("its axes are unknown")?)
        };
        let removed = self.0.pads(rank, &constant)?.into_iter();
        let removed = removed.map(|pads| pads.map(|pad| pad.min(0).saturating_neg()));
        let removed: Vec<[i64; 2]> = removed.collect();
        let added: Vec<i64> = pads.iter().map(|pad| (*pad).max(0)).collect();
        node.inputs[1] = node.constant("added", tensor1(&added))?;
        let mut wire = node.by_upstream()?[0];
        for (axis, [first, last]) in removed.into_iter().enumerate() {
            if first == 0 && last == 0 {
                continue;
            }
            let size = node.fact(wire)?.shape[axis].clone();
            // A symbolic size is checked at run, if its expression does not overflow until then.
            let most = size.to_i64().unwrap_or(i64::MAX / 2);
            ensure!(
                first.saturating_add(last) <= most,
                "its pads remove {first} and {last} of {size} elements along axis {axis}"
            );
            let slice = Slice::new(axis, first, size - last);
            wire = node.op(&format!("axis{axis}"), slice, &[wire])?;
        }
        Ok(Some(tvec![wire]))
    }
}
