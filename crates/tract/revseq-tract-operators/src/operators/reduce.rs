//! Reductions.
//!
//! tract's sum of no elements panics, its maximum of none, or of -∞ alone, is a finite number, and its
//! sums of integers have 32 bits. Other reductions of at least one float are tract's own until a model is
//! optimised, so that its passes know them, and are computed by vectors (`faster/rows.rs`). Where an axis may be
//! empty, an operator of this crate's stands from the beginning.
//!
//! ```text
//! ReduceSum(x: [N, 4], axes [0])  →  Reduced; with N = 0, zeros
//! ```

use tract_onnx::model::{ParsingContext, optional_inputs};
use tract_onnx::pb::NodeProto;
use tract_onnx::tract_core::ops::binary::TypedBinOp;
use tract_onnx::tract_core::ops::element_wise::ElementWiseOp;
use tract_onnx::tract_core::ops::math;
use tract_onnx::tract_core::ops::nn::{Reduce, Reducer as Core};
use tract_onnx::tract_hir::internal::tract_itertools::Itertools;
use tract_onnx::tract_hir::internal::tract_ndarray::Dimension as _;
use tract_onnx::tract_hir::internal::*;
use tract_onnx::tract_hir::ops::nn::Reducer;

use crate::data_sizes::axis;
use crate::dims::{is_size, sizes};
use crate::faster::rows::{Fold, Layout, Real};
use crate::operator::{Inferred, Inferring, Operator, Parsed, Wired, Wiring, over_tract};
use crate::typed_op::{Stateless, Typed};

/// Parses a reduction.
pub(crate) fn parse(ctx: &ParsingContext<'_>, node: &NodeProto) -> Parsed {
    let is_set = |name: &str, or: i64| -> TractResult<bool> {
        Ok(node.get_attr_opt(name)?.unwrap_or(or) == 1)
    };
    let takes_last = is_set("select_last_index", 0)?;
    let reducer = match node.op_type.as_str() {
        "ArgMax" => Reducer::ArgMax(takes_last),
        "ArgMin" => Reducer::ArgMin(takes_last),
        "ReduceL1" => Reducer::L1,
        "ReduceL2" => Reducer::L2,
        "ReduceLogSum" => Reducer::LogSum,
        "ReduceLogSumExp" => Reducer::LogSumExp,
        "ReduceMax" => Reducer::Max,
        "ReduceMean" => Reducer::Mean,
        "ReduceMin" => Reducer::Min,
        "ReduceProd" => Reducer::Prod,
        "ReduceSum" => Reducer::Sum,
        _ => Reducer::SumSquare,
    };
    let axes = match reducer {
        Reducer::ArgMax(_) | Reducer::ArgMin(_) => {
            ReducedAxes::These(vec![node.get_attr_opt("axis")?.unwrap_or(0)])
        }
        _ if optional_inputs(node).nth(1).flatten().is_some() => ReducedAxes::OfInput,
        _ => {
            let these = node.get_attr_opt_vec("axes")?;
            these.map_or(ReducedAxes::OfInput, ReducedAxes::These)
        }
    };
    let op = Reduction {
        reducer,
        axes,
        keeps_axes: is_set("keepdims", 1)?,
        is_nothing_without_axes: is_set("noop_with_empty_axes", 0)?,
    };
    over_tract(ctx, node, op)
}

#[derive(Clone, Debug)]
enum ReducedAxes {
    These(Vec<i64>),
    /// The axes of the second input, if there is one.
    OfInput,
}

/// A reduction before types and shapes are known.
#[derive(Clone, Debug)]
struct Reduction {
    reducer: Reducer,
    axes: ReducedAxes,
    keeps_axes: bool,
    /// Whether an empty list of axes stands for none instead of all.
    is_nothing_without_axes: bool,
}

impl Reduction {
    /// The axes in order, of data of this rank; `None` if they are not known.
    fn axes(
        &self,
        rank: usize,
        listed_axes: Option<Option<&Tensor>>,
    ) -> TractResult<Option<TVec<usize>>> {
        let listed = match (&self.axes, listed_axes) {
            (ReducedAxes::These(axes), _) => axes.clone(),
            (ReducedAxes::OfInput, None) => vec![],
            (ReducedAxes::OfInput, Some(None)) => return Ok(None),
            (ReducedAxes::OfInput, Some(Some(axes))) => {
                let axes = axes.cast_to::<i64>()?;
                let axes = axes.to_plain_array_view::<i64>()?;
                axes.iter().copied().collect()
            }
        };
        if listed.is_empty() && !self.is_nothing_without_axes {
            return Ok(Some((0..rank).collect()));
        }
        let axes = listed.into_iter().map(|it| axis(it, rank));
        let mut axes = axes.collect::<TractResult<TVec<usize>>>()?;
        axes.sort_unstable();
        axes.dedup();
        Ok(Some(axes))
    }
}

impl Operator for Reduction {
    fn infer(&self, node: &mut Inferring<'_>) -> Inferred {
        // tract panics if there is no such axis.
        if let Some(rank) = node.inputs[0].shape.rank().concretize() {
            let listed_axes = node.inputs.get(1).map(|fact| fact.value.concretize());
            let listed_axes = listed_axes.as_ref().map(|value| value.as_deref());
            self.axes(usize::try_from(rank)?, listed_axes)?;
        }
        node.computes &= node.value(0).is_some_and(|value| has_symbols(&value));
        Ok(None)
    }

    fn wire(&self, node: &mut Wiring<'_>) -> Wired {
        let fact = node.input(0)?;
        let listed_axes = match node.inputs.get(1) {
            Some(axes) => Some(node.fact(*axes)?.konst.as_deref()),
            None => None,
        };
        let axes = self.axes(fact.rank(), listed_axes)?;
        let axes = axes.context("its axes come from data, expected constant ones")?;
        rule_if!(!is_tracts(self.reducer, fact, &axes));
        let to = match fact.datum_type {
            it if it.is_tdim() => i64::datum_type(),
            it => it,
        };
        let number = node.cast("number", node.inputs[0], to)?;
        let op = Reduced {
            reducer: self.reducer,
            axes: axes.clone(),
        };
        let mut outlets = node.last(Typed(op), &[number])?;
        let removed = if self.keeps_axes { tvec![] } else { axes };
        for axis in removed.into_iter().rev() {
            for outlet in outlets.iter_mut().flatten() {
                *outlet = node.op(&format!("without{axis}"), AxisOp::Rm(axis), &[*outlet])?;
            }
        }
        Ok(outlets)
    }
}

/// Whether a value has sizes that are no numbers. Of them tract computes the right expressions, and of numbers
/// 32 bits.
fn has_symbols(value: &Tensor) -> bool {
    let sizes = value.datum_type().is_tdim().then(|| sizes(value));
    let sizes = sizes.and_then(Result::ok).unwrap_or_default();
    let is_number = |size: &TDim| size.to_i64().is_ok();
    sizes.iter().all(is_size) && !sizes.iter().all(is_number)
}

/// A reduction of tract's by vectors, or of nothing and of infinity as in ONNX Runtime.
pub(crate) fn by_vectors(
    model: &TypedModel,
    node: &TypedNode,
) -> TractResult<Option<Box<dyn TypedOp>>> {
    rule_if_some!(op = node.op_as::<Reduce>());
    let reducer = match op.reducer {
        Core::ArgMax(takes_last) => Reducer::ArgMax(takes_last),
        Core::ArgMin(takes_last) => Reducer::ArgMin(takes_last),
        Core::Max => Reducer::Max,
        Core::Min => Reducer::Min,
        Core::Prod => Reducer::Prod,
        Core::Sum => Reducer::Sum,
        Core::MeanOfSquares | Core::All | Core::Any => return Ok(None),
    };
    let fact = model.outlet_fact(node.inputs[0])?;
    rule_if!(fact.datum_type.is_float() || !is_tracts(reducer, fact, &op.axes));
    let axes = op.axes.iter().copied().sorted().collect();
    Ok(Some(Box::new(Typed(Reduced { reducer, axes }))))
}

/// Whether tract reduces a value correctly: it has floats, at least one of them is reduced for each
/// of the output, infinity is no number less than any other, and powers do not overflow.
fn is_tracts(reducer: Reducer, fact: &TypedFact, axes: &[usize]) -> bool {
    let datum_type = fact.datum_type;
    let mut sizes = axes.iter().map(|axis| &fact.shape[*axis]);
    let is_extreme = matches!(
        reducer,
        Reducer::Max
            | Reducer::Min
            | Reducer::ArgMax(true)
            | Reducer::ArgMin(true)
            | Reducer::LogSumExp
    );
    datum_type.is_quantized()
        || datum_type.is_float() && !is_extreme && sizes.all(TDim::prove_strict_positive)
}

/// Reduces axes, which stay with a size of 1.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Reduced {
    reducer: Reducer,
    /// The axes in order.
    axes: TVec<usize>,
}

/// The result for no elements, as in ONNX Runtime; `None` if there is none.
fn of_nothing(reducer: Reducer) -> Option<f64> {
    Some(match reducer {
        Reducer::ArgMax(_) | Reducer::ArgMin(_) => return None,
        Reducer::Max | Reducer::LogSum | Reducer::LogSumExp => f64::NEG_INFINITY,
        Reducer::Min => f64::INFINITY,
        Reducer::Prod => 1.0,
        Reducer::L1 | Reducer::L2 | Reducer::Mean | Reducer::Sum | Reducer::SumSquare => 0.0,
    })
}

/// Reduces integers without overflow on the way. The result is clamped to the type, as in ONNX Runtime
/// from 1.31 on; up to 1.24, and in NumPy, sums and products wrap.
fn of_integers(reducer: Reducer, elements: impl Iterator<Item = i128> + Clone) -> i128 {
    let sum = |term: fn(i128) -> i128| {
        let elements = elements.clone().map(term);
        elements.fold(0, i128::saturating_add)
    };
    let position = |is_better: fn(i128, i128) -> bool, takes_last: bool| {
        let mut best: Option<(i128, i128)> = None;
        for (at, element) in (0..).zip(elements.clone()) {
            let replaces = best.is_none_or(|(_, known)| {
                is_better(element, known) || takes_last && element == known
            });
            if replaces {
                best = Some((at, element));
            }
        }
        best.map_or(0, |(at, _)| at)
    };
    // A cast of a float to an integer truncates and clamps.
    let float = |float: f64| float as i128;
    match reducer {
        Reducer::ArgMax(takes_last) => position(|a, b| a > b, takes_last),
        Reducer::ArgMin(takes_last) => position(|a, b| a < b, takes_last),
        Reducer::Max => elements.clone().max().unwrap_or(i128::MIN),
        Reducer::Min => elements.clone().min().unwrap_or(i128::MAX),
        Reducer::Prod => elements.clone().fold(1, i128::saturating_mul),
        Reducer::Sum => sum(|it| it),
        Reducer::L1 => sum(i128::abs),
        Reducer::SumSquare => sum(|it| it.saturating_mul(it)),
        Reducer::L2 => float((sum(|it| it.saturating_mul(it)) as f64).sqrt()),
        Reducer::Mean => match elements.clone().count() as i128 {
            0 => 0,
            count => sum(|it| it) / count,
        },
        Reducer::LogSum => match sum(|it| it) {
            ..=0 => i128::MIN,
            sum => float((sum as f64).ln()),
        },
        Reducer::LogSumExp => match elements.clone().max() {
            None => i128::MIN,
            Some(most) => {
                let each = elements.clone().map(|it| ((it - most) as f64).exp());
                most.saturating_add(float(each.sum::<f64>().ln()))
            }
        },
    }
}

impl Reduced {
    /// The output's shape.
    fn shape<D: Clone>(&self, sizes: &[D], one: &D) -> TVec<D> {
        let sizes = sizes.iter().enumerate();
        let reduced = sizes.map(|(axis, size)| match self.axes.contains(&axis) {
            true => one.clone(),
            false => size.clone(),
        });
        reduced.collect()
    }

    fn is_position(&self) -> bool {
        matches!(self.reducer, Reducer::ArgMax(_) | Reducer::ArgMin(_))
    }

    fn nothing(&self, datum_type: DatumType, shape: &[usize]) -> TractResult<Tensor> {
        if self.is_position() {
            ensure!(
                shape.contains(&0),
                "it looks for an element among none, along axis {:?}",
                self.axes[0]
            );
            return Tensor::zero::<i64>(shape);
        }
        let value = of_nothing(self.reducer).context("all others have a result")?;
        tensor0(value)
            .cast_to_dt(datum_type)?
            .broadcast_scalar_to_shape(shape)
    }

    /// Reduces at least one float.
    fn floats<T: Real>(&self, ctx: &EvalContext<'_>, input: &Tensor) -> TractResult<Tensor> {
        let reduce = |fold: Fold, input: &Tensor| fold.reduce::<T>(input, &self.axes);
        let each = |op: ElementWiseOp, input: Tensor| -> TractResult<Tensor> {
            let outputs = op.eval(ctx, tvec![input.into_tvalue()])?;
            Ok(args_1!(outputs).into_tensor())
        };
        let binary = |op: TypedBinOp, a: &Tensor, b: &Tensor| -> TractResult<Tensor> {
            let operands = tvec![a.clone().into_tvalue(), b.clone().into_tvalue()];
            let outputs = op.eval(ctx, operands)?;
            Ok(args_1!(outputs).into_tensor())
        };
        match self.reducer {
            Reducer::ArgMax(takes_last) => {
                self.position::<T>(input, &reduce(Fold::Max, input)?, takes_last)
            }
            Reducer::ArgMin(takes_last) => {
                self.position::<T>(input, &reduce(Fold::Min, input)?, takes_last)
            }
            Reducer::Max => reduce(Fold::Max, input),
            Reducer::Min => reduce(Fold::Min, input),
            Reducer::Prod => reduce(Fold::Product, input),
            Reducer::Sum => reduce(Fold::Sum, input),
            Reducer::L1 => reduce(Fold::Magnitudes, input),
            Reducer::SumSquare => reduce(Fold::Squares, input),
            Reducer::L2 => each(math::sqrt(), reduce(Fold::Squares, input)?),
            Reducer::LogSum => each(math::ln(), reduce(Fold::Sum, input)?),
            Reducer::LogSumExp => {
                // Powers of differences from the greatest do not overflow. It is taken as finite.
                let most = match T::datum_type() {
                    DatumType::F64 => f64::MAX,
                    _ => f32::MAX.into(),
                };
                let limit = |most: f64| {
                    let limit = tensor0(most).cast_to::<T>()?.into_owned();
                    limit.broadcast_into_rank(input.rank())
                };
                let shift = binary(math::min(), &reduce(Fold::Max, input)?, &limit(most)?)?;
                let shift = binary(math::max(), &shift, &limit(-most)?)?;
                let powers = each(math::exp(), binary(math::sub(), input, &shift)?)?;
                let log = each(math::ln(), reduce(Fold::Sum, &powers)?)?;
                binary(math::add(), &log, &shift)
            }
            Reducer::Mean => {
                let count: usize = self.axes.iter().map(|axis| input.shape()[*axis]).product();
                let count = tensor0(i64::try_from(count)?).cast_to::<T>()?.into_owned();
                let sum = reduce(Fold::Sum, input)?;
                binary(math::div(), &sum, &count.broadcast_into_rank(sum.rank())?)
            }
        }
    }

    /// The positions of elements that are the best ones, or of NaN.
    fn position<T: Real>(
        &self,
        input: &Tensor,
        best: &Tensor,
        takes_last: bool,
    ) -> TractResult<Tensor> {
        let layouts = Layout::each(input.shape(), &self.axes);
        let layout = layouts.first().context("it has an axis")?;
        let mut positions_of_best = Tensor::zero::<i64>(best.shape())?;
        let mut plain = positions_of_best.try_as_plain_ram_mut()?;
        let (best, input) = (best.try_as_plain_ram()?, input.try_as_plain_ram()?);
        let best = best.as_slice::<T>()?.chunks(layout.inner);
        let parts = input.as_slice::<T>()?.chunks(layout.along * layout.inner);
        let positions = plain.as_slice_mut::<i64>()?.chunks_mut(layout.inner);
        let is_found = |it: &T, best: &T| it == best || it.partial_cmp(it).is_none();
        for (part, (best, positions)) in std::iter::zip(parts, std::iter::zip(best, positions)) {
            if let ([best], [position]) = (best, &mut *positions) {
                // Nothing behind the one that is found is looked at.
                let mut elements = part.iter();
                let at = match takes_last {
                    true => elements.rposition(|it| is_found(it, best)),
                    false => elements.position(|it| is_found(it, best)),
                };
                *position = i64::try_from(at.unwrap_or(0))?;
                continue;
            }
            let rows = part.chunks(layout.inner).enumerate();
            let mut look = |(at, row): (usize, &[T])| {
                for (position, (it, best)) in
                    std::iter::zip(&mut *positions, std::iter::zip(row, best))
                {
                    *position = match is_found(it, best) {
                        true => at as i64,
                        false => *position,
                    };
                }
            };
            // The one that is found last stays.
            match takes_last {
                true => rows.for_each(look),
                false => rows.rev().for_each(&mut look),
            }
        }
        Ok(positions_of_best)
    }

    /// The elements that an output's one is reduced from.
    fn part<'a, T>(
        &self,
        input: &'a tract_ndarray::ArrayViewD<'_, T>,
        coords: &[usize],
    ) -> impl Iterator<Item = &'a T> + Clone {
        let mut part = input.view();
        for (axis, at) in coords.iter().enumerate() {
            if !self.axes.contains(&axis) {
                part.collapse_axis(tract_ndarray::Axis(axis), *at);
            }
        }
        part.into_iter()
    }

    fn integers<T>(
        &self,
        input: &Tensor,
        shape: &[usize],
        to: impl Fn(i128) -> T,
    ) -> TractResult<Tensor>
    where
        T: Datum + Copy + Into<i128>,
    {
        let input = input.to_plain_array_view::<T>()?;
        let reduce = |coords: tract_ndarray::IxDyn| {
            let part = self.part(&input, coords.slice());
            of_integers(self.reducer, part.map(|element| (*element).into()))
        };
        let reduced = tract_ndarray::ArrayD::from_shape_fn(shape, reduce);
        Ok(if self.is_position() {
            reduced.mapv(|at| at as i64).into_tensor()
        } else {
            reduced.mapv(to).into_tensor()
        })
    }
}

impl Stateless for Reduced {
    const NAME: &str = "Reduce";

    fn name(&self) -> StaticName {
        format!("{}<{:?}>", Self::NAME, self.reducer).into()
    }

    fn info(&self) -> TractResult<Vec<String>> {
        Ok(vec![format!("axes: {:?}", self.axes)])
    }

    fn eval(&self, ctx: &EvalContext<'_>, inputs: TVec<TValue>) -> TractResult<TVec<TValue>> {
        let input = args_1!(inputs);
        let datum_type = input.datum_type();
        let shape = self.shape(input.shape(), &1);
        macro_rules! integers {
            ($($name:ident $type:ty),*) => {
                match datum_type {
                    $(DatumType::$name => self.integers::<$type>(&input, &shape, |number| {
                        number.clamp(<$type>::MIN.into(), <$type>::MAX.into()) as $type
                    }),)*
                    DatumType::F32 => self.floats::<f32>(ctx, &input),
                    DatumType::F64 => self.floats::<f64>(ctx, &input),
                    // Sums on the way may be greater than half floats.
                    DatumType::F16 => {
                        let reduced = self.floats::<f32>(ctx, &*input.cast_to::<f32>()?)?;
                        match self.is_position() {
                            true => Ok(reduced),
                            false => Ok(reduced.cast_to::<f16>()?.into_owned()),
                        }
                    }
                    other => bail!("it is of {other:?}, expected numbers"),
                }
            };
        }
        let output = if input.len() == 0 {
            self.nothing(datum_type, &shape)
        } else {
            integers!(I8 i8, I16 i16, I32 i32, I64 i64, U8 u8, U16 u16, U32 u32, U64 u64)
        }?;
        Ok(tvec![output.into_tvalue()])
    }

    fn output_facts(&self, inputs: &[&TypedFact]) -> TractResult<TVec<TypedFact>> {
        let shape = self.shape(&inputs[0].shape.to_tvec(), &1.to_dim());
        let datum_type = match self.is_position() {
            true => i64::datum_type(),
            false => inputs[0].datum_type,
        };
        Ok(tvec![datum_type.fact(shape)])
    }

    fn axes_mapping(
        &self,
        inputs: &[&TypedFact],
        outputs: &[&TypedFact],
    ) -> TractResult<AxesMapping> {
        Reduce::new(self.axes.clone(), Core::Sum).axes_mapping(inputs, outputs)
    }

    fn with_axes(&self, _inputs: &[&TypedFact], change: &AxisOp) -> Option<Self> {
        let axes = self.axes.iter().map(|axis| change.transform_axis(*axis));
        let axes: TVec<usize> = axes.collect::<Option<_>>()?;
        Some(Self {
            axes: axes.into_iter().sorted().collect(),
            ..self.clone()
        })
    }
}
