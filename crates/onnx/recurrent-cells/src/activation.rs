//! Activation functions.

use crate::{MAXIMUM_DEPTH, Operator, Step, sum::Part};

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
    /// The identity.
    pub(crate) const NONE: Self = Self::Affine {
        alpha: 1.0,
        beta: 0.0,
    };

    /// ONNX's name.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Affine { .. } => "Affine",
            Self::Elu { .. } => "Elu",
            Self::HardSigmoid { .. } => "HardSigmoid",
            Self::LeakyRelu { .. } => "LeakyRelu",
            Self::Relu => "Relu",
            Self::ScaledTanh { .. } => "ScaledTanh",
            Self::Sigmoid => "Sigmoid",
            Self::Softplus => "Softplus",
            Self::Softsign => "Softsign",
            Self::Tanh => "Tanh",
            Self::ThresholdedRelu { .. } => "ThresholdedRelu",
        }
    }

    /// The constant `alpha`, if the function has one.
    #[must_use]
    pub fn alpha(self) -> Option<f32> {
        match self {
            Self::Affine { alpha, .. }
            | Self::Elu { alpha }
            | Self::HardSigmoid { alpha, .. }
            | Self::LeakyRelu { alpha }
            | Self::ScaledTanh { alpha, .. }
            | Self::ThresholdedRelu { alpha } => Some(alpha),
            _ => None,
        }
    }

    /// The constant `beta`, if the function has one.
    #[must_use]
    pub fn beta(self) -> Option<f32> {
        match self {
            Self::Affine { beta, .. }
            | Self::HardSigmoid { beta, .. }
            | Self::ScaledTanh { beta, .. } => Some(beta),
            _ => None,
        }
    }

    /// Whether 1 less the function is the function of the opposite argument.
    pub(crate) fn is_symmetric(self) -> bool {
        match self {
            Self::Sigmoid => true,
            Self::HardSigmoid { beta, .. } => beta == 0.5,
            _ => false,
        }
    }

    /// The function that makes a value, and its argument.
    pub(crate) fn of<S: Step>(step: &S, value: Part<S::Value>) -> Option<(Self, Part<S::Value>)> {
        let value = value.plain(step);
        // A bound may be an activation, too.
        if let Some((function, argument)) = hard_sigmoid(step, value.value) {
            return Some((function, value.of(argument)));
        }
        if let Some((function, argument)) = step.activation(value.value) {
            return Some((function, value.of(argument)));
        }
        let is_sum = step.operands(value.value, Operator::Add).is_some()
            || step.product(value.value).is_some();
        is_sum.then_some((Self::NONE, value))
    }
}

/// A ramp from 0 to 1, written as sums, products and bounds.
fn hard_sigmoid<S: Step>(step: &S, value: S::Value) -> Option<(Activation, S::Value)> {
    let ramp = Ramp::of(step, value, MAXIMUM_DEPTH)?;
    let is = |bound: f32, expected: f32| (bound - expected).abs() < 1e-6;
    let is_whole = is(ramp.low, 0.0) && is(ramp.high, 1.0) && ramp.scale > 0.0;
    let function = Activation::HardSigmoid {
        alpha: ramp.scale,
        beta: ramp.offset,
    };
    is_whole.then_some((function, ramp.input))
}

/// `scale · input + offset`, limited to two bounds.
struct Ramp<V> {
    input: V,
    scale: f32,
    offset: f32,
    low: f32,
    high: f32,
}

impl<V: Copy + PartialEq> Ramp<V> {
    fn of<S: Step<Value = V>>(step: &S, value: V, depth: usize) -> Option<Self> {
        let depth = depth.checked_sub(1)?;
        let value = step.plain(value);
        let inner = |value: V| Self::of(step, value, depth);
        // The variable operand and the constant.
        let parts = |operator| -> Option<(V, f32, bool)> {
            let [first, second] = step.operands(value, operator)?;
            match (step.number(first), step.number(second)) {
                (None, Some(number)) => Some((first, number, true)),
                (Some(number), None) => Some((second, number, false)),
                _ => None,
            }
        };
        // A factor ends the function unless there are bounds below it.
        let scaled = |argument: V, factor: f32| {
            let ramp = inner(argument)?;
            let ramp = if ramp.is_bounded() {
                ramp
            } else {
                Self::whole(argument)
            };
            (factor > 0.0).then(|| ramp.map(|value| value * factor, factor))
        };
        if let Some((argument, factor, _)) = parts(Operator::Mul) {
            return scaled(argument, factor);
        }
        if let Some((argument, divisor, true)) = parts(Operator::Div) {
            return scaled(argument, divisor.recip());
        }
        if let Some((argument, more, _)) = parts(Operator::Add) {
            return Some(inner(argument)?.map(|value| value + more, 1.0));
        }
        if let Some((argument, less, true)) = parts(Operator::Sub) {
            return Some(inner(argument)?.map(|value| value - less, 1.0));
        }
        if let Some((argument, least, _)) = parts(Operator::Max) {
            return Some(inner(argument)?.between(least, f32::INFINITY));
        }
        if let Some((argument, most, _)) = parts(Operator::Min) {
            return Some(inner(argument)?.between(f32::NEG_INFINITY, most));
        }
        if let Some((argument, low, high)) = step.bounded(value) {
            return Some(inner(argument)?.between(low, high));
        }
        Some(Self::whole(value))
    }

    fn whole(input: V) -> Self {
        Self {
            input,
            scale: 1.0,
            offset: 0.0,
            low: f32::NEG_INFINITY,
            high: f32::INFINITY,
        }
    }

    fn is_bounded(&self) -> bool {
        self.low.is_finite() || self.high.is_finite()
    }

    fn map(self, change: impl Fn(f32) -> f32, factor: f32) -> Self {
        Self {
            scale: self.scale * factor,
            offset: change(self.offset),
            low: change(self.low),
            high: change(self.high),
            ..self
        }
    }

    fn between(self, low: f32, high: f32) -> Self {
        Self {
            low: self.low.max(low),
            high: self.high.min(high),
            ..self
        }
    }
}
