//! Activation functions.

use super::step;
use super::sum::Columns;
use crate::passes::steps::body::{Body, MAXIMUM_STEPS, operands};

/// The functions of ONNX that layers have, too, with the defaults of their constants.
const FUNCTIONS: [(&str, Option<f32>, Option<f32>); 9] = [
    ("Elu", Some(1.0), None),
    ("HardSigmoid", Some(0.2), Some(0.5)),
    ("LeakyRelu", Some(0.01), None),
    ("Relu", None, None),
    ("Sigmoid", None, None),
    ("Softplus", None, None),
    ("Softsign", None, None),
    ("Tanh", None, None),
    ("ThresholdedRelu", Some(1.0), None),
];

/// An activation function of ONNX's layers, by its name and its constants.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Activation {
    pub(crate) name: &'static str,
    pub(crate) alpha: Option<f32>,
    pub(crate) beta: Option<f32>,
}

impl Activation {
    /// The identity.
    pub(super) const NONE: Self = Self {
        name: "Affine",
        alpha: Some(1.0),
        beta: Some(0.0),
    };

    /// Whether 1 less the function is the function of the opposite argument.
    pub(super) fn is_symmetric(self) -> bool {
        self.name == "Sigmoid" || self.name == "HardSigmoid" && self.beta == Some(0.5)
    }

    /// The function that makes a value, and its argument.
    pub(super) fn of<'a>(body: &Body<'a>, value: Columns<'a>) -> Option<(Self, Columns<'a>)> {
        let value = value.plain(body);
        // A bound may be an activation, too.
        if let Some((function, argument)) = hard_sigmoid(body, value.value) {
            return Some((function, value.of(argument)));
        }
        if let Some((function, argument)) = function(body, value.value) {
            return Some((function, value.of(argument)));
        }
        let is_sum = operands(body.inner, value.value, "Add").is_some()
            || step::product(body, value.value).is_some();
        is_sum.then_some((Self::NONE, value))
    }
}

/// The function that one operator is, and its argument.
fn function<'a>(body: &Body<'a>, value: &'a str) -> Option<(Activation, &'a str)> {
    let (_, node) = body.inner.maker(value)?;
    if !node.domain().is_empty() {
        return None;
    }
    let (name, alpha, beta) = FUNCTIONS.into_iter().find(|it| it.0 == node.op())?;
    let constant = |name: &str, default: Option<f32>| match default {
        Some(default) => node.float(name).or(default).map(Some),
        None => Some(None),
    };
    let function = Activation {
        name,
        alpha: constant("alpha", alpha)?,
        beta: constant("beta", beta)?,
    };
    Some((function, node.input(0)?))
}

/// A ramp from 0 to 1, written as sums, products and bounds.
fn hard_sigmoid<'a>(body: &Body<'a>, value: &'a str) -> Option<(Activation, &'a str)> {
    let ramp = Ramp::of(body, value, MAXIMUM_STEPS)?;
    let is = |bound: f32, expected: f32| (bound - expected).abs() < 1e-6;
    let is_whole = is(ramp.low, 0.0) && is(ramp.high, 1.0) && ramp.scale > 0.0;
    let function = Activation {
        name: "HardSigmoid",
        alpha: Some(ramp.scale),
        beta: Some(ramp.offset),
    };
    is_whole.then_some((function, ramp.input))
}

/// `scale · input + offset`, limited to two bounds.
struct Ramp<'a> {
    input: &'a str,
    scale: f32,
    offset: f32,
    low: f32,
    high: f32,
}

impl<'a> Ramp<'a> {
    fn of(body: &Body<'a>, value: &'a str, depth: usize) -> Option<Self> {
        let depth = depth.checked_sub(1)?;
        let value = body.plain(value);
        let inner = |value: &'a str| Self::of(body, value, depth);
        // The variable operand and the constant.
        let parts = |operator| -> Option<(&'a str, f32, bool)> {
            let (first, second) = operands(body.inner, value, operator)?;
            match (body.number(first), body.number(second)) {
                (None, Some(number)) => Some((first, number, true)),
                (Some(number), None) => Some((second, number, false)),
                _ => None,
            }
        };
        // A factor ends the function unless there are bounds below it.
        let scaled = |argument: &'a str, factor: f32| {
            let ramp = inner(argument)?;
            let ramp = if ramp.is_bounded() {
                ramp
            } else {
                Self::whole(argument)
            };
            (factor > 0.0).then(|| ramp.map(|value| value * factor, factor))
        };
        if let Some((argument, factor, _)) = parts("Mul") {
            return scaled(argument, factor);
        }
        if let Some((argument, divisor, true)) = parts("Div") {
            return scaled(argument, divisor.recip());
        }
        if let Some((argument, more, _)) = parts("Add") {
            return Some(inner(argument)?.map(|value| value + more, 1.0));
        }
        if let Some((argument, less, true)) = parts("Sub") {
            return Some(inner(argument)?.map(|value| value - less, 1.0));
        }
        if let Some((argument, least, _)) = parts("Max") {
            return Some(inner(argument)?.between(least, f32::INFINITY));
        }
        if let Some((argument, most, _)) = parts("Min") {
            return Some(inner(argument)?.between(f32::NEG_INFINITY, most));
        }
        if let Some((argument, low, high)) = step::bounded(body, value) {
            return Some(inner(argument)?.between(low, high));
        }
        Some(Self::whole(value))
    }

    fn whole(input: &'a str) -> Self {
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
