//! `LinearAttentionGate`: how fast states are forgotten, and how much of an update is taken.
//!
//! ```text
//! decay = decay_scale * softplus(a + dt_bias)        beta = sigmoid(b)
//! ```

use super::{Inputs, Shapes, taken};
use crate::error::Error;
use crate::place::Place;

const A: usize = 0;
const DT_BIAS: usize = 1;
const DECAY_SCALE: usize = 2;
const B: usize = 3;

pub(super) const INPUTS: [&str; 4] = ["a", "dt_bias", "decay_scale", "b"];

/// ONNX Runtime's `LinearAttentionGate`, which has no attributes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AttentionGate;

impl AttentionGate {
    pub(super) fn sizes(self, sizes: &[Option<&[usize]>]) -> Result<Vec<Vec<usize>>, Error> {
        let shapes = Shapes {
            names: &INPUTS,
            sizes,
        };
        let [batch, steps, heads] = shapes.axes(A, "three sizes, [batch, steps, heads]")?;
        for input in [DT_BIAS, DECAY_SCALE] {
            shapes.required(input)?;
            shapes.check(input, &[heads])?;
        }
        let sizes = vec![batch, steps, heads];
        shapes.check(B, &sizes)?;
        Ok(vec![sizes.clone(), sizes])
    }
}

pub(super) fn run<P: Place<f32>>(
    inputs: Inputs<'_>,
    outputs: &mut [Option<&mut [P]>],
    heads: Option<usize>,
) -> Result<(), Error> {
    let [decay, beta, _] = taken(outputs);
    let heads = heads.unwrap_or_default().max(1);
    let (bias, scale) = (inputs.floats(DT_BIAS), inputs.floats(DECAY_SCALE));
    let a = inputs.floats(A).chunks(heads);
    for (to, a) in decay.into_iter().flat_map(|it| it.chunks_mut(heads)).zip(a) {
        for (head, (to, a)) in std::iter::zip(to, a).enumerate() {
            to.set(scale[head] * softplus(a + bias[head]));
        }
    }
    let Some(beta) = beta else { return Ok(()) };
    let missing = Error::Missing { operand: INPUTS[B] };
    for (to, b) in std::iter::zip(beta, inputs.optional(B).ok_or(missing)?) {
        to.set(logistic(*b));
    }
    Ok(())
}

pub(super) fn logistic(x: f32) -> f32 {
    1.0 / (1.0 + (-x).exp())
}

/// `ln(1 + exp(x))`.
pub(super) fn softplus(x: f32) -> f32 {
    // The power is 1 at most.
    x.max(0.0) + (-x.abs()).exp().ln_1p()
}
