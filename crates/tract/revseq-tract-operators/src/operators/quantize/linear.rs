//! QuantizeLinear and DequantizeLinear.

use std::ops::{Mul, Sub};

use tract_onnx::model::ParsingContext;
use tract_onnx::pb::NodeProto;
use tract_onnx::pb::tensor_proto::DataType;
use tract_onnx::tract_hir::internal::*;
use tract_onnx::tract_hir::tract_num_traits::{AsPrimitive, Bounded};

use super::parameter::Along;
use crate::operator::{Operator, Parsed, Wired, Wiring, own};
use crate::typed_op::{Stateless, Typed};

/// Parses a QuantizeLinear or a DequantizeLinear.
pub(crate) fn parse(_ctx: &ParsingContext<'_>, node: &NodeProto) -> Parsed {
    let number = |name: &str| node.get_attr_opt::<i64>(name);
    let block = number("block_size")?.unwrap_or(0);
    let type_of = |name: &str| -> TractResult<Option<DatumType>> {
        let code = number(name)?.filter(|code| *code != 0);
        code.map(|code| datum_type(name, code)).transpose()
    };
    let op = OnnxLinear {
        direction: match node.op_type.as_str() {
            "QuantizeLinear" => Direction::Quantize,
            _ => Direction::Dequantize,
        },
        axis: number("axis")?.unwrap_or(1),
        block: usize::try_from(block)
            .with_context(|| format!("its block_size is {block}, expected 0 or more"))?,
        output: type_of("output_dtype")?,
        precision: type_of("precision")?,
        has_zero_point: node.input.get(2).is_some_and(|name| !name.is_empty()),
    };
    own(node, [2 + usize::from(op.has_zero_point), 1], op)
}

fn datum_type(attribute: &str, code: i64) -> TractResult<DatumType> {
    let data_type = i32::try_from(code).map(DataType::try_from);
    let data_type = data_type.ok().and_then(Result::ok);
    let datum_type = data_type.map(DatumType::try_from);
    datum_type.and_then(Result::ok).with_context(|| {
        format!("its {attribute} is the type of number {code}, which tract does not have")
    })
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Direction {
    Quantize,
    Dequantize,
}

/// A node before types and shapes are known.
#[derive(Clone, Debug)]
struct OnnxLinear {
    direction: Direction,
    axis: i64,
    /// Number of elements of a block; 0 without blocks.
    block: usize,
    output: Option<DatumType>,
    precision: Option<DatumType>,
    has_zero_point: bool,
}

impl Operator for OnnxLinear {
    fn wire(&self, node: &mut Wiring<'_>) -> Wired {
        if node.input(0)?.datum_type.is_tdim() {
            // An int32 that depends on sizes.
            node.inputs[0] = node.cast("number", node.inputs[0], i64::datum_type())?;
        }
        let op = self.typed(&node.facts()?)?;
        node.whole(Typed(op))
    }
}

impl OnnxLinear {
    fn typed(&self, inputs: &[&TypedFact]) -> TractResult<Linear> {
        let rank = inputs[0].rank() as i64;
        let is_scalar = inputs[1..].iter().all(|fact| is_shared(fact));
        let from_first = self.axis + if self.axis < 0 { rank } else { 0 };
        let axis = match usize::try_from(from_first) {
            Ok(axis) => axis,
            Err(_) if is_scalar => 0,
            Err(_) => bail!("its axis is {}, of {rank} axes", self.axis),
        };
        let types: TVec<DatumType> = inputs.iter().map(|fact| fact.datum_type).collect();
        let zero_point = types.get(2).copied();
        ensure!(
            types[1].is_float(),
            "its scale is {:?}, expected a float",
            types[1]
        );
        let to = match self.direction {
            Direction::Quantize => {
                let to = zero_point.or(self.output).unwrap_or_else(u8::datum_type);
                ensure!(
                    self.output.is_none_or(|output| output == to),
                    "its output_dtype is {:?}, and its zero point {to:?}",
                    self.output
                );
                to
            }
            Direction::Dequantize => self.output.unwrap_or(types[1]),
        };
        let (real, whole) = match self.direction {
            Direction::Quantize => (types[0], to),
            Direction::Dequantize => (to, types[0]),
        };
        let is_zero = zero_point
            .is_none_or(|it| it == whole || whole.is_integer() && it == i32::datum_type());
        ensure!(
            is_zero,
            "its zero point is {zero_point:?}, expected {whole:?}"
        );
        let is_wide = [real, types[1]].contains(&f64::datum_type())
            || real.is_integer()
            || self.precision == Some(f64::datum_type());
        Ok(Linear {
            direction: self.direction,
            along: Along {
                axis,
                block: (self.block > 0).then_some(self.block),
            },
            to,
            is_wide,
        })
    }
}

/// A QuantizeLinear or a DequantizeLinear of data, scales and possibly zero points.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Linear {
    direction: Direction,
    along: Along,
    /// The type of the result.
    to: DatumType,
    /// Whether it computes in doubles.
    is_wide: bool,
}

/// A number of the data.
trait Real: Datum + Copy + Mul<Output = Self> {
    /// The nearest integer to `self / scale`, the even one of two, plus `zero`, between two bounds.
    fn quantized(self, scale: Self, zero: i32, least: i32, most: i32) -> i32;
}

macro_rules! real {
    ($real:ty, $one_and_a_half:expr) => {
        impl Real for $real {
            fn quantized(self, scale: Self, zero: i32, least: i32, most: i32) -> i32 {
                // The bounds are integers, so they may come before the rounding. Of NaN, `max`
                // makes the lower one, as ONNX Runtime's does.
                let [least, most] = [least - zero, most - zero].map(|it| it as $real);
                let bounded = (self / scale).max(least).min(most);
                // The sum has no place for fractions: it rounds as needed, in vectors.
                let whole = (bounded + $one_and_a_half) - $one_and_a_half;
                whole as i32 + zero
            }
        }
    };
}

real!(f32, 1.5 * (1_u64 << 23) as f32);
real!(f64, 1.5 * (1_u64 << 52) as f64);

/// The data and its parameters.
struct LinearOperands<'a, F> {
    along: Along,
    shape: &'a [usize],
    scales: &'a [F],
    zeros: &'a [i32],
}

impl<F: Real> LinearOperands<'_, F> {
    /// Computes the elements of a result from those of `from`, with their scales and zero points.
    fn map<A: Datum + Copy, B: Datum + Copy>(
        &self,
        from: &Tensor,
        function: impl Fn(A, F, i32) -> B,
    ) -> TractResult<Tensor> {
        let from = from.try_as_plain_ram()?;
        let from = from.as_slice::<A>()?;
        let mut result = Tensor::zero_dt(B::datum_type(), self.shape)?;
        let mut plain = result.try_as_plain_ram_mut()?;
        let into = plain.as_slice_mut::<B>()?;
        let mut run = |range: std::ops::Range<usize>, scale: F, zero: i32| {
            for (into, from) in std::iter::zip(&mut into[range.clone()], &from[range]) {
                *into = function(*from, scale, zero);
            }
        };
        match (self.scales, self.zeros) {
            (&[scale], &[zero]) => run(0..from.len(), scale, zero),
            (scales, zeros) => self.along.for_each_run(self.shape, |range, place| {
                let at = |count: usize| if count == 1 { 0 } else { place };
                run(range, scales[at(scales.len())], zeros[at(zeros.len())]);
            }),
        }
        Ok(result)
    }

    fn quantize<Q>(&self, data: &Tensor) -> TractResult<Tensor>
    where
        Q: Datum + Copy + Bounded + Into<i32>,
        i32: AsPrimitive<Q>,
    {
        let (least, most) = (Q::min_value().into(), Q::max_value().into());
        self.map(&*data.cast_to::<F>()?, |x: F, scale, zero| -> Q {
            x.quantized(scale, zero, least, most).as_()
        })
    }

    /// Dequantises numbers, whose differences from their zero points are of a type that holds them.
    fn dequantize<Q, W>(&self, data: &Tensor) -> TractResult<Tensor>
    where
        Q: Datum + Copy + Into<W>,
        W: From<i32> + Sub<Output = W> + AsPrimitive<F>,
    {
        self.map(data, |q: Q, scale: F, zero| {
            (q.into() - zero.into()).as_() * scale
        })
    }
}

/// Whether all elements of the data share a parameter.
fn is_shared(parameter: &TypedFact) -> bool {
    parameter.rank() <= 1 && parameter.shape.iter().all(TDim::is_one)
}

impl Linear {
    fn check<D: DimLike>(&self, shapes: &[&[D]]) -> TractResult<()> {
        for (name, parameter) in std::iter::zip(["scale", "zero point"], &shapes[1..]) {
            self.along.check(name, parameter, shapes[0])?;
        }
        Ok(())
    }

    fn apply<F: Real>(&self, inputs: &[TValue]) -> TractResult<Tensor>
    where
        i32: AsPrimitive<F>,
        i64: AsPrimitive<F>,
        i128: AsPrimitive<F>,
    {
        let scales = inputs[1].cast_to::<F>()?;
        let scales = scales.try_as_plain_ram()?;
        let zeros = match inputs.get(2) {
            Some(zeros) => zeros.cast_to::<i32>()?.into_owned(),
            None => tensor0(0_i32),
        };
        let zeros = zeros.try_as_plain_ram()?;
        let data = &*inputs[0];
        let operands = LinearOperands::<F> {
            along: self.along,
            shape: data.shape(),
            scales: scales.as_slice()?,
            zeros: zeros.as_slice()?,
        };
        match self.direction {
            Direction::Quantize => match self.to {
                DatumType::I8 => operands.quantize::<i8>(data),
                DatumType::U8 => operands.quantize::<u8>(data),
                DatumType::I16 => operands.quantize::<i16>(data),
                DatumType::U16 => operands.quantize::<u16>(data),
                other => bail!("it is to make {other:?}, expected integers of 8 or 16 bits"),
            },
            Direction::Dequantize => {
                let real = match data.datum_type() {
                    DatumType::I8 => operands.dequantize::<i8, i32>(data),
                    DatumType::U8 => operands.dequantize::<u8, i32>(data),
                    DatumType::I16 => operands.dequantize::<i16, i32>(data),
                    DatumType::U16 => operands.dequantize::<u16, i32>(data),
                    DatumType::I32 => operands.dequantize::<i32, i64>(data),
                    DatumType::I64 => operands.dequantize::<i64, i128>(data),
                    other => bail!("its data is {other:?}, expected integers"),
                }?;
                Ok(real.cast_to_dt(self.to)?.into_owned())
            }
        }
    }
}

impl Stateless for Linear {
    const NAME: &str = "Linear";

    fn name(&self) -> StaticName {
        format!("{:?}{}", self.direction, Self::NAME).into()
    }

    fn eval(&self, _ctx: &EvalContext<'_>, inputs: TVec<TValue>) -> TractResult<TVec<TValue>> {
        let shapes: TVec<&[usize]> = inputs.iter().map(|input| input.shape()).collect();
        self.check(&shapes)?;
        let result = match self.is_wide {
            true => self.apply::<f64>(&inputs)?,
            false => self.apply::<f32>(&inputs)?,
        };
        Ok(tvec!(result.into_tvalue()))
    }

    fn output_facts(&self, inputs: &[&TypedFact]) -> TractResult<TVec<TypedFact>> {
        let shapes: TVec<&[TDim]> = inputs.iter().map(|fact| &*fact.shape).collect();
        self.check(&shapes)?;
        Ok(tvec!(self.to.fact(inputs[0].shape.clone())))
    }

    fn axes_mapping(
        &self,
        inputs: &[&TypedFact],
        outputs: &[&TypedFact],
    ) -> TractResult<AxesMapping> {
        let ranks: TVec<usize> = inputs.iter().map(|fact| fact.rank()).collect();
        let mut axes = AxesMapping::disconnected_for_ranks(&ranks, &[outputs[0].rank()])?;
        for axis in 0..ranks[0] {
            axes = axes.linking((InOut::In(0), axis), (InOut::Out(0), axis))?;
        }
        for (input, fact) in inputs.iter().enumerate().skip(1) {
            if self.along.block.is_none() && !is_shared(fact) {
                axes = axes.linking((InOut::In(input), 0), (InOut::Out(0), self.along.axis))?;
            }
        }
        Ok(axes)
    }

    fn with_axes(&self, inputs: &[&TypedFact], change: &AxisOp) -> Option<Self> {
        let mut op = self.clone();
        if !inputs[1..].iter().all(|fact| is_shared(fact)) {
            op.along.axis = change.transform_axis(self.along.axis)?;
            self.along.block.is_none().then_some(())?;
        }
        Some(op)
    }

    fn declutter(
        &self,
        model: &TypedModel,
        node: &TypedNode,
    ) -> TractResult<Option<TypedModelPatch>> {
        // tract keeps constants that grow: each run would dequantise the weights again.
        let facts = model.node_input_facts(node.id)?;
        let inputs = facts
            .iter()
            .map(|fact| fact.konst.clone().map(IntoTValue::into_tvalue));
        rule_if_some!(inputs = inputs.collect::<Option<TVec<TValue>>>());
        rule_if_some!(outputs = self.eval_out_of_plan(inputs)?);
        let mut patch = TypedModelPatch::default();
        let constant = patch.add_const(&*node.name, args_1!(outputs).into_arc_tensor())?;
        patch.shunt_outside(model, node.id.into(), constant)?;
        Ok(Some(patch))
    }
}
