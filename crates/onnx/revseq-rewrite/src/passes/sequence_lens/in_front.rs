//! An LSTM whose last cell state is read: its padding comes first, so that its last step is the last
//! valid one.
//!
//! The padding leaves the states at 0, where they begin, whatever the gates are. It is 0 itself, and
//! the bias becomes the weights of a further feature that is 0 in the padding and 1 behind it. Then
//! `new = Tanh(0) = 0` and `cell = forget · 0 + input · new = 0`. That holds for functions that are 0
//! at 0, and states that begin with 0.
//!
//! ```text
//! y, h, c = LSTM(x, W, R, B, lengths)
//!   →  x' = Where(step < time - length, 0, x by its length, reversed twice)
//!      y', h, c = LSTM(Concat(x', valid), Concat(W, Wb + Rb), R)
//!      y = y' by its length, reversed twice
//! ```

use super::part::DirectionLayer;
use super::{BATCH_FIRST, Layer, SWAPPED, Steps};
use crate::constant;
use crate::emit::Emit;
use crate::model::NodeProto;
use crate::scope::Scope;

/// The functions that are 0 at 0, whatever their numbers are.
const ZERO_AT_ZERO: &[&str] = &[
    "Elu",
    "LeakyRelu",
    "Relu",
    "ScaledTanh",
    "Softsign",
    "Tanh",
    "ThresholdedRelu",
];

/// Checks that the padding leaves the states of a layer at 0.
pub(super) fn check(scope: &Scope<'_>, node: &NodeProto) -> Result<(), String> {
    let because =
        |why: &str| format!("the cell state after its last step is read (Y_c), and {why}");
    let mut states = [5, 6].into_iter().filter_map(|state| node.input(state));
    if states.any(|state| !constant::is_zero(scope, state)) {
        return Err(because("its initial states are not provably 0"));
    }
    let activations = node.attribute("activations");
    let activations = activations.map_or(&[][..], |attribute| &attribute.strings);
    let is_zero_at_zero = |name: &Vec<u8>| {
        let mut known = ZERO_AT_ZERO.iter();
        known.any(|known| name.eq_ignore_ascii_case(known.as_bytes()))
    };
    // The first of three is that of the gates.
    let mut others = activations.iter().enumerate().filter(|(at, _)| at % 3 > 0);
    match others.find(|(_, name)| !is_zero_at_zero(name)) {
        Some((_, name)) => Err(because(&format!(
            "its activation {} is not 0 at 0",
            String::from_utf8_lossy(name)
        ))),
        None => Ok(()),
    }
}

/// Writes the outputs of a layer that are read.
pub(super) fn write(layer: &Layer<'_>, emit: &Emit<'_>, input: &str, typed: &str, steps: &Steps) {
    let valid = emit.op("Not", steps.in_front(emit));
    let has_bias = layer.node.input(3).is_some();
    let feature = has_bias.then(|| emit.cast_like(layer.scope, &valid, typed));
    let mut outputs = [const { Vec::new() }; 3];
    for (direction, &backwards) in layer.backwards.iter().enumerate() {
        let data = moved(emit, input, backwards, steps);
        let mut data = emit.op("Where", (&valid, data, &steps.zero));
        let mut part =
            DirectionLayer::new(layer.scope, layer.node, direction, layer.backwards.len());
        if let Some(feature) = &feature {
            data = emit.concat((data, feature), 2);
            part.make_bias_weights(emit);
        }
        let names = ["all_steps", "state", "cell"].map(|name| emit.name(name));
        let node = part.into_node(emit, data, names.to_vec());
        emit.copy(node);
        for (output, name) in std::iter::zip(&mut outputs, names) {
            output.push(name);
        }
    }
    let [all, states, cells] = outputs;
    if let Some(y) = layer.outputs[0] {
        let all = std::iter::zip(layer.backwards, &all);
        let all = all.map(|(&backwards, all)| moved_back(emit, all, backwards, steps));
        let all = emit.concat(all.collect::<Vec<_>>(), 1);
        layer.give(emit, y, all, &BATCH_FIRST);
    }
    for (output, parts) in [(1, states), (2, cells)] {
        if let Some(output) = layer.outputs[output] {
            layer.give(emit, output, emit.concat(parts, 0), &SWAPPED);
        }
    }
}

/// The input in the order of a direction, behind its padding.
fn moved(emit: &Emit<'_>, input: &str, backwards: bool, steps: &Steps) -> String {
    match backwards {
        true => emit.flip(input, 0),
        false => emit.flip(&steps.reversal().write(emit, input), 0),
    }
}

/// The outputs of a direction in the order of the input, before its padding.
fn moved_back(emit: &Emit<'_>, all: &str, backwards: bool, steps: &Steps) -> String {
    let flipped = emit.flip(all, 0);
    match backwards {
        true => flipped,
        false => steps.in_order(emit, &flipped),
    }
}
