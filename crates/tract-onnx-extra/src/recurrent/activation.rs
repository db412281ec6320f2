//! Activation functions.
//!
//! One type serves the operator, the fused program and the layer. A layer's Sigmoid and Tanh are
//! its own (`logistic.rs`). Constants that a node does not give are the defaults of ONNX
//! Runtime.

use recurrent_cells::Activation as OfLayer;
use tract_onnx::pb::NodeProto;
use tract_onnx::tract_core::ops::element_wise::{ElementWiseMiniOp, ElementWiseOp};
use tract_onnx::tract_core::tract_linalg::multithread::par_chunks_mut;
use tract_onnx::tract_core::tract_linalg::routines::Func;
use tract_onnx::tract_hir::internal::*;
use tract_onnx::tract_hir::tract_num_traits::Float;

use crate::repairs::kernel::Kernel;

/// A function of one number with its constants: those of ONNX's layers, and others of its operators.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Activation {
    Affine {
        alpha: f32,
        beta: f32,
    },
    Celu {
        alpha: f32,
    },
    Elu {
        alpha: f32,
    },
    Erf,
    Gelu,
    /// Gelu, approximated by a hyperbolic tangent.
    GeluTanh,
    HardSigmoid {
        alpha: f32,
        beta: f32,
    },
    HardSwish,
    LeakyRelu {
        alpha: f32,
    },
    Mish,
    Relu,
    /// Rounds to the nearest integer, the even one of two.
    Round,
    ScaledTanh {
        alpha: f32,
        beta: f32,
    },
    Selu {
        alpha: f32,
        gamma: f32,
    },
    Sigmoid,
    Softplus,
    Softsign,
    Swish {
        alpha: f32,
    },
    Tanh,
    ThresholdedRelu {
        alpha: f32,
    },
}

impl From<OfLayer> for Activation {
    fn from(activation: OfLayer) -> Self {
        match activation {
            OfLayer::Affine { alpha, beta } => Self::Affine { alpha, beta },
            OfLayer::Elu { alpha } => Self::Elu { alpha },
            OfLayer::HardSigmoid { alpha, beta } => Self::HardSigmoid { alpha, beta },
            OfLayer::LeakyRelu { alpha } => Self::LeakyRelu { alpha },
            OfLayer::Relu => Self::Relu,
            OfLayer::ScaledTanh { alpha, beta } => Self::ScaledTanh { alpha, beta },
            OfLayer::Sigmoid => Self::Sigmoid,
            OfLayer::Softplus => Self::Softplus,
            OfLayer::Softsign => Self::Softsign,
            OfLayer::Tanh => Self::Tanh,
            OfLayer::ThresholdedRelu { alpha } => Self::ThresholdedRelu { alpha },
        }
    }
}

impl Activation {
    /// The function as one of a layer, if ONNX's layers have it.
    pub(crate) fn of_layer(self) -> Option<OfLayer> {
        Some(match self {
            Self::Affine { alpha, beta } => OfLayer::Affine { alpha, beta },
            Self::Elu { alpha } => OfLayer::Elu { alpha },
            Self::HardSigmoid { alpha, beta } => OfLayer::HardSigmoid { alpha, beta },
            Self::LeakyRelu { alpha } => OfLayer::LeakyRelu { alpha },
            Self::Relu => OfLayer::Relu,
            Self::ScaledTanh { alpha, beta } => OfLayer::ScaledTanh { alpha, beta },
            Self::Sigmoid => OfLayer::Sigmoid,
            Self::Softplus => OfLayer::Softplus,
            Self::Softsign => OfLayer::Softsign,
            Self::Tanh => OfLayer::Tanh,
            Self::ThresholdedRelu { alpha } => OfLayer::ThresholdedRelu { alpha },
            _ => return None,
        })
    }
}

/// Reads the functions of each direction of a node.
pub(super) fn read(
    node: &NodeProto,
    default: &[Activation],
    directions: usize,
) -> TractResult<Vec<Vec<Activation>>> {
    let Some(names) = node.get_attr_opt_vec::<String>("activations")? else {
        return Ok(vec![default.to_vec(); directions]);
    };
    ensure!(
        names.len() == default.len() * directions,
        "it has {} activations, expected {} for each of {directions} directions",
        names.len(),
        default.len()
    );
    let constants = |name: &str| -> TractResult<std::vec::IntoIter<f32>> {
        let constants = node.get_attr_opt_vec::<f32>(name)?;
        Ok(constants.unwrap_or_default().into_iter())
    };
    let (mut alphas, mut betas) = (
        constants("activation_alpha")?,
        constants("activation_beta")?,
    );
    // Functions with such a constant take the next one in the list, as in ONNX Runtime.
    let mut alpha = |default: f32| alphas.next().unwrap_or(default);
    let mut beta = |default: f32| betas.next().unwrap_or(default);
    let functions = names.iter().map(|name| {
        Ok(match name.to_ascii_lowercase().as_str() {
            "affine" => Activation::Affine {
                alpha: alpha(1.0),
                beta: beta(0.0),
            },
            "elu" => Activation::Elu { alpha: alpha(1.0) },
            "hardsigmoid" => Activation::HardSigmoid {
                alpha: alpha(0.2),
                beta: beta(0.5),
            },
            "leakyrelu" => Activation::LeakyRelu { alpha: alpha(0.01) },
            "relu" => Activation::Relu,
            "scaledtanh" => Activation::ScaledTanh {
                alpha: alpha(1.0),
                beta: beta(1.0),
            },
            "sigmoid" => Activation::Sigmoid,
            "softplus" => Activation::Softplus,
            "softsign" => Activation::Softsign,
            "tanh" => Activation::Tanh,
            "thresholdedrelu" => Activation::ThresholdedRelu { alpha: alpha(1.0) },
            _ => bail!("its activation {name:?} is not one of ONNX's"),
        })
    });
    let functions: Vec<Activation> = functions.collect::<TractResult<_>>()?;
    Ok(functions.chunks(default.len()).map(<[_]>::to_vec).collect())
}

/// tract's vectorised functions.
#[derive(Clone, Debug)]
pub(crate) struct Functions {
    sigmoid: Kernel,
    tanh: Kernel,
}

impl Functions {
    pub(crate) fn new() -> TractResult<Self> {
        Ok(Self {
            sigmoid: Kernel::new(Func::Sigmoid)?,
            tanh: Kernel::new(Func::Tanh)?,
        })
    }
}

/// The numbers that layers compute with.
pub(crate) trait Number: Float {
    /// The nearest number.
    fn of(number: impl Into<f64>) -> Self;
    fn erf(self) -> Self;
    fn round_even(self) -> Self;
    fn all_sigmoid(functions: &Functions, all: &mut [Self]) -> TractResult<()>;
    fn all_tanh(functions: &Functions, all: &mut [Self]) -> TractResult<()>;
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

    fn all_sigmoid(functions: &Functions, all: &mut [Self]) -> TractResult<()> {
        functions.sigmoid.run(all)
    }

    fn all_tanh(functions: &Functions, all: &mut [Self]) -> TractResult<()> {
        functions.tanh.run(all)
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

    fn all_sigmoid(_functions: &Functions, all: &mut [Self]) -> TractResult<()> {
        each(all, |x| 1.0 / (1.0 + (-x).exp()));
        Ok(())
    }

    fn all_tanh(_functions: &Functions, all: &mut [Self]) -> TractResult<()> {
        each(all, f64::tanh);
        Ok(())
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

/// The function of a gate: an activation, behind a clip if there is one. NaN stays NaN, but for an
/// activation whose definition says otherwise.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct GateFunction {
    pub(crate) clip: Option<f32>,
    pub(crate) activation: Activation,
}

impl GateFunction {
    /// Applies the clip in place.
    #[inline(always)]
    pub(super) fn bound<T: Number>(self, all: &mut [T]) {
        if let Some(clip) = self.clip {
            let clip = T::of(clip);
            each(all, |x| clamped(x, -clip, clip));
        }
    }

    /// Applies the function in place.
    pub(crate) fn apply<T: Number>(self, functions: &Functions, all: &mut [T]) -> TractResult<()> {
        self.bound(all);
        let (zero, one) = (T::zero(), T::one());
        match self.activation {
            Activation::Sigmoid => T::all_sigmoid(functions, all)?,
            Activation::Tanh => T::all_tanh(functions, all)?,
            Activation::Relu => each(all, |x| if x < zero { zero } else { x }),
            Activation::Affine { alpha, beta } => {
                let (alpha, beta) = (T::of(alpha), T::of(beta));
                each(all, |x| x * alpha + beta);
            }
            Activation::HardSigmoid { alpha, beta } => {
                let (alpha, beta) = (T::of(alpha), T::of(beta));
                each(all, |x| clamped(x * alpha + beta, zero, one));
            }
            Activation::ScaledTanh { alpha, beta } => {
                let (alpha, beta) = (T::of(alpha), T::of(beta));
                each(all, |x| x * beta);
                T::all_tanh(functions, all)?;
                each(all, |x| x * alpha);
            }
            Activation::Softplus => each(all, softplus),
            Activation::Mish => each(all, |x| x * softplus(x).tanh()),
            Activation::Softsign => each(all, |x| x / (x.abs() + one)),
            Activation::LeakyRelu { alpha } => {
                let alpha = T::of(alpha);
                each(all, |x| if x >= zero { x } else { x * alpha });
            }
            Activation::Elu { alpha } => {
                let alpha = T::of(alpha);
                each(all, |x| if x >= zero { x } else { alpha * x.exp_m1() });
            }
            Activation::Celu { alpha } => {
                let alpha = T::of(alpha);
                let below = |x: T| alpha * (x / alpha).exp_m1();
                each(all, |x| if x >= zero { x } else { below(x) });
            }
            Activation::Selu { alpha, gamma } => {
                let (alpha, gamma) = (T::of(alpha), T::of(gamma));
                let below = |x: T| alpha * x.exp_m1();
                each(all, |x| gamma * if x > zero { x } else { below(x) });
            }
            Activation::Swish { alpha } => {
                let alpha = T::of(alpha);
                each(all, |x| x / (one + (-alpha * x).exp()));
            }
            Activation::HardSwish => {
                let (sixth, half) = (one / T::of(6.0), T::of(0.5));
                each(all, |x| x * clamped(x * sixth + half, zero, one));
            }
            Activation::Erf => each(all, T::erf),
            Activation::Gelu => {
                let (half, root) = (T::of(0.5), T::of(2.0).sqrt());
                each(all, |x| half * x * (one + (x / root).erf()));
            }
            Activation::GeluTanh => {
                let (half, cubic) = (T::of(0.5), T::of(0.044_715));
                let factor = T::of(std::f64::consts::FRAC_2_PI).sqrt();
                let inner = |x: T| factor * (x + cubic * x * x * x);
                each(all, |x| half * x * (one + inner(x).tanh()));
            }
            Activation::Round => each(all, T::round_even),
            Activation::ThresholdedRelu { alpha } => {
                let alpha = T::of(alpha);
                each(all, |x| if x >= alpha { x } else { zero });
            }
        }
        Ok(())
    }

    /// The function as an operator.
    pub(crate) fn op(self) -> ElementWiseOp {
        ElementWiseOp(Box::new(self), None)
    }
}

// A function whose constant is NaN differs from itself, so that tract does not merge such nodes.
impl Eq for GateFunction {}

impl ElementWiseMiniOp for GateFunction {
    fn name(&self) -> String {
        "GateFunction".to_owned()
    }

    fn validation(&self) -> Validation {
        Validation::Rounding
    }

    fn eval_in_place(&self, t: &mut Tensor, _out_dt: Option<DatumType>) -> TractResult<()> {
        fn apply<T: Number + Datum>(function: GateFunction, t: &mut Tensor) -> TractResult<()> {
            let functions = Functions::new()?;
            let mut plain = t.try_as_plain_ram_mut()?;
            let all = plain.as_slice_mut::<T>()?;
            let len = all.len();
            par_chunks_mut(all, 1, len, |_, part| function.apply(&functions, part))
        }
        if t.datum_type().is::<f64>() {
            apply::<f64>(*self, t)
        } else {
            apply::<f32>(*self, t)
        }
    }
}
