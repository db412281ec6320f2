//! Slices whose bounds come from data.

use tract_onnx::model::{ParsingContext, optional_inputs};
use tract_onnx::pb::NodeProto;
use tract_onnx::tract_core::ops::Downsample;
use tract_onnx::tract_core::ops::array::{Gather, Slice};
use tract_onnx::tract_core::ops::change_axes::AxisOp;
use tract_onnx::tract_core::ops::identity::Identity;
use tract_onnx::tract_hir::internal::*;

use super::around::{Around, BEYOND, Number};
use super::late;
use super::minted::{Minted, axis, inferred};
use super::or_tracts::{FromData, OrTracts};
use super::part::{Part, positions};
use crate::node::Facts;
use crate::wire::wire_cast;

/// Parses a Slice: like tract if its bounds turn out to be known, otherwise as a [`Part`] along
/// each axis, or as a Gather if it takes one element that is then squeezed.
pub(crate) fn parse(
    ctx: &ParsingContext<'_>,
    node: &NodeProto,
) -> TractResult<(Box<dyn InferenceOp>, Vec<String>)> {
    let (tracts, captured) = late::parse(ctx, node)?;
    let Some(along) = along(ctx, node)? else {
        return Ok((tracts, captured));
    };
    let op = OnnxSlice {
        along,
        steps: optional_inputs(node).nth(4).flatten(),
        sizes: Minted::new(ctx),
    };
    Ok((Box::new(OrTracts { tracts, op }), captured))
}

/// Facts from the graph about a Slice along an axis.
#[derive(Clone, Copy, Debug)]
struct Along {
    axis: i64,
    bounds: Bounds,
    /// Whether the end is the start plus one.
    is_next: bool,
    /// Whether all readers squeeze the axis.
    is_squeezed: bool,
}

/// The start, the end and the step, where known.
type Bounds = [Option<i64>; 3];

/// The kind of slice along an axis.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Taken {
    /// The element at the start; the Squeeze fails otherwise.
    Element,
    Whole,
    /// Start, end and step.
    Range(usize, usize, i64),
    /// Between the bounds at run time.
    Part(i64),
}

/// Facts about the bounds of a Slice that are not constants.
fn along(ctx: &ParsingContext<'_>, node: &NodeProto) -> TractResult<Option<Vec<Along>>> {
    let [_, start, end, more @ ..] = &*node.input else {
        return Ok(None);
    };
    let around = Around::new(ctx);
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
    let numbers = |name| -> TractResult<_> {
        let found = around.numbers(name, Some(axes.len()))?;
        let found = found.filter(|found| found.len() == axes.len());
        Ok(found.unwrap_or_else(|| vec![Number::Unknown; axes.len()]))
    };
    let (starts, ends) = (numbers(start)?, numbers(end)?);
    let steps = match given(1) {
        Some(steps) => numbers(steps)?,
        None => vec![Number::Known(1); axes.len()],
    };
    let known = |number| match number {
        Number::Known(number) => Some(number),
        // A larger bound means the same.
        Number::AtLeast(BEYOND..) => Some(BEYOND),
        _ => None,
    };
    let along = axes.iter().enumerate().map(|(at, &axis)| {
        Ok(Along {
            axis,
            bounds: [starts[at], ends[at], steps[at]].map(known),
            is_next: match (starts[at], ends[at]) {
                (Number::Above(start, a), Number::Above(end, b)) => {
                    start == end && a.checked_add(1) == Some(b)
                }
                _ => false,
            },
            is_squeezed: around.is_squeezed(&node.output[0], axis)?,
        })
    });
    along.collect::<TractResult<_>>().map(Some)
}

/// A Slice before it is known whether its bounds come from data.
#[derive(Clone, Debug)]
struct OnnxSlice {
    along: Vec<Along>,
    /// The input of the steps.
    steps: Option<usize>,
    sizes: Minted,
}

impl Along {
    /// The kind of slice for an axis of this size; `None` if the step is unknown.
    fn taken(&self, bounds: Bounds, size: &TDim) -> TractResult<Option<Taken>> {
        let [start, end, Some(step)] = bounds else {
            return Ok(None);
        };
        ensure!(step != 0, "its step along axis {} is 0", self.axis);
        let to_end = end.is_some_and(|end| end >= BEYOND);
        let is_one = self.is_next && step > 0 || to_end && step >= BEYOND;
        if is_one && self.is_squeezed && start.is_none() {
            return Ok(Some(Taken::Element));
        }
        if start == Some(0) && to_end && step == 1 {
            return Ok(Some(Taken::Whole));
        }
        let (Some((start, end)), Ok(size)) = (start.zip(end), size.to_i64()) else {
            return Ok(Some(Taken::Part(step)));
        };
        let (first, count) = positions(start, end, step, size);
        if count == 0 {
            return Ok(Some(Taken::Range(0, 0, 1)));
        }
        let last = first + (count - 1) * step;
        let from = usize::try_from(first.min(last))?;
        let to = usize::try_from(first.max(last) + 1)?;
        let step = if count == 1 { 1 } else { step };
        Ok(Some(Taken::Range(from, to, step)))
    }
}

/// The known value of an input.
type Value = Option<Arc<Tensor>>;

impl OnnxSlice {
    /// The axes with their kinds of slice, given the known values of starts, ends and steps; `None`
    /// to slice like tract.
    fn taken(
        &self,
        values: &[Value; 3],
        shape: &[TDim],
    ) -> TractResult<Option<Vec<(usize, Taken)>>> {
        let is_given = |value: &Value| value.is_some();
        if is_given(&values[0]) && is_given(&values[1]) {
            return Ok(None);
        }
        let known = |value: &Value, at: usize| {
            let value = value.as_ref()?.cast_to::<i64>().ok()?;
            let value = value.to_plain_array_view::<i64>().ok()?;
            value.iter().nth(at).copied()
        };
        let taken = self.along.iter().enumerate().map(|(at, along)| {
            let mut bounds = along.bounds;
            for (bound, value) in std::iter::zip(&mut bounds, values) {
                *bound = known(value, at).or(*bound);
            }
            let axis = axis(along.axis, shape.len())?;
            let taken = along.taken(bounds, &shape[axis])?;
            Ok(taken.map(|taken| (axis, taken)))
        });
        taken.collect()
    }

    /// The output's sizes.
    fn shape(&self, taken: &[(usize, Taken)], mut shape: TVec<TDim>) -> TractResult<TVec<TDim>> {
        for &(axis, taken) in taken {
            match taken {
                Taken::Element => shape[axis] = 1.to_dim(),
                Taken::Whole => {}
                Taken::Range(from, to, step) => {
                    let step = usize::try_from(step.unsigned_abs())?;
                    shape[axis] = (to - from).div_ceil(step).to_dim();
                }
                Taken::Part(_) => shape[axis] = self.sizes.of(axis),
            }
        }
        Ok(shape)
    }

    /// The starts, ends and steps.
    fn bounds(&self, value: impl Fn(usize) -> TractResult<Value>) -> TractResult<[Value; 3]> {
        let steps = self.steps.map_or(Ok(None), &value)?;
        Ok([value(1)?, value(2)?, steps])
    }
}

impl FromData for OnnxSlice {
    fn name(&self, _tracts: &dyn InferenceOp) -> StaticName {
        "Slice".into()
    }

    fn infer(
        &self,
        _tracts: &mut dyn InferenceOp,
        inputs: &TVec<&InferenceFact>,
        outputs: &TVec<&InferenceFact>,
    ) -> TractResult<Option<Facts>> {
        let values = self.bounds(|input| Ok(inputs[input].value.concretize()))?;
        let data = inputs[0].datum_type.concretize();
        let Some((of, shape)) = data.zip(inputs[0].shape.concretize()) else {
            return Ok(None);
        };
        let Some(taken) = self.taken(&values, &shape)? else {
            return Ok(None);
        };
        Ok(Some(inferred(
            inputs,
            outputs,
            of,
            self.shape(&taken, shape)?,
        )))
    }

    fn wire(
        &self,
        _tracts: &dyn InferenceOp,
        node: &str,
        target: &mut TypedModel,
        inputs: &[OutletId],
    ) -> TractResult<Option<TVec<OutletId>>> {
        let [data, start, end] = [0, 1, 2].map(|input| inputs[input]);
        let values = self.bounds(|input| Ok(target.outlet_fact(inputs[input])?.konst.clone()))?;
        let shape = target.outlet_fact(data)?.shape.to_tvec();
        let Some(taken) = self.taken(&values, &shape)? else {
            return Ok(None);
        };
        let of = taken.len();
        let mut wire = data;
        for (at, (axis, taken)) in taken.into_iter().enumerate() {
            let name = |target: &TypedModel, name: &str| {
                let name = format!("{node}.axis{axis}.{name}");
                target.unique_name(name).into_owned()
            };
            match taken {
                Taken::Element => {
                    let bound = name(target, "bound");
                    let index = target.wire_node(bound, Slice::new(0, at, at + 1), &[start])?;
                    let scalar = name(target, "scalar");
                    let index = target.wire_node(scalar, AxisOp::Rm(0), &index)?[0];
                    let index = wire_cast(target, name(target, "index"), index, i64::datum_type())?;
                    let element = name(target, "element");
                    let element = target.wire_node(element, Gather::new(axis), &[wire, index])?;
                    wire = target.wire_node(name(target, "of"), AxisOp::Add(axis), &element)?[0];
                }
                Taken::Whole => {}
                Taken::Range(from, to, step) => {
                    let slice = Slice::new(axis, from, to);
                    wire = target.wire_node(name(target, "slice"), slice, &[wire])?[0];
                    if step != 1 {
                        let stride = Downsample::new(axis, isize::try_from(step)?, 0);
                        wire = target.wire_node(name(target, "stride"), stride, &[wire])?[0];
                    }
                }
                Taken::Part(step) => {
                    let size = self.sizes.of(axis);
                    let part = Part {
                        axis,
                        step,
                        at,
                        of,
                        size,
                    };
                    wire = target.wire_node(name(target, "part"), part, &[wire, start, end])?[0];
                }
            }
        }
        let name = target.unique_name(node).into_owned();
        target.wire_node(name, Identity, &[wire]).map(Some)
    }
}
