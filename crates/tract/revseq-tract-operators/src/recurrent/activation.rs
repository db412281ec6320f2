//! Activation functions.
//!
//! One type serves the operator and the fused program; what layers have is theirs.

use recurrent_layers::{Activation as OfLayer, activate};
use rten_simd::SimdUnaryOp;
use tract_onnx::tract_core::ops::element_wise::{ElementWiseMiniOp, ElementWiseOp};
use tract_onnx::tract_core::tract_linalg::multithread::par_chunks_mut;
use tract_onnx::tract_hir::internal::*;
use tract_onnx::tract_hir::tract_num_traits::Float;

use super::exponential::{Below, Mish};

/// A function of one number with its constants: those of ONNX's layers, and others of its operators.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Activation {
    OfLayer(OfLayer),
    Celu {
        alpha: f32,
    },
    Erf,
    Gelu,
    /// Gelu, approximated by a hyperbolic tangent.
    GeluTanh,
    HardSwish,
    Mish,
    /// Rounds to the nearest integer, the even one of two.
    Round,
    Selu {
        alpha: f32,
        gamma: f32,
    },
    Swish {
        alpha: f32,
    },
    /// The operator, which is 0 where that of layers is alpha.
    ThresholdedRelu {
        alpha: f32,
    },
}

/// The numbers that the functions take.
pub(crate) trait Number: Float {
    /// The nearest number.
    fn of(number: impl Into<f64>) -> Self;
    fn erf(self) -> Self;
    fn round_even(self) -> Self;
    /// Applies a function that layers have.
    fn all_of_layer(function: OfLayer, all: &mut [Self]);
    /// Applies a function by vectors, if there are such.
    fn by_vectors(function: Activation, all: &mut [Self]) -> bool;
}

impl Number for f32 {
    fn of(number: impl Into<f64>) -> Self {
        number.into() as Self
    }

    fn erf(self) -> Self {
        libm::erff(self)
    }

    fn round_even(self) -> Self {
        self.round_ties_even()
    }

    fn all_of_layer(function: OfLayer, all: &mut [Self]) {
        activate(function, all);
    }

    fn by_vectors(function: Activation, all: &mut [Self]) -> bool {
        let below = match function {
            Activation::Mish => {
                Mish.map_mut(all);
                return true;
            }
            Activation::Celu { alpha } if alpha > 0.0 => Below {
                above: 1.0,
                before: 1.0 / alpha,
                behind: alpha,
            },
            Activation::Selu { alpha, gamma } => Below {
                above: gamma,
                before: 1.0,
                behind: gamma * alpha,
            },
            _ => return false,
        };
        below.map_mut(all);
        true
    }
}

impl Number for f64 {
    fn of(number: impl Into<f64>) -> Self {
        number.into()
    }

    fn erf(self) -> Self {
        libm::erf(self)
    }

    fn round_even(self) -> Self {
        self.round_ties_even()
    }

    fn all_of_layer(function: OfLayer, all: &mut [Self]) {
        activate(function, all);
    }

    fn by_vectors(_function: Activation, _all: &mut [Self]) -> bool {
        false
    }
}

/// Replaces each number. Inlined where the function is known, so that the loop is vectorised.
#[inline(always)]
fn each<T: Copy>(all: &mut [T], function: impl Fn(T) -> T) {
    for x in all {
        *x = function(*x);
    }
}

/// `ln(1 + exp(x))`, which does not overflow.
#[inline(always)]
fn softplus<T: Number>(x: T) -> T {
    x.max(T::zero()) + (-x.abs()).exp().ln_1p()
}

impl Activation {
    /// Applies the function in place. NaN stays NaN, but for a function whose definition says
    /// otherwise.
    pub(crate) fn apply<T: Number>(self, all: &mut [T]) {
        if T::by_vectors(self, all) {
            return;
        }
        let (zero, one) = (T::zero(), T::one());
        match self {
            Self::OfLayer(function) => T::all_of_layer(function, all),
            Self::Mish => each(all, |x| x * softplus(x).tanh()),
            Self::Celu { alpha } => {
                let alpha = T::of(alpha);
                let below = |x: T| alpha * (x / alpha).exp_m1();
                each(all, |x| if x >= zero { x } else { below(x) });
            }
            Self::Selu { alpha, gamma } => {
                let (alpha, gamma) = (T::of(alpha), T::of(gamma));
                let below = |x: T| alpha * x.exp_m1();
                each(all, |x| gamma * if x > zero { x } else { below(x) });
            }
            Self::Swish { alpha } => {
                let alpha = T::of(alpha);
                each(all, |x| x / (one + (-alpha * x).exp()));
            }
            Self::ThresholdedRelu { alpha } => {
                let alpha = T::of(alpha);
                each(all, |x| if x > alpha { x } else { zero });
            }
            Self::HardSwish => {
                let (sixth, half) = (one / T::of(6.0), T::of(0.5));
                each(all, |x| x * (x * sixth + half).clamp(zero, one));
            }
            Self::Erf => each(all, T::erf),
            Self::Gelu => {
                let (half, root) = (T::of(0.5), T::of(2.0).sqrt());
                each(all, |x| half * x * (one + (x / root).erf()));
            }
            Self::GeluTanh => {
                let (half, cubic) = (T::of(0.5), T::of(0.044_715));
                let factor = T::of(std::f64::consts::FRAC_2_PI).sqrt();
                let inner = |x: T| factor * (x + cubic * x * x * x);
                each(all, |x| half * x * (one + inner(x).tanh()));
            }
            Self::Round => each(all, T::round_even),
        }
    }

    /// The function as an operator.
    pub(crate) fn op(self) -> ElementWiseOp {
        ElementWiseOp(Box::new(self), None)
    }
}

// A function whose constant is NaN differs from itself, so that tract does not merge such nodes.
impl Eq for Activation {}

impl ElementWiseMiniOp for Activation {
    fn name(&self) -> String {
        "Activation".to_owned()
    }

    fn validation(&self) -> Validation {
        Validation::Rounding
    }

    fn eval_in_place(&self, t: &mut Tensor, _out_dt: Option<DatumType>) -> TractResult<()> {
        fn apply<T: Number + Datum>(function: Activation, t: &mut Tensor) -> TractResult<()> {
            let mut plain = t.try_as_plain_ram_mut()?;
            let all = plain.as_slice_mut::<T>()?;
            let len = all.len();
            par_chunks_mut(all, 1, len, |_, part| {
                function.apply(part);
                Ok(())
            })
        }
        if t.datum_type().is::<f64>() {
            apply::<f64>(*self, t)
        } else {
            apply::<f32>(*self, t)
        }
    }
}
