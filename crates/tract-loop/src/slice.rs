//! Slices whose bounds come from data.

use tract_onnx::model::ParsingContext;
use tract_onnx::pb::NodeProto;
use tract_onnx::tract_core::ops::Downsample;
use tract_onnx::tract_core::ops::array::{Gather, Slice};
use tract_onnx::tract_core::ops::change_axes::AxisOp;
use tract_onnx::tract_hir::internal::*;

use crate::around::{Around, BEYOND, Number};
use crate::minted::{Facts, Minted, axis, inferred};
use crate::node::{check_domain, tracts};
use crate::part::Part;
use crate::wire::wire_cast;

/// Reads a Slice: as tract does where its bounds turn out to be known, else as a [`Part`]
/// along each axis, or as a Gather where it takes one element that is then squeezed.
pub(crate) fn parse(
    ctx: &ParsingContext<'_>,
    node: &NodeProto,
) -> TractResult<(Box<dyn InferenceOp>, Vec<String>)> {
    check_domain(node)?;
    let (tracts, captured) = tracts("Slice", ctx, node)?;
    let Some(along) = along(ctx, node)? else {
        return Ok((tracts, captured));
    };
    let op = OnnxSlice {
        tracts,
        along,
        sizes: Minted::new(ctx),
    };
    Ok((Box::new(op), captured))
}

/// What a Slice takes along an axis.
#[derive(Clone, Copy, Debug)]
struct Along {
    axis: i64,
    step: i64,
    taken: Taken,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Taken {
    /// What starts with the first bound: one element, or a Squeeze fails.
    Element,
    Known(i64, i64),
    /// What the bounds say when it runs.
    Part,
}

/// What a Slice takes, if its axes and steps are known, and its bounds may come from data.
fn along(ctx: &ParsingContext<'_>, node: &NodeProto) -> TractResult<Option<Vec<Along>>> {
    let [_, start, end, more @ ..] = &*node.input else {
        return Ok(None);
    };
    let around = Around::new(ctx);
    if around.constant(start)?.is_some() && around.constant(end)?.is_some() {
        return Ok(None);
    }
    let given = |index: usize| more.get(index).filter(|name| !name.is_empty());
    let axes = match given(0) {
        Some(axes) => around.constant(axes)?,
        None => {
            let starts = around.numbers(start, None)?;
            starts.map(|starts| (0..).take(starts.len()).collect())
        }
    };
    let Some(axes) = axes else {
        return Ok(None);
    };
    let steps = match given(1) {
        Some(steps) => around.constant(steps)?,
        None => Some(vec![1; axes.len()]),
    };
    let Some(steps) = steps.filter(|steps| steps.len() == axes.len() && !steps.contains(&0)) else {
        return Ok(None);
    };
    let bounds = |name| -> TractResult<_> {
        let found = around.numbers(name, Some(axes.len()))?;
        let found = found.filter(|found| found.len() == axes.len());
        Ok(found.unwrap_or_else(|| vec![Number::Unknown; axes.len()]))
    };
    let bounds = std::iter::zip(bounds(start)?, bounds(end)?);
    let mut along = vec![];
    for ((&axis, &step), bounds) in std::iter::zip(std::iter::zip(&axes, &steps), bounds) {
        let is_one = match bounds {
            (Number::Above(start, a), Number::Above(end, b)) => {
                step > 0 && start == end && a.checked_add(1) == Some(b)
            }
            (_, Number::Known(end) | Number::AtLeast(end)) => step >= BEYOND && end >= BEYOND,
            _ => false,
        };
        let taken = match bounds {
            (Number::Known(start), Number::Known(end)) => Taken::Known(start, end),
            (Number::Known(start), Number::AtLeast(BEYOND..)) => Taken::Known(start, i64::MAX),
            _ if is_one && around.is_squeezed(&node.output[0], axis)? => Taken::Element,
            _ => Taken::Part,
        };
        along.push(Along { axis, step, taken });
    }
    Ok(Some(along))
}

/// A Slice as ONNX writes it, before its bounds are known or known to come from data.
#[derive(Clone, Debug)]
struct OnnxSlice {
    /// How tract reads it.
    tracts: Box<dyn InferenceOp>,
    along: Vec<Along>,
    sizes: Minted,
}

never_equal!(OnnxSlice);

/// How an axis of known bounds is sliced.
enum Static {
    Whole,
    /// From one position to another, then each so many.
    Range(usize, usize, i64),
}

impl Along {
    /// How it slices an axis of a size, if that is known.
    fn of(&self, size: &TDim) -> Option<Static> {
        let Taken::Known(start, end) = self.taken else {
            return None;
        };
        if start == 0 && end >= BEYOND && self.step == 1 {
            return Some(Static::Whole);
        }
        let size = size.to_i64().ok()?;
        let (first, count) = crate::part::positions(start, end, self.step, size);
        let Some(last) = count.checked_sub(1) else {
            return Some(Static::Range(0, 0, 1));
        };
        let last = first + last * self.step;
        let (from, to) = (first.min(last), first.max(last) + 1);
        let bounds = usize::try_from(from).ok().zip(usize::try_from(to).ok());
        bounds.map(|(from, to)| Static::Range(from, to, self.step))
    }

    fn size(&self, axis: usize, before: &TDim, sizes: &Minted) -> TDim {
        match (self.taken, self.of(before)) {
            (Taken::Element, _) => 1.to_dim(),
            (_, Some(Static::Whole)) => before.clone(),
            (_, Some(Static::Range(from, to, step))) => (to - from)
                .div_ceil(usize::try_from(step.unsigned_abs()).unwrap_or(usize::MAX))
                .to_dim(),
            (_, None) => sizes.of(axis),
        }
    }
}

impl OnnxSlice {
    /// The sizes of the output.
    fn shape(&self, mut shape: TVec<TDim>) -> TractResult<TVec<TDim>> {
        for along in &self.along {
            let axis = axis(along.axis, shape.len())?;
            shape[axis] = along.size(axis, &shape[axis], &self.sizes);
        }
        Ok(shape)
    }
}

impl Op for OnnxSlice {
    fn name(&self) -> StaticName {
        "Slice".into()
    }

    not_a_typed_op!();
}

impl EvalOp for OnnxSlice {
    not_out_of_plan!();
}

impl InferenceOp for OnnxSlice {
    fn infer(
        &mut self,
        inputs: TVec<&InferenceFact>,
        outputs: TVec<&InferenceFact>,
        observed: TVec<&InferenceFact>,
    ) -> TractResult<Facts> {
        let is_known = inputs[1..3].iter().all(|fact| fact.value.is_concrete());
        let data = inputs[0].datum_type.concretize();
        match data.zip(inputs[0].shape.concretize()) {
            Some((of, shape)) if !is_known => Ok(inferred(&inputs, of, self.shape(shape)?)),
            _ => self.tracts.infer(inputs, outputs, observed),
        }
    }

    fn infer_facts(
        &mut self,
        inputs: TVec<&InferenceFact>,
        outputs: TVec<&InferenceFact>,
        observed: TVec<&InferenceFact>,
    ) -> TractResult<Facts> {
        self.infer(inputs, outputs, observed)
    }

    fn to_typed(
        &self,
        source: &InferenceModel,
        node: &InferenceNode,
        target: &mut TypedModel,
        mapping: &HashMap<OutletId, OutletId>,
    ) -> TractResult<TVec<OutletId>> {
        let [data, start, end] = [0, 1, 2].map(|input| mapping[&node.inputs[input]]);
        let is_known = |outlet| TractResult::Ok(target.outlet_fact(outlet)?.konst.is_some());
        if is_known(start)? && is_known(end)? {
            return self.tracts.to_typed(source, node, target, mapping);
        }
        let mut wire = data;
        for (at, along) in self.along.iter().enumerate() {
            let fact = target.outlet_fact(wire)?;
            let axis = axis(along.axis, fact.rank())?;
            let before = fact.shape[axis].clone();
            let name = |target: &TypedModel, name: &str| {
                let name = format!("{}.axis{axis}.{name}", node.name);
                target.unique_name(name).into_owned()
            };
            if along.taken == Taken::Element {
                let bound = name(target, "bound");
                let index = target.wire_node(bound, Slice::new(0, at, at + 1), &[start])?;
                let scalar = name(target, "scalar");
                let index = target.wire_node(scalar, AxisOp::Rm(0), &index)?[0];
                let index = wire_cast(target, name(target, "index"), index, i64::datum_type())?;
                let element = name(target, "element");
                let element = target.wire_node(element, Gather::new(axis), &[wire, index])?;
                wire = target.wire_node(name(target, "of"), AxisOp::Add(axis), &element)?[0];
                continue;
            }
            match along.of(&before) {
                Some(Static::Whole) => {}
                Some(Static::Range(from, to, step)) => {
                    let slice = Slice::new(axis, from, to);
                    wire = target.wire_node(name(target, "slice"), slice, &[wire])?[0];
                    if step != 1 {
                        let stride = Downsample::new(axis, isize::try_from(step)?, 0);
                        wire = target.wire_node(name(target, "stride"), stride, &[wire])?[0];
                    }
                }
                None => {
                    let part = Part {
                        axis,
                        step: along.step,
                        at,
                        of: self.along.len(),
                        size: self.sizes.of(axis),
                    };
                    wire = target.wire_node(name(target, "part"), part, &[wire, start, end])?[0];
                }
            }
        }
        let name = target.unique_name(node.name.as_str()).into_owned();
        target.wire_node(
            name,
            tract_onnx::tract_core::ops::identity::Identity,
            &[wire],
        )
    }

    as_op!();
}
