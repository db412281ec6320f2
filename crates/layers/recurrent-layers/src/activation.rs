//! The activations of gates.

use rten_simd::{Isa, SimdOp};

use crate::attributes::wrong;
use crate::element::Element;
use crate::error::Error;

/// The function of a gate: an activation, behind a clip if there is one. NaN stays NaN, but for an
/// activation whose definition says otherwise.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct GateFunction {
    pub(crate) clip: Option<f32>,
    pub(crate) activation: Activation,
}

/// An activation function of ONNX's layers, with its constants.
#[derive(Clone, Copy, Debug, PartialEq)]
#[allow(missing_docs, reason = "ONNX's names")]
pub enum Activation {
    Affine { alpha: f32, beta: f32 },
    Elu { alpha: f32 },
    HardSigmoid { alpha: f32, beta: f32 },
    LeakyRelu { alpha: f32 },
    Relu,
    ScaledTanh { alpha: f32, beta: f32 },
    Sigmoid,
    Softplus,
    Softsign,
    Tanh,
    ThresholdedRelu { alpha: f32 },
}

impl Activation {
    /// The activation of a name, in small or large letters.
    ///
    /// A function that has a constant takes the next one of its list, as in ONNX Runtime, and one that is
    /// not there has ONNX Runtime's default.
    pub(crate) fn of(
        name: &str,
        alphas: &mut impl Iterator<Item = f32>,
        betas: &mut impl Iterator<Item = f32>,
    ) -> Result<Self, Error> {
        let mut alpha = |default: f32| alphas.next().unwrap_or(default);
        let mut beta = |default: f32| betas.next().unwrap_or(default);
        Ok(match &*name.to_ascii_lowercase() {
            "affine" => Self::Affine {
                alpha: alpha(0.0),
                beta: beta(0.0),
            },
            "elu" => Self::Elu { alpha: alpha(1.0) },
            "hardsigmoid" => Self::HardSigmoid {
                alpha: alpha(0.2),
                beta: beta(0.5),
            },
            "leakyrelu" => Self::LeakyRelu { alpha: alpha(0.01) },
            "relu" => Self::Relu,
            "scaledtanh" => Self::ScaledTanh {
                alpha: alpha(0.0),
                beta: beta(0.0),
            },
            "sigmoid" => Self::Sigmoid,
            "softplus" => Self::Softplus,
            "softsign" => Self::Softsign,
            "tanh" => Self::Tanh,
            "thresholdedrelu" => Self::ThresholdedRelu { alpha: alpha(0.0) },
            _ => return wrong("activation", format!("{name:?}"), NAMES),
        })
    }
}

/// ONNX's names of the functions.
const NAMES: &str = "Affine, Elu, HardSigmoid, LeakyRelu, Relu, ScaledTanh, Sigmoid, Softplus, Softsign, \
                     Tanh or ThresholdedRelu";

/// Applies an activation to each number, in place.
///
/// Sigmoid is exactly 0 and 1, and Tanh -1 and 1, for arguments that are large enough; NaN stays
/// NaN. The results do not depend on the place of a number.
pub fn activate<T: Element>(activation: Activation, numbers: &mut [T]) {
    struct Activate<'a, T> {
        function: GateFunction,
        numbers: &'a mut [T],
    }
    impl<T: Element> SimdOp for Activate<'_, T> {
        type Output = ();

        #[inline(always)]
        fn eval<I: Isa>(self, isa: I) {
            let whole = self.numbers.len() / T::lanes(isa) * T::lanes(isa);
            let (whole, rest) = self.numbers.split_at_mut(whole);
            self.function.apply(isa, whole);
            // The rest of a vector.
            let mut padded = [T::zero(); MAXIMUM_LANES];
            let padded = &mut padded[..T::lanes(isa)];
            padded[..rest.len()].copy_from_slice(rest);
            self.function.apply(isa, padded);
            rest.copy_from_slice(&padded[..rest.len()]);
        }
    }
    let function = GateFunction {
        clip: None,
        activation,
    };
    Activate { function, numbers }.dispatch();
}

/// The most numbers of a vector: the floats of AVX-512.
const MAXIMUM_LANES: usize = 16;

impl GateFunction {
    /// Applies the function in place, to whole vectors.
    #[inline(always)]
    pub(crate) fn apply<T: Element, I: Isa>(self, isa: I, all: &mut [T]) {
        if let Some(clip) = self.clip {
            let clip = T::of(clip);
            each(all, |x| clamped(x, -clip, clip));
        }
        match self.activation {
            Activation::Sigmoid => T::sigmoid_all(isa, all),
            Activation::Tanh => T::tanh_all(isa, all),
            Activation::ScaledTanh { alpha, beta } => {
                let (alpha, beta) = (T::of(alpha), T::of(beta));
                each(all, |x| x * beta);
                T::tanh_all(isa, all);
                each(all, |x| x * alpha);
            }
            activation => OneByOne {
                activation,
                numbers: all,
            }
            .dispatch(),
        }
    }
}

/// The application of an activation other than the logistic function and the hyperbolic tangent.
struct OneByOne<'a, T> {
    activation: Activation,
    numbers: &'a mut [T],
}

impl<T: Element> SimdOp for OneByOne<'_, T> {
    type Output = ();

    // For the instructions of the processor, but not within those who apply it.
    #[inline(always)]
    fn eval<I: Isa>(self, _isa: I) {
        one_by_one(self.activation, self.numbers);
    }
}

#[inline(always)]
fn one_by_one<T: Element>(activation: Activation, all: &mut [T]) {
    let (zero, one) = (T::zero(), T::one());
    match activation {
        Activation::Affine { alpha, beta } => {
            let (alpha, beta) = (T::of(alpha), T::of(beta));
            each(all, |x| x * alpha + beta);
        }
        Activation::Elu { alpha } => {
            let alpha = T::of(alpha);
            each(all, |x| if x >= zero { x } else { alpha * x.exp_m1() });
        }
        Activation::HardSigmoid { alpha, beta } => {
            let (alpha, beta) = (T::of(alpha), T::of(beta));
            each(all, |x| clamped(x * alpha + beta, zero, one));
        }
        Activation::LeakyRelu { alpha } => {
            let alpha = T::of(alpha);
            each(all, |x| if x >= zero { x } else { x * alpha });
        }
        Activation::Relu => each(all, |x| if x < zero { zero } else { x }),
        Activation::Softplus => each(all, |x| softplus(x)),
        Activation::Softsign => each(all, |x| x / (x.abs() + one)),
        Activation::ThresholdedRelu { alpha } => {
            let alpha = T::of(alpha);
            each(all, |x| if x >= alpha { x } else { zero });
        }
        Activation::ScaledTanh { .. } | Activation::Sigmoid | Activation::Tanh => {}
    }
}

/// `ln(1 + exp(x))`, which does not overflow.
#[inline(always)]
fn softplus<T: Element>(x: T) -> T {
    let most = if x > T::zero() { x } else { T::zero() };
    most + (-x.abs()).exp().ln_1p()
}

/// Replaces each number. Inlined where the function is known, so that the loop is vectorised.
#[inline(always)]
fn each<T: Copy>(all: &mut [T], function: impl Fn(T) -> T) {
    for x in all {
        *x = function(*x);
    }
}

/// A number clamped, where NaN stays NaN.
#[inline(always)]
fn clamped<T: PartialOrd>(x: T, least: T, most: T) -> T {
    if x < least {
        least
    } else if x > most {
        most
    } else {
        x
    }
}
