//! The hyperbolic tangent and the logistic function, by vectors that stay in registers.
//!
//! Both are the quotient of two polynomials of degree 9 and 8, fitted to the tangent in
//! [-[`LIMIT`], [`LIMIT`]] with a relative error of 5e-9; floats round it to 4e-7. tract's functions
//! are called for a slice; with those of the crate rten-vecmath, which take powers first, a step of
//! 16 or 32 units takes 4 to 18 % longer (docs/notebook.md, M54).
//!
//! ```text
//! tanh(x) = x P(x²) / Q(x²)      1 / (1 + exp(-x)) = 1/2 + tanh(x/2) / 2
//! ```

use rten_simd::ops::{BitOps, FloatOps, NumOps};
use rten_simd::{Isa, SimdUnaryOp};

/// Argument beyond which the tangent is 1: so a gate closes, and a state that is held stays what it
/// is for any number of steps.
const LIMIT: f32 = 7.8;

const P: [f32; 5] = [
    1.0,
    0.134_567,
    3.586_345_8e-3,
    2.215_175_8e-5,
    1.562_730_2e-8,
];
const Q: [f32; 5] = [
    1.0,
    0.467_900_3,
    2.621_985_2e-2,
    3.435_965_3e-4,
    8.675_391e-7,
];

/// The coefficients for half of an argument, and, if `first` is 1/4, half of a result. Powers of
/// two do not round.
const fn halved(coefficients: [f32; 5], first: f32) -> [f32; 5] {
    let [a, b, c, d, e] = coefficients;
    [
        a * first,
        b * first / 4.0,
        c * first / 16.0,
        d * first / 64.0,
        e * first / 256.0,
    ]
}

/// The hyperbolic tangent. NaN stays NaN.
#[derive(Default)]
pub(crate) struct Tanh;

impl SimdUnaryOp<f32> for Tanh {
    #[inline(always)]
    fn eval<I: Isa>(&self, isa: I, x: I::F32) -> I::F32 {
        quotient(isa, x, LIMIT, 1.0, &P, &Q)
    }
}

/// The logistic function, which ONNX calls Sigmoid. NaN stays NaN.
#[derive(Default)]
pub(crate) struct Sigmoid;

impl SimdUnaryOp<f32> for Sigmoid {
    #[inline(always)]
    fn eval<I: Isa>(&self, isa: I, x: I::F32) -> I::F32 {
        let (p, q) = const { (halved(P, 0.25), halved(Q, 1.0)) };
        let ops = isa.f32();
        let half = quotient(isa, x, 2.0 * LIMIT, 0.5, &p, &q);
        ops.add(half, ops.splat(0.5))
    }
}

/// `x P(x²) / Q(x²)`, or beyond a limit `most` with the sign of `x`. No minimum or maximum: of NaN,
/// they are a number on some processors.
#[inline(always)]
fn quotient<I: Isa>(
    isa: I,
    x: I::F32,
    limit: f32,
    most: f32,
    p: &[f32; 5],
    q: &[f32; 5],
) -> I::F32 {
    let ops = isa.f32();
    let square = ops.mul(x, x);
    let within = ops.div(
        ops.mul(x, polynomial(isa, square, p)),
        polynomial(isa, square, q),
    );
    let above = ops.gt(x, ops.splat(limit));
    let below = ops.lt(x, ops.splat(-limit));
    let bounded = ops.select(ops.splat(most), within, above);
    ops.select(ops.splat(-most), bounded, below)
}

#[inline(always)]
fn polynomial<I: Isa>(isa: I, x: I::F32, [a, b, c, d, e]: &[f32; 5]) -> I::F32 {
    let ops = isa.f32();
    let sum = ops.mul_add(ops.splat(*e), x, ops.splat(*d));
    let sum = ops.mul_add(sum, x, ops.splat(*c));
    let sum = ops.mul_add(sum, x, ops.splat(*b));
    ops.mul_add(sum, x, ops.splat(*a))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_are_those_of_rounding() {
        let numbers = |scale: f32| (-32_000..32_000).map(move |it| it as f32 * scale);
        let all: Vec<f32> = numbers(1e-3).chain(numbers(1e-6)).collect();
        let (mut tangents, mut logistic) = (all.clone(), all.clone());
        Tanh.map_mut(&mut tangents);
        Sigmoid.map_mut(&mut logistic);
        for (x, (tangent, logistic)) in std::iter::zip(all, std::iter::zip(tangents, logistic)) {
            let exact = f64::from(x).tanh();
            let bound = 4e-7 * exact.abs();
            assert!(
                (f64::from(tangent) - exact).abs() <= bound,
                "{x}: {tangent}"
            );
            let exact = 1.0 / (1.0 + f64::from(-x).exp());
            assert!(
                (f64::from(logistic) - exact).abs() <= 2.5e-7,
                "{x}: {logistic}"
            );
            assert!(
                tangent.abs() <= 1.0 && (0.0..=1.0).contains(&logistic),
                "{x}"
            );
        }
    }

    #[test]
    fn gates_close() {
        let numbers = [15.7, 100.0, 1e9, 1e30, f32::MAX, f32::INFINITY];
        for sign in [1.0, -1.0] {
            let mut tangents = numbers.map(|it| it * sign).repeat(16);
            let mut logistic = tangents.clone();
            Tanh.map_mut(&mut tangents);
            Sigmoid.map_mut(&mut logistic);
            assert!(tangents.iter().all(|it| *it == sign), "{tangents:?}");
            let closed = sign.max(0.0);
            assert!(logistic.iter().all(|it| *it == closed), "{logistic:?}");
        }
    }

    #[test]
    fn infinities_are_limits_and_nan_stays() {
        let numbers = [f32::INFINITY, f32::NEG_INFINITY, f32::MAX, f32::NAN, -0.0];
        for (at, number) in numbers.into_iter().enumerate() {
            // Beside other numbers of a vector.
            let mut tangents = [0.25; 64];
            tangents[at * 7] = number;
            let mut logistic = tangents;
            Tanh.map_mut(&mut tangents);
            Sigmoid.map_mut(&mut logistic);
            let (tangent, logistic) = (tangents[at * 7], logistic[at * 7]);
            if number.is_nan() {
                assert!(tangent.is_nan() && logistic.is_nan());
            } else {
                assert!(
                    (tangent - number.tanh()).abs() < 4e-7,
                    "{number}: {tangent}"
                );
                let exact = 1.0 / (1.0 + (-number).exp());
                assert!((logistic - exact).abs() < 4e-7, "{number}: {logistic}");
            }
            assert_eq!(
                tangents.iter().filter(|it| it.is_nan()).count(),
                usize::from(number.is_nan())
            );
        }
    }
}
