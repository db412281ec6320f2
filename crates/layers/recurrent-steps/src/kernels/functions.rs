//! Functions of elements, inlined where vectors of the processor are known.

use rten_simd::SimdUnaryOp;
use rten_vecmath::{Cos, Erf, Exp, Sin};

use super::log::log;
use crate::function::{Float1, Float2, Int1};
use crate::known::{Comparison, Fold, modulo};

#[inline(always)]
pub(crate) fn truth(truth: bool) -> f32 {
    f32::from(u8::from(truth))
}

#[inline(always)]
pub(super) fn each<A: Copy, B>(from: &[A], to: &mut [B], function: impl Fn(A) -> B) {
    for (to, from) in std::iter::zip(to, from) {
        *to = function(*from);
    }
}

#[inline(always)]
fn both<A: Copy, B>(one: &[A], other: &[A], to: &mut [B], function: impl Fn(A, A) -> B) {
    for (to, (one, other)) in std::iter::zip(to, std::iter::zip(one, other)) {
        *to = function(*one, *other);
    }
}

#[inline(always)]
pub(super) fn compare<T: PartialOrd + Copy>(
    comparison: Comparison,
    one: &[T],
    other: &[T],
    to: &mut [f32],
) {
    use Comparison::{Equal, Greater, GreaterOrEqual, Less, LessOrEqual, NotEqual};
    match comparison {
        Equal => both(one, other, to, |a, b| truth(a == b)),
        NotEqual => both(one, other, to, |a, b| truth(a != b)),
        Less => both(one, other, to, |a, b| truth(a < b)),
        LessOrEqual => both(one, other, to, |a, b| truth(a <= b)),
        Greater => both(one, other, to, |a, b| truth(a > b)),
        GreaterOrEqual => both(one, other, to, |a, b| truth(a >= b)),
    }
}

#[inline(always)]
pub(super) fn select<T: Copy>(condition: &[f32], one: &[T], other: &[T], to: &mut [T]) {
    let operands = std::iter::zip(condition, std::iter::zip(one, other));
    for (to, (condition, (one, other))) in std::iter::zip(to, operands) {
        *to = if *condition == 0.0 { *other } else { *one };
    }
}

#[inline(always)]
pub(super) fn max(a: f32, b: f32) -> f32 {
    // If one is NaN, so is the sum.
    if a > b {
        a
    } else if a <= b {
        b
    } else {
        a + b
    }
}

#[inline(always)]
pub(super) fn min(a: f32, b: f32) -> f32 {
    if a < b {
        a
    } else if a >= b {
        b
    } else {
        a + b
    }
}

#[inline(always)]
pub(super) fn float2(function: Float2, one: &[f32], other: &[f32], to: &mut [f32]) {
    match function {
        Float2::Add => both(one, other, to, |a, b| a + b),
        Float2::Sub => both(one, other, to, |a, b| a - b),
        Float2::Mul => both(one, other, to, |a, b| a * b),
        Float2::Div => both(one, other, to, |a, b| a / b),
        Float2::Max => both(one, other, to, max),
        Float2::Min => both(one, other, to, min),
        Float2::Pow => both(one, other, to, f32::powf),
        Float2::Rest => both(one, other, to, |a, b| a % b),
    }
}

#[inline(always)]
pub(super) fn float1(function: Float1, from: &[f32], to: &mut [f32]) {
    /// Applies a function of vectors, which finds the processor's by itself.
    macro_rules! vectors {
        ($operation:expr) => {{
            to.copy_from_slice(from);
            $operation.map_mut(to);
        }};
    }
    match function {
        Float1::Abs => each(from, to, f32::abs),
        Float1::Activation(activation) => {
            to.copy_from_slice(from);
            recurrent_layers::activate(activation, to);
        }
        Float1::Ceil => each(from, to, f32::ceil),
        Float1::Cos => vectors!(Cos::new()),
        Float1::Erf => vectors!(Erf {}),
        Float1::Exp => vectors!(Exp {}),
        Float1::Floor => each(from, to, f32::floor),
        Float1::IsNan => each(from, to, |it| truth(it.is_nan())),
        Float1::Log => each(from, to, log),
        Float1::Neg => each(from, to, |it| -it),
        Float1::Not => each(from, to, |it| truth(it == 0.0)),
        Float1::Reciprocal => each(from, to, |it| 1.0 / it),
        Float1::Round => each(from, to, f32::round_ties_even),
        Float1::Sign => each(from, to, |it| {
            if it > 0.0 {
                1.0
            } else if it < 0.0 {
                -1.0
            } else {
                it * 0.0
            }
        }),
        Float1::Sin => vectors!(Sin::new()),
        Float1::Sqrt => each(from, to, f32::sqrt),
    }
}

#[inline(always)]
pub(super) fn int1(function: Int1, from: &[i64], to: &mut [i64]) {
    match function {
        Int1::Abs => each(from, to, i64::wrapping_abs),
        Int1::Neg => each(from, to, i64::wrapping_neg),
        Int1::Sign => each(from, to, i64::signum),
        Int1::Wrap => each(from, to, |it| i64::from(it as i32)),
    }
}

#[inline(always)]
pub(super) fn int2(function: Fold, one: &[i64], other: &[i64], to: &mut [i64]) {
    match function {
        Fold::Add => both(one, other, to, i64::wrapping_add),
        Fold::Sub => both(one, other, to, i64::wrapping_sub),
        Fold::Mul => both(one, other, to, i64::wrapping_mul),
        Fold::Div => both(one, other, to, |a, b| match b {
            0 => 0,
            _ => a.wrapping_div(b),
        }),
        Fold::Mod { of_dividend } => both(one, other, to, |a, b| {
            modulo(a, b, of_dividend).unwrap_or_default()
        }),
        Fold::Min => both(one, other, to, i64::min),
        Fold::Max => both(one, other, to, i64::max),
        Fold::And => both(one, other, to, |a, b| a & b),
        Fold::Or => both(one, other, to, |a, b| a | b),
        Fold::Xor => both(one, other, to, |a, b| a ^ b),
        Fold::Compare(comparison) => {
            both(one, other, to, |a, b| comparison.holds(a, b).into());
        }
    }
}
