//! Mod. tract's swaps its operands if the first one has fewer elements.
//!
//! Integers are divided in a wider type, so that no remainder overflows. Sizes stay sizes if the
//! divisor is a number, and the dividend provably not negative; otherwise the output is int64.
//!
//! ```text
//! Mod(N + 3, 4) stays an expression; Mod(N - 3, 4) is a number when the model runs
//! ```

use std::ops::{Add, Rem};

use tract_onnx::model::ParsingContext;
use tract_onnx::pb::NodeProto;
use tract_onnx::tract_core::broadcast::multi_broadcast;
use tract_onnx::tract_hir::internal::*;

use crate::data_sizes::{CustomNode, CustomOp, in_numbers};
use crate::dims::{broadcast, each_size, is_size, sizes};
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
    Ok((Box::new(CustomOp(OnnxMod { sign })), vec![]))
}

/// The operand whose sign a remainder has.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Sign {
    Dividend,
    Divisor,
}

/// A Mod before types and shapes are known.
#[derive(Clone, Debug)]
struct OnnxMod {
    sign: Sign,
}

impl CustomNode for OnnxMod {
    type Typed = Remainder;

    fn name(&self) -> StaticName {
        "Mod".into()
    }

    fn arity(&self) -> (usize, usize) {
        (2, 1)
    }

    fn typed(&self, inputs: &[&TypedFact]) -> TractResult<Remainder> {
        let common = common_type(inputs[0].datum_type, inputs[1].datum_type)?;
        let known = |fact: &TypedFact, is_such: fn(&TDim) -> bool| {
            let value = fact.konst.as_deref();
            value.is_some_and(|it| sizes(it).is_ok_and(|sizes| sizes.iter().all(is_such)))
        };
        // Of anything else, tract's expressions may be wrong.
        let stays_size = known(inputs[0], is_size) && known(inputs[1], |by| by.to_i64().is_ok());
        let datum_type = match common {
            it if it.is_tdim() && !stays_size => i64::datum_type(),
            it => it,
        };
        Ok(Remainder {
            sign: self.sign,
            datum_type,
        })
    }
}

/// The remainders of numbers or of sizes.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Remainder {
    sign: Sign,
    datum_type: DatumType,
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

    /// The remainder of a size, which is not negative.
    fn of_size(&self, size: &TDim, divisor: i64) -> TractResult<TDim> {
        ensure!(divisor != 0, "it divides by 0");
        let by = divisor.unsigned_abs();
        Ok(match (size.to_i64(), self.sign) {
            (Ok(number), _) => i64::try_from(self.of(i128::from(number), divisor.into()))?.to_dim(),
            // What lacks to the next multiple of the divisor, negated.
            (Err(_), Sign::Divisor) if divisor < 0 => size.clone() - size.clone().div_ceil(by) * by,
            (Err(_), _) => size.clone() % by,
        })
    }
}

/// Computes each element of a broadcast result.
fn each<T: Datum>(
    inputs: [&Tensor; 2],
    function: impl Fn(&T, &T) -> TractResult<T>,
) -> TractResult<Tensor> {
    let [a, b] = inputs.map(|input| input.cast_to::<T>());
    let (a, b) = (a?, b?);
    broadcast(a.to_plain_array_view()?, b.to_plain_array_view()?, function)
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
        let inputs = match self.datum_type {
            it if it.is_tdim() => inputs,
            _ => {
                let numbers = inputs.into_iter().map(|it| in_numbers(it, ctx.symbols));
                numbers.collect::<TractResult<TVec<TValue>>>()?
            }
        };
        let inputs = [&*inputs[0], &*inputs[1]];
        macro_rules! integers {
            ($($name:ident $type:ty),*) => {
                match self.datum_type {
                    $(DatumType::$name => each::<$type>(inputs, |&a, &b| {
                        ensure!(b != 0, "it divides by 0");
                        Ok(<$type>::try_from(self.of(i128::from(a), b.into()))?)
                    }),)*
                    DatumType::F64 => each(inputs, |&a: &f64, &b: &f64| Ok(self.of(a, b))),
                    DatumType::F32 => each(inputs, |&a: &f32, &b: &f32| {
                        Ok(self.of(f64::from(a), b.into()) as f32)
                    }),
                    DatumType::F16 => each(inputs, |&a: &f16, &b: &f16| {
                        Ok(f16::from_f64(self.of(f64::from(a), b.into())))
                    }),
                    DatumType::TDim => each_size(inputs, |size, by| {
                        self.of_size(size, by.to_i64()?)
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
        let shape = multi_broadcast(&[&*inputs[0].shape, &*inputs[1].shape])?;
        Ok(tvec!(self.datum_type.fact(shape)))
    }

    as_op!();
}
