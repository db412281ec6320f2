//! Celu, Selu and Mish of floats, by vectors.

use rten_simd::ops::{BitOps, FloatOps, NumOps};
use rten_simd::{Isa, SimdUnaryOp};

use crate::faster::softmax::exp;

/// The number from which on `exp(x) - 1` is a polynomial: the difference would lose digits.
const NEAR: f32 = -0.35;

/// Its coefficients, from the last one on.
const COEFFICIENTS: [f32; 6] = [
    1.0 / 720.0,
    1.0 / 120.0,
    1.0 / 24.0,
    1.0 / 6.0,
    1.0 / 2.0,
    1.0,
];

/// `exp(x) - 1` of numbers that are not above 0.
#[inline(always)]
fn exp_m1<I: Isa>(isa: I, x: I::F32) -> I::F32 {
    let ops = isa.f32();
    let mut near = ops.splat(1.0 / 5040.0);
    for coefficient in COEFFICIENTS {
        near = ops.mul_add(near, x, ops.splat(coefficient));
    }
    let far = ops.sub(exp(isa, x), ops.one());
    ops.select(ops.mul(near, x), far, ops.gt(x, ops.splat(NEAR)))
}

/// Above 0 a multiple of the number, below of `exp(x / alpha) - 1`.
pub(super) struct Below {
    /// What numbers above 0 are multiplied with.
    pub(super) above: f32,
    /// What numbers below 0 are multiplied with before.
    pub(super) before: f32,
    /// And what the power less 1 is multiplied with.
    pub(super) behind: f32,
}

impl SimdUnaryOp<f32> for Below {
    #[inline(always)]
    fn eval<I: Isa>(&self, isa: I, x: I::F32) -> I::F32 {
        let ops = isa.f32();
        let above = ops.mul(x, ops.splat(self.above));
        let power = exp_m1(isa, ops.mul(x, ops.splat(self.before)));
        let below = ops.mul(power, ops.splat(self.behind));
        ops.select(above, below, ops.gt(x, ops.zero()))
    }
}

/// `x tanh(ln(1 + exp(x)))`, by the power of -|x|, which does not overflow.
#[derive(Default)]
pub(super) struct Mish;

impl SimdUnaryOp<f32> for Mish {
    #[inline(always)]
    fn eval<I: Isa>(&self, isa: I, x: I::F32) -> I::F32 {
        let ops = isa.f32();
        let (one, two) = (ops.one(), ops.splat(2.0));
        let is_above = ops.gt(x, ops.zero());
        let power = exp(isa, ops.neg(ops.abs(x)));
        // Both sides times exp(-2 x) if x is above 0.
        let above = ops.mul_add(two, power, one);
        let below = ops.mul(power, ops.add(power, two));
        let dividend = ops.select(above, below, is_above);
        let rest = ops.select(ops.mul(two, ops.mul(power, power)), two, is_above);
        ops.mul(x, ops.div(dividend, ops.add(dividend, rest)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(function: &impl SimdUnaryOp<f32>, exact: impl Fn(f64) -> f64) {
        let numbers = (-40_000..40_000).map(|it| it as f32 * 1e-3);
        let all: Vec<f32> = numbers.chain([1e-6, -1e-6, 80.0, -80.0]).collect();
        let mut found = all.clone();
        function.map_mut(&mut found);
        for (x, found) in std::iter::zip(all, found) {
            let exact = exact(f64::from(x));
            let bound = 1e-6 * exact.abs() + 1e-12;
            assert!(
                (f64::from(found) - exact).abs() <= bound,
                "{x}: {found}, {exact}"
            );
        }
        let mut special = [f32::NAN, f32::INFINITY, 3.0];
        function.map_mut(&mut special);
        assert!(
            special[0].is_nan() && special[1] == f32::INFINITY,
            "{special:?}"
        );
    }

    #[test]
    fn values_are_those_of_doubles() {
        check(&Mish, |x| {
            let power = (-x.abs()).exp();
            x * (x.max(0.0) + power.ln_1p()).tanh()
        });
        let selu = Below {
            above: 1.05,
            before: 1.0,
            behind: 1.05 * 1.67,
        };
        let [above, behind] = [selu.above, selu.behind].map(f64::from);
        check(&selu, |x| {
            if x > 0.0 {
                x * above
            } else {
                x.exp_m1() * behind
            }
        });
        let celu = Below {
            above: 1.0,
            before: 0.5,
            behind: 2.0,
        };
        check(
            &celu,
            |x| if x > 0.0 { x } else { (x / 2.0).exp_m1() * 2.0 },
        );
    }
}
