//! MaxPool and AveragePool. tract takes most windows element by element; its MaxPool makes finite
//! numbers of -∞, and drops NaN.

use std::any::Any;
use std::borrow::Cow;

use tract_onnx::model::ParsingContext;
use tract_onnx::pb::NodeProto;
use tract_onnx::tract_core::ops::cnn::{MaxPool as Maxima, PaddingSpec, PoolSpec, SumPool};
use tract_onnx::tract_hir::internal::*;
use tract_onnx::tract_hir::ops::cnn::{HirMaxPool, HirSumPool};
use tract_onnx::tract_hir::ops::expandable::Expansion;

use crate::faster::sliding::{
    Axis, Fold, at_most, most_windows, slide, slide_floats, window_facts,
};
use crate::operator::{Inferred, Inferring, Operator, Parsed, Wired, Wiring, over_tract};
use crate::typed_op::{Stateless, Typed};

/// Parses a MaxPool or an AveragePool.
pub(crate) fn parse(ctx: &ParsingContext<'_>, node: &NodeProto) -> Parsed {
    over_tract(ctx, node, Sliding)
}

/// The most taps of a window whose maximum is not taken along one axis after the other.
const MAX_TAPS: usize = 12;

#[derive(Clone, Debug)]
struct Sliding;

impl Operator for Sliding {
    fn infer(&self, node: &mut Inferring<'_>) -> Inferred {
        let sizes = node.inputs[0].shape.concretize();
        let most = match node.upstream().and_then(pool_spec).zip(sizes) {
            Some((spec, sizes)) => most_windows(spec, &sizes)?,
            None => tvec![],
        };
        rule_if!(!most.is_empty());
        // tract would compare other expressions for the same size.
        let without_sizes = node.outputs.iter().map(|fact| InferenceFact {
            shape: ShapeFactoid::open(tvec![]),
            ..(*fact).clone()
        });
        let without_sizes: TVec<InferenceFact> = without_sizes.collect();
        let unknown = without_sizes.iter().collect();
        let mut facts = node.by_upstream_of(node.inputs.clone(), unknown)?;
        for fact in &mut facts.1 {
            let Some(mut sizes) = fact.shape.concretize() else {
                continue;
            };
            for (axis, most) in &most {
                sizes[*axis] = at_most(sizes[*axis].clone(), most.clone());
            }
            fact.shape = sizes.into();
        }
        Ok(Some(facts))
    }

    fn wire(&self, node: &mut Wiring<'_>) -> Wired {
        let outlets = node.by_upstream()?;
        let datum_type = node.fact(outlets[0])?.datum_type;
        let (target, id) = (&mut *node.model, outlets[0].node);
        let wired = target.node_mut(id);
        if let Some(op) = wired
            .op_as::<Maxima>()
            .filter(|_| !datum_type.is_quantized())
        {
            wired.op = Box::new(Typed(MaxPool {
                spec: op.pool_spec.clone(),
                places: op.with_index_outputs,
            }));
        } else if let Some(op) = wired.op_as::<SumPool>().filter(|_| datum_type.is::<f32>()) {
            wired.op = Box::new(Typed(AveragePool {
                spec: op.pool_spec.clone(),
                counts_padding: op.count_include_pad,
            }));
        }
        let wired = target.node(id);
        let facts = wired.op.output_facts(&target.node_input_facts(id)?)?;
        for (output, fact) in std::iter::zip(&mut target.node_mut(id).outputs, facts) {
            output.fact = fact;
        }
        Ok(Some(outlets))
    }
}

/// The windows of a pool of tract's.
fn pool_spec(upstream: &dyn InferenceOp) -> Option<&PoolSpec> {
    let expansion = upstream.as_op().downcast_ref::<Box<dyn Expansion>>()?;
    let expansion: &dyn Any = &**expansion;
    let of_maxima = expansion
        .downcast_ref()
        .map(|op: &HirMaxPool| &op.pool_spec);
    of_maxima.or_else(|| Some(&expansion.downcast_ref::<HirSumPool>()?.pool_spec))
}

/// The maxima of windows, and perhaps their places among the elements of a channel.
#[derive(Clone, Debug, Hash, PartialEq, Eq)]
struct MaxPool {
    spec: PoolSpec,
    /// The type of the places.
    places: Option<DatumType>,
}

impl Stateless for MaxPool {
    const NAME: &str = "MaxPool";

    fn info(&self) -> TractResult<Vec<String>> {
        Ok(self.spec.info())
    }

    fn eval(&self, _ctx: &EvalContext<'_>, inputs: TVec<TValue>) -> TractResult<TVec<TValue>> {
        let input = args_1!(inputs);
        match self.places {
            None => dispatch_numbers!(maxima(input.datum_type())(&self.spec, &input)),
            Some(_) => dispatch_numbers!(placed_maxima(input.datum_type())(self, &input)),
        }
    }

    fn output_facts(&self, inputs: &[&TypedFact]) -> TractResult<TVec<TypedFact>> {
        let mut facts = window_facts(&self.spec, inputs)?;
        let places = self.places.map(|it| it.fact(facts[0].shape.clone()));
        facts.extend(places);
        Ok(facts)
    }
}

fn maxima<T: Datum + Number>(spec: &PoolSpec, input: &Tensor) -> TractResult<TVec<TValue>> {
    let values = input.try_as_plain_ram()?.as_slice::<T>()?;
    let (sizes, values) = pool(spec, input.shape(), values)?;
    Ok(tvec!(Tensor::from_shape(&sizes, &values)?.into_tvalue()))
}

fn placed_maxima<T: Datum + Number>(op: &MaxPool, input: &Tensor) -> TractResult<TVec<TValue>> {
    let values = input.try_as_plain_ram()?.as_slice::<T>()?;
    let shape = op.spec.data_format.shape(TVec::from(input.shape()))?;
    let channel = shape.hw_dims().iter().product::<usize>().max(1);
    let placed = std::iter::zip(values, (0..channel as i64).cycle());
    let placed = placed.map(|(&value, place)| Placed { value, place });
    let placed = placed.collect::<Vec<_>>();
    let (sizes, placed) = pool(&op.spec, input.shape(), &placed)?;
    let values: Vec<T> = placed.iter().map(|it| it.value).collect();
    let places: Vec<i64> = placed.iter().map(|it| it.place).collect();
    let places = Tensor::from_shape(&sizes, &places)?;
    let places = places.cast_to_dt(op.places.unwrap_or(i64::datum_type()))?;
    Ok(tvec!(
        Tensor::from_shape(&sizes, &values)?.into_tvalue(),
        places.into_owned().into_tvalue()
    ))
}

/// Returns the sizes of the output, and the maxima of all windows.
fn pool<E: Element>(
    spec: &PoolSpec,
    sizes: &[usize],
    values: &[E],
) -> TractResult<(TVec<usize>, Vec<E>)> {
    let shape = spec.data_format.shape(TVec::from(sizes))?;
    let axes = Axis::all(spec, shape.hw_dims())?;
    let mut sizes = shape.shape.clone();
    let first = shape.h_axis();
    let mut maxima = Cow::Borrowed(values);
    let mut fold = |axes: &[Axis]| {
        for (size, axis) in std::iter::zip(&mut sizes[first..], axes) {
            *size = axis.output;
        }
        let mut folded = vec![E::LEAST; sizes.iter().product()];
        slide(axes, &maxima, &mut folded, &Greatest)?;
        maxima = folded.into();
        TractResult::Ok(())
    };
    if axes.iter().map(|axis| axis.window).product::<usize>() <= MAX_TAPS {
        fold(&axes)?;
    } else {
        // The maximum of a window is that along one axis of those along the others.
        for (index, axis) in axes.iter().enumerate() {
            let others = axes.iter().enumerate();
            let others = others.map(|(other, it)| match other < index {
                true => Axis::whole(it.output),
                false => Axis::whole(it.input),
            });
            let mut along: TVec<Axis> = others.collect();
            along[index] = *axis;
            fold(&along)?;
        }
    }
    Ok((sizes, maxima.into_owned()))
}

/// Keeps the greatest element of a window.
struct Greatest;

impl<E: Element> Fold<E> for Greatest {
    const PADDING: E = E::LEAST;

    fn first(&self, _plane: usize) -> E {
        E::LEAST
    }

    fn taps(&self, _plane: usize) -> impl Iterator<Item = impl Fn(E, E) -> E> + Clone {
        std::iter::repeat(|kept: E, other: E| {
            if kept.stays_beside(other) {
                kept
            } else {
                other
            }
        })
    }
}

/// What a window has a greatest one of.
trait Element: Copy + Send + Sync {
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

/// The means of windows of floats.
#[derive(Clone, Debug, Hash, PartialEq, Eq)]
struct AveragePool {
    spec: PoolSpec,
    /// Whether the padding counts as zeros.
    counts_padding: bool,
}

impl Stateless for AveragePool {
    const NAME: &str = "AveragePool";

    fn info(&self) -> TractResult<Vec<String>> {
        Ok(self.spec.info())
    }

    fn eval(&self, _ctx: &EvalContext<'_>, inputs: TVec<TValue>) -> TractResult<TVec<TValue>> {
        let input = args_1!(inputs);
        let means = slide_floats(&self.spec, &input, |axes| Mean {
            counts: self.counts(axes),
        })?;
        Ok(tvec!(means.into_tvalue()))
    }

    fn output_facts(&self, inputs: &[&TypedFact]) -> TractResult<TVec<TypedFact>> {
        window_facts(&self.spec, inputs)
    }
}

impl AveragePool {
    /// Returns how many elements each window of a plane has.
    fn counts(&self, axes: &[Axis]) -> Vec<f32> {
        let mut counts = vec![1.0];
        for (index, axis) in axes.iter().enumerate() {
            let counted = match (&self.spec.padding, self.counts_padding) {
                (_, false) => axis.before..axis.before + axis.input,
                // A last window may reach beyond the padding.
                (PaddingSpec::ExplicitOnnxPool(_, after, _), true) => {
                    0..axis.before + axis.input + after[index]
                }
                (_, true) => 0..usize::MAX,
            };
            let along = (0..axis.output).map(|window| axis.count(window, &counted) as f32);
            let along: Vec<f32> = along.collect();
            let all = counts
                .iter()
                .flat_map(|outer| along.iter().map(move |it| outer * it));
            counts = all.collect();
        }
        counts
    }
}

/// Divides the sum of a window by its elements.
struct Mean {
    counts: Vec<f32>,
}

impl Fold<f32> for Mean {
    const PADDING: f32 = 0.0;

    fn first(&self, _plane: usize) -> f32 {
        0.0
    }

    fn taps(&self, _plane: usize) -> impl Iterator<Item = impl Fn(f32, f32) -> f32> + Clone {
        std::iter::repeat(|sum: f32, element: f32| sum + element)
    }

    fn finish(&self, plane: &mut [f32]) {
        for (sum, count) in std::iter::zip(plane, &self.counts) {
            *sum /= count;
        }
    }
}
