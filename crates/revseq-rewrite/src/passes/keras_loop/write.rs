//! Writes a layer as one operator.

use crate::constant::Floats;
use crate::emit::Emit;
use crate::model::{self, INT32, NodeProto, TensorProto};
use crate::pass::Verdict;
use crate::passes::reversal::Reversal;
use crate::scope::{Names, Scope};

use super::cell::{Cell, Kind};
use super::layer::{Layer, Masked, Output};

/// Writes what gives the outputs of a loop that are read.
pub(super) fn layer(
    scope: &Scope<'_>,
    node: &NodeProto,
    layer: &Layer<'_>,
    names: &mut Names,
) -> Verdict {
    let prefix = node.name.as_deref().filter(|name| !name.is_empty());
    let prefix = prefix.or(node.outputs().next()).unwrap_or("Loop");
    let mut emit = Emit::new(prefix, scope.opset, names);
    let op = match layer.cell.kind {
        Kind::Lstm => "LSTM",
        Kind::Gru { .. } => "GRU",
        Kind::Rnn => "RNN",
    };
    let (steps, hidden, memory) = operator(&mut emit, op, layer);
    for &(output, what) in &layer.outputs {
        match what {
            Output::Same(outer) => emit.same(output, outer),
            Output::Hidden => emit.squeeze_into(output, &hidden, &[0]),
            Output::Memory => emit.squeeze_into(output, &memory, &[0]),
            // Read from the end, the steps that do not count come first.
            Output::Steps(_) if layer.backwards => {
                let squeezed = emit.squeeze(&steps, &[1]);
                Reversal::Flip { axis: 0 }.write(&mut emit, output, &squeezed);
            }
            Output::Steps(masked) => match layer.mask {
                Some(mask) if masked == Masked::Repeated => {
                    let squeezed = emit.squeeze(&steps, &[1]);
                    emit.write(&[output], "Where", &[mask, &squeezed, &hidden], Vec::new());
                }
                _ => emit.squeeze_into(output, &steps, &[1]),
            },
        }
    }
    let direction = if layer.backwards {
        "reverse"
    } else {
        "forward"
    };
    let masked = if layer.mask.is_some() {
        ", with the mask as lengths"
    } else {
        ""
    };
    emit.finish(format!("{op}, {direction}{masked}"))
}

/// Writes the operator; tells the names of its outputs.
fn operator(emit: &mut Emit<'_>, op: &str, layer: &Layer<'_>) -> (String, String, String) {
    let cell = &layer.cell;
    let units = cell.units() as i64;
    let weights = |recurrent: bool| {
        let gates = cell.gates.iter().filter_map(|gate| {
            let (_, weights) = if recurrent {
                gate.state.as_ref()?
            } else {
                gate.input.as_ref()?
            };
            Some(weights)
        });
        let mut rows = 0;
        let mut elements = Vec::new();
        for weights in gates {
            let &[inputs, units] = weights.sizes.as_slice() else {
                continue;
            };
            rows = inputs;
            for unit in 0..units {
                elements.extend((0..inputs).map(|input| weights.elements[input * units + unit]));
            }
        }
        floats(&[1, cell.gates.len() * cell.units(), rows], elements)
    };
    let w = emit.tensor(weights(false));
    let r = emit.tensor(weights(true));
    let bias = bias(cell).map_or_else(String::new, |bias| {
        emit.tensor(floats(&[1, bias.len()], bias))
    });
    let lengths = layer.mask.map_or_else(String::new, |mask| {
        let numbers = emit.op("Cast", &[mask], vec![model::int("to", INT32.into())]);
        emit.sum(&numbers, &[0, 2])
    });
    let batch = batch_size(emit, layer.input);
    let hidden = initial(emit, layer.hidden, &batch, units);
    let mut inputs = vec![layer.input, &w, &r, &bias, &lengths, &hidden];
    let memory = cell.memory.map(|_| match (layer.hidden, layer.memory) {
        (None, None) => hidden.clone(),
        _ => initial(emit, layer.memory, &batch, units),
    });
    inputs.extend(memory.as_deref());
    let mut attributes = vec![model::int("hidden_size", units)];
    if layer.backwards {
        attributes.push(model::text("direction", "reverse"));
    }
    let defaults: &[&str] = match cell.kind {
        Kind::Lstm => &["Sigmoid", "Tanh", "Tanh"],
        Kind::Gru { .. } => &["Sigmoid", "Tanh"],
        Kind::Rnn => &["Tanh"],
    };
    if cell.activations != defaults {
        attributes.push(model::texts("activations", &cell.activations));
    }
    if cell.kind
        == (Kind::Gru {
            linear_before_reset: true,
        })
    {
        attributes.push(model::int("linear_before_reset", 1));
    }
    let outputs = ["Y", "Y_h", "Y_c"].map(|name| emit.name(name));
    let count = if cell.memory.is_some() { 3 } else { 2 };
    let given: Vec<&str> = outputs[..count].iter().map(String::as_str).collect();
    emit.write(&given, op, &inputs, attributes);
    let [steps, hidden, memory] = outputs;
    (steps, hidden, memory)
}

/// All biases in ONNX's order, those of the input before those of the state;
/// none if there are none.
fn bias(cell: &Cell<'_>) -> Option<Vec<f32>> {
    if cell.gates.iter().all(|gate| gate.biases.is_empty()) {
        return None;
    }
    let mut all = Vec::new();
    for place in 0..2 {
        for gate in &cell.gates {
            match gate.biases.get(place) {
                Some(bias) => all.extend(bias),
                None => all.resize(all.len() + cell.units(), 0.0),
            }
        }
    }
    Some(all)
}

/// A state before the first step, `[1, batch, units]`. It is written even where
/// it is 0: not every runtime makes it up for a batch of any size.
fn initial(emit: &mut Emit<'_>, given: Option<&str>, batch: &str, units: i64) -> String {
    let units = emit.ints(&[units]);
    let concat = vec![model::int("axis", 0)];
    match given {
        Some(given) => {
            let sizes = emit.op("Concat", &[batch, &units], concat);
            let matrix = emit.plain("Expand", &[given, &sizes]);
            emit.unsqueeze(&matrix, &[0])
        }
        None => {
            let one = emit.ints(&[1]);
            let sizes = emit.op("Concat", &[&one, batch, &units], concat);
            let zero = emit.tensor(floats(&[], vec![0.0]));
            emit.plain("Expand", &[&zero, &sizes])
        }
    }
}

/// The batch's size, as a vector of one element.
fn batch_size(emit: &mut Emit<'_>, input: &str) -> String {
    let shape = emit.plain("Shape", &[input]);
    emit.range(&shape, 0, 1, 2)
}

fn floats(sizes: &[usize], elements: Vec<f32>) -> TensorProto {
    let sizes = sizes.to_vec();
    Floats { sizes, elements }.to_tensor()
}
