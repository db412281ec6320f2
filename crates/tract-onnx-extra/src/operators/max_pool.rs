//! MaxPool. tract's makes finite numbers of -∞, drops NaN, and takes most windows element by element.
//!
//! The maximum of a window is that along one axis of those along the other axes, so each axis takes
//! its turn, over rows that lie together:
//!
//! ```text
//! MaxPool<[2,3]>(x)  =  MaxPool<[1,3]>(MaxPool<[2,1]>(x))
//! ```

use std::borrow::Cow;

use tract_onnx::model::ParsingContext;
use tract_onnx::pb::NodeProto;
use tract_onnx::tract_core::ops::cnn::{MaxPool as Core, PoolSpec};
use tract_onnx::tract_hir::internal::*;

use crate::delegate::{Delegate, Hook};
use crate::node::{check_domain, parse_with_tract};

/// Parses a MaxPool.
pub(crate) fn parse(
    ctx: &ParsingContext<'_>,
    node: &NodeProto,
) -> TractResult<(Box<dyn InferenceOp>, Vec<String>)> {
    check_domain(node)?;
    let (upstream, captured) = parse_with_tract(&node.op_type, ctx, node)?;
    Ok((Delegate::boxed(upstream, AlongAxes), captured))
}

#[derive(Clone, Debug)]
struct AlongAxes;

impl Hook for AlongAxes {
    fn to_typed(
        &self,
        upstream: &dyn InferenceOp,
        source: &InferenceModel,
        node: &InferenceNode,
        target: &mut TypedModel,
        mapping: &HashMap<OutletId, OutletId>,
    ) -> TractResult<TVec<OutletId>> {
        let outlets = upstream.to_typed(source, node, target, mapping)?;
        let is_quantized = target.outlet_fact(outlets[0])?.datum_type.is_quantized();
        let wired = target.node_mut(outlets[0].node);
        if let Some(core) = wired.op_as::<Core>().filter(|_| !is_quantized) {
            wired.op = Box::new(MaxPool {
                spec: core.pool_spec.clone(),
                places: core.with_index_outputs,
            });
        }
        Ok(outlets)
    }
}

/// The maxima of windows, and perhaps their places among the elements of a channel.
#[derive(Clone, Debug, Hash, PartialEq, Eq)]
struct MaxPool {
    spec: PoolSpec,
    /// The type of the places.
    places: Option<DatumType>,
}

impl Op for MaxPool {
    fn name(&self) -> StaticName {
        "MaxPool".into()
    }

    fn info(&self) -> TractResult<Vec<String>> {
        Ok(self.spec.info())
    }

    op_as_typed_op!();
}

impl EvalOp for MaxPool {
    op_out_of_plan!();

    fn eval(&self, _ctx: &EvalContext<'_>, inputs: TVec<TValue>) -> TractResult<TVec<TValue>> {
        let input = args_1!(inputs);
        match self.places {
            None => dispatch_numbers!(maxima(input.datum_type())(&self.spec, &input)),
            Some(_) => dispatch_numbers!(placed_maxima(input.datum_type())(self, &input)),
        }
    }
}

impl TypedOp for MaxPool {
    fn output_facts(&self, inputs: &[&TypedFact]) -> TractResult<TVec<TypedFact>> {
        let mut facts = self.spec.output_facts(inputs)?;
        let places = self.places.map(|it| it.fact(facts[0].shape.clone()));
        facts.extend(places);
        Ok(facts)
    }

    as_op!();
}

fn maxima<T: Datum + Number>(spec: &PoolSpec, input: &Tensor) -> TractResult<TVec<TValue>> {
    let values = input.try_as_plain_ram()?.as_slice::<T>()?;
    let (sizes, values) = pool(spec, input.shape(), values.into())?;
    Ok(tvec!(Tensor::from_shape(&sizes, &values)?.into_tvalue()))
}

fn placed_maxima<T: Datum + Number>(op: &MaxPool, input: &Tensor) -> TractResult<TVec<TValue>> {
    let values = input.try_as_plain_ram()?.as_slice::<T>()?;
    let shape = op.spec.data_format.shape(TVec::from(input.shape()))?;
    let channel = shape.hw_dims().iter().product::<usize>().max(1);
    let placed = std::iter::zip(values, (0..channel as i64).cycle());
    let placed = placed.map(|(&value, place)| Placed { value, place });
    let placed = placed.collect::<Vec<_>>();
    let (sizes, placed) = pool(&op.spec, input.shape(), placed.into())?;
    let values: Vec<T> = placed.iter().map(|it| it.value).collect();
    let places: Vec<i64> = placed.iter().map(|it| it.place).collect();
    let places = Tensor::from_shape(&sizes, &places)?;
    let places = places.cast_to_dt(op.places.unwrap_or(i64::datum_type()))?;
    Ok(tvec!(
        Tensor::from_shape(&sizes, &values)?.into_tvalue(),
        places.into_owned().into_tvalue()
    ))
}

/// The window along an axis, in elements.
struct Window {
    size: usize,
    stride: usize,
    dilation: usize,
    /// The elements that stand before the first one of the input.
    padding: usize,
}

/// Returns the sizes of the output, and the maxima of all windows.
fn pool<E: Element>(
    spec: &PoolSpec,
    sizes: &[usize],
    mut values: Cow<'_, [E]>,
) -> TractResult<(TVec<usize>, Vec<E>)> {
    let shape = spec.data_format.shape(TVec::from(sizes))?;
    let first = shape.h_axis();
    let axes = spec.computed_padding(shape.hw_dims());
    let mut sizes = shape.shape.clone();
    for (axis, sized) in axes.iter().enumerate() {
        let window = Window {
            size: spec.kernel_shape[axis],
            stride: spec.stride(axis),
            dilation: spec.dilation(axis),
            padding: sized.pad_before,
        };
        let is_whole = sized.pad_before + sized.pad_after == 0;
        if window.size == 1 && window.stride == 1 && is_whole {
            continue;
        }
        let place = first + axis;
        let extent = Extent {
            size: sizes[place],
            pooled: sized.convoluted,
            inner: sizes[place + 1..].iter().product(),
        };
        sizes[place] = extent.pooled;
        let outer: usize = sizes[..place].iter().product();
        let mut pooled = vec![E::LEAST; outer * extent.pooled * extent.inner];
        let blocks = values.chunks_exact((extent.size * extent.inner).max(1));
        let pooled_blocks = pooled.chunks_exact_mut((extent.pooled * extent.inner).max(1));
        for (block, pooled) in std::iter::zip(blocks, pooled_blocks) {
            along_axis(block, pooled, &extent, &window);
        }
        values = pooled.into();
    }
    Ok((sizes, values.into_owned()))
}

/// An axis before and after pooling, and the elements of a step along it.
struct Extent {
    size: usize,
    pooled: usize,
    inner: usize,
}

/// Pools one block, whose first axis it is.
fn along_axis<E: Element>(block: &[E], pooled: &mut [E], extent: &Extent, window: &Window) {
    let Extent { size, inner, .. } = *extent;
    let stride = window.stride;
    for tap in (0..window.size).map(|index| index * window.dilation) {
        // The windows of which this tap lies inside: 0 <= index * stride + tap - padding < size.
        let first = window.padding.saturating_sub(tap).div_ceil(stride);
        let end = (size + window.padding).saturating_sub(tap).div_ceil(stride);
        let end = end.min(extent.pooled);
        if first >= end {
            continue;
        }
        let taps = &block[(first * stride + tap - window.padding) * inner..];
        let pooled = &mut pooled[first * inner..end * inner];
        match (inner, stride) {
            (_, 1) => keep_greatest(pooled, taps.iter()),
            (1, _) => keep_greatest(pooled, taps.iter().step_by(stride)),
            _ => {
                let rows = taps.chunks(stride * inner);
                for (pooled, row) in std::iter::zip(pooled.chunks_exact_mut(inner), rows) {
                    keep_greatest(pooled, row.iter());
                }
            }
        }
    }
}

fn keep_greatest<'a, E: Element + 'a>(kept: &mut [E], values: impl Iterator<Item = &'a E>) {
    for (kept, value) in std::iter::zip(kept, values) {
        *kept = if kept.stays_beside(*value) {
            *kept
        } else {
            *value
        };
    }
}

/// What a window has a greatest one of.
trait Element: Copy {
    /// The one that gives way to any.
    const LEAST: Self;

    /// Whether it is the greater one, or as great.
    fn stays_beside(self, other: Self) -> bool;
}

/// A number with an order.
trait Number: Element + PartialOrd {}

/// A number and its place. Of equal ones the first counts.
#[derive(Clone, Copy)]
struct Placed<T> {
    value: T,
    place: i64,
}

impl<T: Number> Element for Placed<T> {
    const LEAST: Self = Self {
        value: T::LEAST,
        place: i64::MAX,
    };

    fn stays_beside(self, other: Self) -> bool {
        match self.value == other.value {
            true => self.place < other.place,
            false => self.value.stays_beside(other.value),
        }
    }
}

macro_rules! numbers {
    ($least:ident, $is_nan:expr, $($number:ty)*) => {$(
        impl Element for $number {
            const LEAST: Self = Self::$least;

            fn stays_beside(self, other: Self) -> bool {
                // Without a branch, which data would mispredict.
                (self >= other) | $is_nan(self)
            }
        }

        impl Number for $number {}
    )*};
}

numbers!(NEG_INFINITY, |it: Self| it.is_nan(), f16 f32 f64);
numbers!(MIN, |_| false, i8 i16 i32 i64 u8 u16 u32 u64);
