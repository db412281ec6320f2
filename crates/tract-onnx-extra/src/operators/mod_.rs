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
use tract_onnx::tract_core::broadcast::multi_broadcast;
use tract_onnx::tract_hir::internal::*;

use super::arithmetic::Arithmetic;
use crate::dims::{broadcast, is_size};
use crate::node::check_domain;
use crate::operator::{Parsed, Wiring, own};
use crate::polynomial::{difference, product, quotient, sum};
use crate::typed_op::{Stateless, Typed};

/// Parses a Mod.
pub(crate) fn parse(_ctx: &ParsingContext<'_>, node: &NodeProto) -> Parsed {
    check_domain(node)?;
    let sign = match node.get_attr_opt::<i64>("fmod")? {
        Some(1) => Sign::Dividend,
        _ => Sign::Divisor,
    };
    own(node, [2, 1], move |node: &mut Wiring<'_>| {
        let datum_type = common_type(node.input(0)?.datum_type, node.input(1)?.datum_type)?;
        let operands = [node.inputs[0], node.inputs[1]];
        if let Some(of_sizes) = Arithmetic::Mod(sign).wire(node, operands)? {
            return Ok(Some(tvec![of_sizes]));
        }
        node.whole(Typed(Remainder { sign, datum_type }))
    })
}

/// The operand whose sign a remainder has.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Sign {
    Dividend,
    Divisor,
}

/// The remainders of numbers.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Remainder {
    sign: Sign,
    datum_type: DatumType,
}

pub(super) fn common_type(a: DatumType, b: DatumType) -> TractResult<DatumType> {
    a.common_super_type(b)
        .with_context(|| format!("its operands are of types {a:?} and {b:?}, expected one type"))
}

impl Sign {
    pub(super) fn remainder<T>(self, a: T, b: T) -> T
    where
        T: Copy + Default + PartialOrd + Add<Output = T> + Rem<Output = T>,
    {
        let (zero, remainder) = (T::default(), a % b);
        let is_moved = remainder != zero && (remainder < zero) != (b < zero);
        match self {
            Self::Divisor if is_moved => remainder + b,
            _ => remainder,
        }
    }

    /// The remainder of a size that is not negative, if there is an exact expression.
    pub(super) fn of_size(self, size: &TDim, by: i64) -> Option<TDim> {
        let multiple = i64::try_from(by.unsigned_abs()).ok()?;
        let rounded = match self {
            // What lacks to the next multiple, negated.
            Self::Divisor if by < 0 => sum(size, &(multiple - 1).to_dim())?,
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

    fn eval(&self, _ctx: &EvalContext<'_>, inputs: TVec<TValue>) -> TractResult<TVec<TValue>> {
        let inputs = [&*inputs[0], &*inputs[1]];
        macro_rules! integers {
            ($($name:ident $type:ty),*) => {
                match self.datum_type {
                    $(DatumType::$name => each::<$type>(inputs, |&a, &b| {
                        ensure!(b != 0, "it divides by 0");
                        Ok(<$type>::try_from(self.sign.remainder(i128::from(a), b.into()))?)
                    }),)*
                    DatumType::F64 => each(inputs, |&a: &f64, &b: &f64| Ok(self.sign.remainder(a, b))),
                    DatumType::F32 => each(inputs, |&a: &f32, &b: &f32| {
                        Ok(self.sign.remainder(f64::from(a), b.into()) as f32)
                    }),
                    DatumType::F16 => each(inputs, |&a: &f16, &b: &f16| {
                        Ok(f16::from_f64(self.sign.remainder(f64::from(a), b.into())))
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

    fn output_facts(&self, inputs: &[&TypedFact]) -> TractResult<TVec<TypedFact>> {
        let shape = multi_broadcast(&[&*inputs[0].shape, &*inputs[1].shape])?;
        Ok(tvec!(self.datum_type.fact(shape)))
    }
}
