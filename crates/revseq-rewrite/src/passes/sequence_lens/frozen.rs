//! An LSTM that keeps its cell state through the padding, so that its last cell state is that of the
//! last valid step.
//!
//! A further feature of the input is 1 in the padding and 0 before it. Its weights close the input
//! gate and open the forget gate: `cell = 1 · cell + 0 · new`. Valid steps stay the same, and so do
//! their outputs. That holds for the default functions, with weights that are known and cannot
//! outweigh these.
//!
//! ```text
//! x, W  →  Concat(Where(valid, x, 0), Where(valid, 0, 1)), [W, column of -10000, 0, 10000, 0]
//! ```

use super::Steps;
use crate::constant::{self, Floats};
use crate::emit::Emit;
use crate::model::{self, NodeProto};
use crate::scope::Scope;

/// Reason why a layer whose weights are not known is left alone.
pub(super) const UNKNOWN_WEIGHTS: &str = "the cell state after its last step is read (Y_c), and its \
                                          weights are not constant float32";

/// Sum that closes or opens a gate; float16, in which some devices compute, has it, too.
const CLOSED: f32 = 10_000.0;

/// The most that everything else may add to a gate: the sigmoid of the difference is 0 or 1.
const MOST: f32 = 5_000.0;

/// The gates of an LSTM, in ONNX's order: input, output, forget, cell.
const GATES: [f32; 4] = [-CLOSED, 0.0, CLOSED, 0.0];

/// Checks that a layer can keep its cell state.
pub(super) fn check(scope: &Scope<'_>, node: &NodeProto) -> Result<(), String> {
    let because =
        |why: &str| format!("the cell state after its last step is read (Y_c), and {why}");
    if node.attribute("clip").is_some() {
        return Err(because("it has a clip"));
    }
    if node.input(7).is_some() {
        return Err(because("it has peepholes"));
    }
    let activations = node.attribute("activations");
    let activations = activations.map_or(&[][..], |attribute| &attribute.strings);
    let defaults: [&[u8]; 3] = [b"Sigmoid", b"Tanh", b"Tanh"];
    let are_default = std::iter::zip(activations, defaults.iter().cycle())
        .all(|(activation, default)| activation == default);
    if !are_default {
        return Err(because("its activations are not the default ones"));
    }
    let [weights, recurrent] = [1, 2].map(|input| floats(scope, node, input));
    let (Some(_), Some(recurrent)) = (weights, recurrent) else {
        return Err(UNKNOWN_WEIGHTS.to_owned());
    };
    // Outputs are within -1 and 1 after the first step, and the padding is 0 here.
    let units = recurrent.sizes.last().copied().unwrap_or(0).max(1);
    let rows = recurrent.elements.chunks(units);
    let sums = rows.map(|row| row.iter().map(|weight| weight.abs()).sum::<f32>());
    let mut most = sums.fold(0.0, larger);
    if node.input(3).is_some() {
        let bias = floats(scope, node, 3).ok_or(UNKNOWN_WEIGHTS)?;
        // A gate has two biases.
        most += 2.0
            * bias
                .elements
                .iter()
                .fold(0.0, |most, it| larger(most, it.abs()));
    }
    if most > MOST || most.is_nan() {
        return Err(because("its weights are too large"));
    }
    Ok(())
}

/// The larger number, or NaN.
fn larger(one: f32, other: f32) -> f32 {
    if other <= one { one } else { other }
}

fn floats(scope: &Scope<'_>, node: &NodeProto, input: usize) -> Option<Floats> {
    constant::floats(scope, node.input(input)?)
}

/// W of one direction with the further feature.
pub(super) fn weights(weights: &Floats) -> Option<Floats> {
    let &[1, rows, width] = weights.sizes.as_slice() else {
        return None;
    };
    let units = rows / GATES.len();
    if units * GATES.len() != rows {
        return None;
    }
    let mut elements = Vec::with_capacity(rows * (width + 1));
    for row in 0..rows {
        elements.extend(&weights.elements[row * width..(row + 1) * width]);
        elements.push(GATES[row / units]);
    }
    Some(Floats {
        sizes: vec![1, rows, width + 1],
        elements,
    })
}

/// The input with the further feature, and zeros in the padding.
pub(super) fn input(emit: &mut Emit<'_>, input: &str, steps: &Steps) -> String {
    let valid = emit.squeeze(&steps.valid, &[1]);
    let data = emit.plain("Where", &[&valid, input, &steps.zero]);
    let one = emit.tensor(
        Floats {
            sizes: Vec::new(),
            elements: vec![1.0],
        }
        .to_tensor(),
    );
    let padding = emit.plain("Where", &[&valid, &steps.zero, &one]);
    emit.op("Concat", &[&data, &padding], vec![model::int("axis", 2)])
}
