//! Activation functions.

use tract_onnx::pb::NodeProto;
use tract_onnx::tract_core::ops::binary::TypedBinOp;
use tract_onnx::tract_core::ops::logic::{Iff, comp_gte};
use tract_onnx::tract_core::ops::{math, nn};
use tract_onnx::tract_core::tract_linalg::element_wise::ElementWise;
use tract_onnx::tract_core::tract_linalg::routines::Func;
use tract_onnx::tract_hir::internal::*;

use super::Wiring;

/// An ONNX activation function with its constants.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Activation {
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
pub(super) struct Functions {
    sigmoid: Box<dyn ElementWise<f32>>,
    tanh: Box<dyn ElementWise<f32>>,
}

impl Functions {
    pub(super) fn new() -> TractResult<Self> {
        Ok(Self {
            sigmoid: Func::Sigmoid.ew_f32()?,
            tanh: Func::Tanh.ew_f32()?,
        })
    }
}

impl Activation {
    /// Applies the function in place.
    pub(super) fn apply(self, functions: &Functions, all: &mut [f32]) -> TractResult<()> {
        // Inlined into each arm, where the function is known, so that the loop is vectorised.
        #[inline(always)]
        fn each(all: &mut [f32], function: impl Fn(f32) -> f32) {
            for x in all {
                *x = function(*x);
            }
        }
        match self {
            Self::Sigmoid => functions.sigmoid.run(all)?,
            Self::Tanh => functions.tanh.run(all)?,
            Self::Relu => each(all, |x| x.max(0.0)),
            Self::Affine { alpha, beta } => each(all, |x| x * alpha + beta),
            Self::HardSigmoid { alpha, beta } => {
                each(all, |x| (x * alpha + beta).clamp(0.0, 1.0));
            }
            Self::ScaledTanh { alpha, beta } => {
                each(all, |x| x * beta);
                functions.tanh.run(all)?;
                each(all, |x| x * alpha);
            }
            // max(x, 0) + ln(1 + exp(-|x|)), which does not overflow.
            Self::Softplus => each(all, |x| x.max(0.0) + (-x.abs()).exp().ln_1p()),
            Self::Softsign => each(all, |x| x / (x.abs() + 1.0)),
            Self::LeakyRelu { alpha } => each(all, |x| if x >= 0.0 { x } else { x * alpha }),
            Self::Elu { alpha } => {
                each(all, |x| if x >= 0.0 { x } else { alpha * x.exp_m1() });
            }
            Self::ThresholdedRelu { alpha } => each(all, |x| if x >= alpha { x } else { 0.0 }),
        }
        Ok(())
    }

    pub(super) fn wire(
        self,
        to: &mut Wiring<'_>,
        name: &str,
        x: OutletId,
    ) -> TractResult<OutletId> {
        let constant = |to: &mut Wiring<'_>, value: f32| to.number(name, x, value);
        match self {
            // tract has no sigmoid for doubles.
            Self::Sigmoid if to.fact(x)?.datum_type == f64::datum_type() => {
                let one = constant(to, 1.0)?;
                let less = to.op(name, math::neg(), &[x])?;
                let exp = to.op(name, math::exp(), &[less])?;
                let sum = to.math(name, math::add(), &[exp, one])?;
                to.math(name, math::div(), &[one, sum])
            }
            Self::Sigmoid => to.op(name, nn::sigmoid(), &[x]),
            Self::Tanh => to.op(name, math::tanh(), &[x]),
            Self::Relu => {
                let zero = constant(to, 0.0)?;
                to.math(name, math::max(), &[x, zero])
            }
            Self::Affine { alpha, beta } => {
                let (alpha, beta) = (constant(to, alpha)?, constant(to, beta)?);
                let scaled = to.math(name, math::mul(), &[x, alpha])?;
                to.math(name, math::add(), &[scaled, beta])
            }
            Self::HardSigmoid { alpha, beta } => {
                let affine = Self::Affine { alpha, beta }.wire(to, name, x)?;
                clamp(to, name, affine, 0.0, 1.0)
            }
            Self::ScaledTanh { alpha, beta } => {
                let (alpha, beta) = (constant(to, alpha)?, constant(to, beta)?);
                let scaled = to.math(name, math::mul(), &[x, beta])?;
                let tanh = to.op(name, math::tanh(), &[scaled])?;
                to.math(name, math::mul(), &[tanh, alpha])
            }
            Self::Softplus => {
                // max(x, 0) + ln(1 + exp(-|x|)), which does not overflow.
                let one = constant(to, 1.0)?;
                let abs = to.op(name, math::abs(), &[x])?;
                let less = to.op(name, math::neg(), &[abs])?;
                let exp = to.op(name, math::exp(), &[less])?;
                let sum = to.math(name, math::add(), &[exp, one])?;
                let ln = to.op(name, math::ln(), &[sum])?;
                let relu = Self::Relu.wire(to, name, x)?;
                to.op(name, math::add(), &[relu, ln])
            }
            Self::Softsign => {
                let one = constant(to, 1.0)?;
                let abs = to.op(name, math::abs(), &[x])?;
                let sum = to.math(name, math::add(), &[abs, one])?;
                to.math(name, math::div(), &[x, sum])
            }
            Self::LeakyRelu { alpha } => {
                let alpha = constant(to, alpha)?;
                let scaled = to.math(name, math::mul(), &[x, alpha])?;
                at_least(to, name, x, 0.0, scaled)
            }
            Self::Elu { alpha } => {
                let (alpha, one) = (constant(to, alpha)?, constant(to, 1.0)?);
                let exp = to.op(name, math::exp(), &[x])?;
                let less = to.math(name, math::sub(), &[exp, one])?;
                let scaled = to.math(name, math::mul(), &[less, alpha])?;
                at_least(to, name, x, 0.0, scaled)
            }
            Self::ThresholdedRelu { alpha } => {
                let zero = constant(to, 0.0)?;
                at_least(to, name, x, alpha, zero)
            }
        }
    }
}

/// `x` where it is at least `bound`, `other` elsewhere.
fn at_least(
    to: &mut Wiring<'_>,
    name: &str,
    x: OutletId,
    bound: f32,
    other: OutletId,
) -> TractResult<OutletId> {
    let bound = to.number(name, x, bound)?;
    let is_so = to.math(name, TypedBinOp(comp_gte(), None), &[x, bound])?;
    to.math(name, Iff, &[is_so, x, other])
}

/// Clamps `x`.
pub(super) fn clamp(
    to: &mut Wiring<'_>,
    name: &str,
    x: OutletId,
    least: f32,
    most: f32,
) -> TractResult<OutletId> {
    let (least, most) = (to.number(name, x, least)?, to.number(name, x, most)?);
    let x = to.math(name, math::max(), &[x, least])?;
    to.math(name, math::min(), &[x, most])
}
