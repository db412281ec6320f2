//! The activation functions of ONNX's recurrent layers.

use crate::model::NodeProto;

use super::body::{Body, MAXIMUM_STEPS, operands};
use super::sum::Part;

/// A function by its ONNX name, with constants that differ from the defaults.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Activation {
    pub(super) name: &'static str,
    pub(super) alpha: Option<f32>,
    pub(super) beta: Option<f32>,
}

/// Operators that are activation functions, with the defaults of their constants.
const OPERATORS: &[(&str, Option<f32>, Option<f32>)] = &[
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

impl Activation {
    /// The function that computes a value, and its argument.
    pub(super) fn of<'a>(body: &Body<'a>, value: Part<'a>) -> Option<(Self, Part<'a>)> {
        let value = value.plain(body)?;
        let operator = OPERATORS.iter().find_map(|&(name, alpha, beta)| {
            let node = body.inner.first_output_of(value.name, name)?;
            Some((name, alpha, beta, node))
        });
        let Some((name, alpha, beta, node)) = operator else {
            return Self::hard_sigmoid(body, value).or_else(|| Self::none(body, value));
        };
        let constant = |attribute, default: Option<f32>| match default {
            None => Some(None),
            Some(default) => node.float(attribute).or(default).map(Some),
        };
        let function = Self {
            name,
            alpha: constant("alpha", alpha)?,
            beta: constant("beta", beta)?,
        };
        Some((function, value.of(node.input(0)?)))
    }

    /// The identity, if the value may be a sum.
    fn none<'a>(body: &Body<'a>, value: Part<'a>) -> Option<(Self, Part<'a>)> {
        let (_, node, _) = body.inner.producer(value.name)?;
        let function = Self {
            name: "Affine",
            alpha: Some(1.0),
            beta: Some(0.0),
        };
        let is_sum = ["Add", "Gemm", "MatMul"].iter().any(|op| node.is(op));
        is_sum.then_some((function, value))
    }

    /// A ramp from 0 to 1, written as sums, products and bounds.
    fn hard_sigmoid<'a>(body: &Body<'a>, value: Part<'a>) -> Option<(Self, Part<'a>)> {
        let ramp = Ramp::of(body, value.name, MAXIMUM_STEPS)?;
        let is = |bound: f32, expected: f32| (bound - expected).abs() < 1e-6;
        if !is(ramp.low, 0.0) || !is(ramp.high, 1.0) || ramp.scale <= 0.0 {
            return None;
        }
        let function = Self {
            name: "HardSigmoid",
            alpha: Some(ramp.scale),
            beta: Some(ramp.offset),
        };
        Some((function, value.of(ramp.of)))
    }
}

/// `scale · of + offset`, clamped to two bounds.
struct Ramp<'a> {
    of: &'a str,
    scale: f32,
    offset: f32,
    low: f32,
    high: f32,
}

impl<'a> Ramp<'a> {
    fn of(body: &Body<'a>, name: &'a str, steps: usize) -> Option<Self> {
        let steps = steps.checked_sub(1)?;
        let name = body.plain(name);
        let whole = Self {
            of: name,
            scale: 1.0,
            offset: 0.0,
            low: f32::NEG_INFINITY,
            high: f32::INFINITY,
        };
        // The variable operand and the constant.
        let parts = |op| -> Option<(&'a str, f32, bool)> {
            let (first, second) = operands(body.inner, name, op)?;
            match (body.number(first), body.number(second)) {
                (None, Some(number)) => Some((first, number, true)),
                (Some(number), None) => Some((second, number, false)),
                _ => None,
            }
        };
        // A factor ends the function unless there are bounds below it.
        let scaled = |of: &'a str, factor: f32| {
            let inner = Self::of(body, of, steps)?;
            let inner = if inner.is_bounded() {
                inner
            } else {
                Self { of, ..whole }
            };
            (factor > 0.0).then(|| inner.map(|value| value * factor, factor))
        };
        if let Some((of, factor, _)) = parts("Mul") {
            return scaled(of, factor);
        }
        if let Some((of, divisor, true)) = parts("Div") {
            return scaled(of, divisor.recip());
        }
        if let Some((of, more, _)) = parts("Add") {
            return Some(Self::of(body, of, steps)?.map(|value| value + more, 1.0));
        }
        if let Some((of, less, true)) = parts("Sub") {
            return Some(Self::of(body, of, steps)?.map(|value| value - less, 1.0));
        }
        if let Some((of, least, _)) = parts("Max") {
            return Some(Self::of(body, of, steps)?.between(least, f32::INFINITY));
        }
        if let Some((of, most, _)) = parts("Min") {
            return Some(Self::of(body, of, steps)?.between(f32::NEG_INFINITY, most));
        }
        if let Some(node) = body.inner.first_output_of(name, "Relu") {
            return Some(Self::of(body, node.input(0)?, steps)?.between(0.0, f32::INFINITY));
        }
        if let Some(node) = body.inner.first_output_of(name, "Clip") {
            let (low, high) = bounds(body, node)?;
            return Some(Self::of(body, node.input(0)?, steps)?.between(low, high));
        }
        Some(whole)
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

/// The bounds of a Clip; they became inputs in opset 11.
fn bounds(body: &Body<'_>, node: &NodeProto) -> Option<(f32, f32)> {
    let bound = |input: usize, attribute: &str, default: f32| match node.input(input) {
        Some(name) => body.number(name),
        None => node.float(attribute).or(default),
    };
    Some((
        bound(1, "min", f32::NEG_INFINITY)?,
        bound(2, "max", f32::INFINITY)?,
    ))
}
