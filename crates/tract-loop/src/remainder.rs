//! Mod. tract's swaps its operands if the first one has fewer elements.

use std::ops::{Add, Rem};

use tract_onnx::model::ParsingContext;
use tract_onnx::pb::NodeProto;
use tract_onnx::tract_core::broadcast::multi_broadcast;
use tract_onnx::tract_hir::internal::*;

use crate::from_data::{Own, Untyped};
use crate::node::check_domain;

/// Parses a Mod.
pub(crate) fn parse(
    _ctx: &ParsingContext<'_>,
    node: &NodeProto,
) -> TractResult<(Box<dyn InferenceOp>, Vec<String>)> {
    check_domain(node)?;
    let sign = match node.get_attr_opt::<i64>("fmod")? {
        Some(1) => Sign::Dividend,
        _ => Sign::Divisor,
    };
    Ok((Box::new(Own(Remainder { sign })), vec![]))
}

/// The operand whose sign a remainder has.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Sign {
    Dividend,
    Divisor,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Remainder {
    sign: Sign,
}

impl Untyped for Remainder {
    type Typed = Self;

    fn name(&self) -> StaticName {
        "Mod".into()
    }

    fn arity(&self) -> (usize, usize) {
        (2, 1)
    }

    fn typed(&self, _inputs: &[&TypedFact]) -> TractResult<Self> {
        Ok(self.clone())
    }
}

fn common_type(a: DatumType, b: DatumType) -> TractResult<DatumType> {
    a.common_super_type(b)
        .with_context(|| format!("its operands are of types {a:?} and {b:?}, expected one type"))
}

impl Remainder {
    fn of<T>(&self, a: T, b: T) -> T
    where
        T: Copy + Default + PartialOrd + Add<Output = T> + Rem<Output = T>,
    {
        let (zero, remainder) = (T::default(), a % b);
        let is_moved = remainder != zero && (remainder < zero) != (b < zero);
        match self.sign {
            Sign::Divisor if is_moved => remainder + b,
            _ => remainder,
        }
    }

    fn of_sizes(&self, a: &TDim, b: &TDim, symbols: &SymbolValues) -> TractResult<TDim> {
        let [a, b] = [a, b].map(|size| size.eval(symbols));
        let divisor = b.to_i64()?;
        ensure!(divisor != 0, "it divides by 0");
        Ok(match a.to_i64() {
            Ok(a) => i64::try_from(self.of(i128::from(a), divisor.into()))?.to_dim(),
            // A size is not negative.
            Err(_) => a % divisor.unsigned_abs(),
        })
    }
}

/// Computes each element of a broadcast result.
fn each<T: Datum>(
    inputs: [&Tensor; 2],
    shape: &[usize],
    of: impl Fn(&T, &T) -> TractResult<T>,
) -> TractResult<Tensor> {
    let [a, b] = inputs.map(|input| input.cast_to::<T>());
    let (a, b) = (a?, b?);
    let (a, b) = (a.to_plain_array_view::<T>()?, b.to_plain_array_view::<T>()?);
    let whole = "inputs broadcast to their common shape";
    let (a, b) = (
        a.broadcast(shape).context(whole)?,
        b.broadcast(shape).context(whole)?,
    );
    let elements = a.iter().zip(b.iter()).map(|(a, b)| of(a, b));
    let elements = elements.collect::<TractResult<Vec<T>>>()?;
    Ok(tract_ndarray::ArrayD::from_shape_vec(shape, elements)?.into_tensor())
}

impl Op for Remainder {
    fn name(&self) -> StaticName {
        "Mod".into()
    }

    op_as_typed_op!();
}

impl EvalOp for Remainder {
    op_out_of_plan!();

    fn eval(&self, ctx: &EvalContext<'_>, inputs: TVec<TValue>) -> TractResult<TVec<TValue>> {
        let [a, b] = [&*inputs[0], &*inputs[1]];
        let shape = multi_broadcast(&[a.shape(), b.shape()])?;
        macro_rules! integers {
            ($($name:ident $type:ty),*) => {
                match common_type(a.datum_type(), b.datum_type())? {
                    $(DatumType::$name => each::<$type>([a, b], &shape, |&a, &b| {
                        ensure!(b != 0, "it divides by 0");
                        Ok(<$type>::try_from(self.of(i128::from(a), b.into()))?)
                    }),)*
                    DatumType::F64 => each([a, b], &shape, |&a: &f64, &b: &f64| Ok(self.of(a, b))),
                    DatumType::F32 => each([a, b], &shape, |&a: &f32, &b: &f32| {
                        Ok(self.of(f64::from(a), b.into()) as f32)
                    }),
                    DatumType::F16 => each([a, b], &shape, |&a: &f16, &b: &f16| {
                        Ok(f16::from_f64(self.of(f64::from(a), b.into())))
                    }),
                    DatumType::TDim => each([a, b], &shape, |a, b| {
                        self.of_sizes(a, b, ctx.symbols)
                    }),
                    other => bail!("it is of {other:?}, expected numbers"),
                }
            };
        }
        let result = integers!(
            I8 i8, I16 i16, I32 i32, I64 i64, U8 u8, U16 u16, U32 u32, U64 u64
        )?;
        Ok(tvec!(result.into_tvalue()))
    }
}

impl TypedOp for Remainder {
    fn output_facts(&self, inputs: &[&TypedFact]) -> TractResult<TVec<TypedFact>> {
        let datum_type = common_type(inputs[0].datum_type, inputs[1].datum_type)?;
        let shape = multi_broadcast(&[&*inputs[0].shape, &*inputs[1].shape])?;
        Ok(tvec!(datum_type.fact(shape)))
    }

    as_op!();
}
