//! Mod. tract's swaps its operands if the first one has fewer elements.
//!
//! Integers are divided in a wider type, so that no remainder overflows. A remainder of sizes is an
//! expression if the divisor is a number, the dividend provably not negative, and the expression exact.
//!
//! ```text
//! Mod(N + 3, 4) stays an expression; Mod(N - 3, 4) is a number when the model runs
//! ```

use std::ops::{Add, Rem};

use tract_onnx::model::ParsingContext;
use tract_onnx::pb::NodeProto;
use tract_onnx::tract_hir::internal::*;

use crate::data_sizes::all_in_numbers;
use crate::dims::{broadcast, each_size, is_size};
use crate::operator::{Parsed, Wiring, own};
use crate::polynomial::{difference, product, quotient, sum};
use crate::typed_op::{Stateless, Typed, broadcast_facts};

/// Parses a Mod.
pub(crate) fn parse(_ctx: &ParsingContext<'_>, node: &NodeProto) -> Parsed {
    let sign = match node.get_attr_opt::<i64>("fmod")? {
        Some(1) => Sign::Dividend,
        _ => Sign::Divisor,
    };
    own(node, [2, 1], move |node: &mut Wiring<'_>| {
        let datum_type = common_type(node.input(0)?.datum_type, node.input(1)?.datum_type)?;
        node.whole(Typed(Remainder { sign, datum_type }))
    })
}

/// The operand whose sign a remainder has.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Sign {
    Dividend,
    Divisor,
}

/// The remainders of numbers or of sizes.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Remainder {
    sign: Sign,
    datum_type: DatumType,
}

pub(super) fn common_type(a: DatumType, b: DatumType) -> TractResult<DatumType> {
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

    fn of_sizes(&self, inputs: [&Tensor; 2]) -> TractResult<Tensor> {
        each_size(inputs, |size, by| {
            let by = by.to_i64()?;
            ensure!(by != 0, "it divides by 0");
            let remainder = match size.to_i64() {
                Ok(number) => i64::try_from(self.of(i128::from(number), by.into()))?.to_dim(),
                Err(_) => self.of_size(size, by).context("it has no expression")?,
            };
            Ok(remainder)
        })
    }

    /// The remainder of a size that is not negative, if there is an exact expression.
    fn of_size(&self, size: &TDim, by: i64) -> Option<TDim> {
        let multiple = i64::try_from(by.unsigned_abs()).ok()?;
        let rounded = match self.sign {
            // What lacks to the next multiple, negated.
            Sign::Divisor if by < 0 => sum(size, &(multiple - 1).to_dim())?,
            _ => size.clone(),
        };
        let multiple = multiple.to_dim();
        let times = quotient(&rounded, &multiple).filter(|_| is_size(size))?;
        difference(size, &product(&times, &multiple)?)
    }
}

/// Computes each element of a broadcast result.
pub(super) fn each<T: Datum>(
    inputs: [&Tensor; 2],
    function: impl Fn(&T, &T) -> TractResult<T>,
) -> TractResult<Tensor> {
    let [a, b] = inputs.map(|input| input.cast_to::<T>());
    let (a, b) = (a?, b?);
    broadcast(a.to_plain_array_view()?, b.to_plain_array_view()?, function)
}

impl Stateless for Remainder {
    const NAME: &str = "Mod";

    fn eval(&self, ctx: &EvalContext<'_>, inputs: TVec<TValue>) -> TractResult<TVec<TValue>> {
        if self.datum_type.is_tdim() {
            let numbers = all_in_numbers(inputs, ctx.symbols)?;
            let remainders = self.of_sizes([&numbers[0], &numbers[1]])?;
            return Ok(tvec![remainders.into_tvalue()]);
        }
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
                    other => bail!("it is of {other:?}, expected numbers"),
                }
            };
        }
        let result = integers!(
            I8 i8, I16 i16, I32 i32, I64 i64, U8 u8, U16 u16, U32 u32, U64 u64
        )?;
        Ok(tvec!(result.into_tvalue()))
    }

    fn eval_out_of_plan(&self, inputs: TVec<TValue>) -> TractResult<Option<TVec<TValue>>> {
        if !self.datum_type.is_tdim() {
            return self.eval(&EvalContext::out_of_plan(), inputs).map(Some);
        }
        let expressions = self.of_sizes([&inputs[0], &inputs[1]]);
        Ok(expressions.ok().map(|it| tvec![it.into_tvalue()]))
    }

    fn output_facts(&self, inputs: &[&TypedFact]) -> TractResult<TVec<TypedFact>> {
        broadcast_facts(self.datum_type, inputs)
    }
}
