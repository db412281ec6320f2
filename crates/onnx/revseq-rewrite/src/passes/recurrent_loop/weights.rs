//! The weights and functions of a cell, as the operators take them.

use crate::constant::Floats;
use crate::model::{self, TensorProto};
use crate::passes::cells::{Activation, Cell, CellKind, Gate, Matrix};

/// The weights of all gates, `[1, gates * units, rows]`.
pub(super) fn weights(cell: &Cell<'_>, matrix: impl Fn(&Gate) -> &Matrix) -> TensorProto {
    let gates = cell.gates.iter().map(&matrix);
    let elements = gates.flat_map(Matrix::by_columns).collect();
    let rows = matrix(&cell.gates[0]).rows();
    floats(&[1, cell.gates.len() * cell.units(), rows], elements)
}

/// All biases in ONNX's order, the input's before the state's; `None` if there are none.
pub(super) fn bias(cell: &Cell<'_>) -> Option<Vec<f32>> {
    let inputs = cell.gates.iter().map(|gate| gate.bias.as_ref());
    let states = cell.gates.iter().map(|gate| gate.state_bias.as_ref());
    let all: Vec<Option<&Vec<f32>>> = inputs.chain(states).collect();
    or_zeros(cell, &all)
}

/// LSTM's peepholes in ONNX's order, that of its first three gates.
pub(super) fn peepholes(cell: &Cell<'_>) -> Option<Vec<f32>> {
    let all = cell.gates.iter().map(|gate| gate.peephole.as_ref());
    let all: Vec<Option<&Vec<f32>>> = all.take(3).collect();
    or_zeros(cell, &all)
}

/// All parts, one after another, with zeros for those that are absent; `None` if all are.
fn or_zeros(cell: &Cell<'_>, parts: &[Option<&Vec<f32>>]) -> Option<Vec<f32>> {
    parts.iter().find_map(|part| *part)?;
    let zeros = vec![0.0; cell.units()];
    let parts = parts.iter().map(|part| part.unwrap_or(&zeros));
    Some(parts.flatten().copied().collect())
}

/// The activations and their constants, if they differ from the operator's defaults.
///
/// ONNX's layers keep numbers that equal the constant of a ThresholdedRelu, unlike the operator. ONNX
/// Runtime's do not.
pub(super) fn functions(cell: &Cell<'_>, keeps_equal: bool) -> Vec<model::AttributeProto> {
    let names: Vec<&str> = cell.activations.iter().map(|it| it.name).collect();
    let defaults: &[&str] = match cell.kind {
        CellKind::Lstm => &["Sigmoid", "Tanh", "Tanh"],
        CellKind::Gru { .. } => &["Sigmoid", "Tanh"],
        CellKind::Rnn => &["Tanh"],
    };
    if names == defaults {
        return Vec::new();
    }
    let mut attributes = vec![model::texts("activations", &names)];
    // A function with a constant takes the next one in the list.
    let activations = cell.activations.iter();
    let alpha = |it: &Activation| match it.name {
        "ThresholdedRelu" if keeps_equal => it.alpha.map(f32::next_up),
        _ => it.alpha,
    };
    let alphas: Vec<f32> = activations.clone().filter_map(alpha).collect();
    let betas: Vec<f32> = activations.filter_map(|it| it.beta).collect();
    for (name, values) in [("activation_alpha", alphas), ("activation_beta", betas)] {
        if !values.is_empty() {
            attributes.push(model::floats(name, &values));
        }
    }
    attributes
}

pub(super) fn floats(sizes: &[usize], elements: Vec<f32>) -> TensorProto {
    let sizes = sizes.to_vec();
    Floats { sizes, elements }.to_tensor()
}
