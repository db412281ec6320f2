//! LSTM, GRU and RNN within a step, mostly of one step of their own.

use recurrent_layers::{Activation, Cell, Layer, Layout, Recurrent};
use revseq_onnx::model::NodeProto;

use super::Call;
use super::elementwise::float2;
use super::products::product;
use crate::attributes::NodeAttributes;
use crate::elements::Kind;
use crate::error::{Error, values};
use crate::function::{Float1, Float2, Function};
use crate::plan::{Operation, Planner, Value};

// The inputs of a layer, by their index.
const X: usize = 0;
const W: usize = 1;
const R: usize = 2;
const B: usize = 3;
const LENGTHS: usize = 4;
const H: usize = 5;
const C: usize = 6;
const P: usize = 7;

/// Reads a layer, or says what of it no program has.
pub(super) fn read(node: &NodeProto) -> Result<Layer, String> {
    let read = Recurrent::of(node.op(), &NodeAttributes(&node.attribute));
    let Recurrent { layer, layout, .. } = read.map_err(|error| format!("is wrong: {error}"))?;
    if layer.directions.len() > 1 {
        return Err("has two directions".into());
    }
    if layout != Layout::TimeFirst {
        return Err("has the layout of batches first".into());
    }
    let couples = match layer.cell {
        Cell::Lstm {
            couples_input_and_forget,
        } => couples_input_and_forget,
        _ => false,
    };
    if couples || layer.clip.is_some() {
        return Err("couples its gates or has a clip".into());
    }
    if node.input(LENGTHS).is_some() || node.is("LSTM") && node.input(P).is_some() {
        return Err("has lengths or peepholes".into());
    }
    Ok(layer)
}

/// A layer while its steps are planned.
struct Planned<'p, 'a> {
    planner: &'p mut Planner<'a>,
    units: usize,
    /// The functions f, g and h.
    activations: &'p [Activation],
    /// The weights of inputs and states, transposed, and their biases.
    weights: [Value; 2],
    biases: [Option<Value>; 2],
}

impl Planned<'_, '_> {
    fn two(&mut self, function: Float2, one: &Value, other: &Value) -> Result<Value, Error> {
        self.planner
            .map(float2(function), Kind::Float, &[one, other])
    }

    /// Applies one of the functions, by its index.
    fn act(&mut self, activation: usize, value: &Value) -> Result<Value, Error> {
        let function = Function::Float1(Float1::Activation(self.activations[activation]));
        self.planner.map(function, Kind::Float, &[value])
    }

    /// What all gates have of the input, or of the state: [batch, gates * units].
    fn gates(&mut self, side: usize, value: &Value) -> Result<Value, Error> {
        let weights = self.weights[side].clone();
        let made = product(self.planner, value, &weights)?;
        match self.biases[side].clone() {
            Some(bias) => self.two(Float2::Add, &made, &bias),
            None => Ok(made),
        }
    }

    /// The part of a gate.
    fn gate(&self, gates: &Value, index: usize) -> Value {
        let start = (index * self.units) as isize;
        gates.with(gates.view.slice(1, start, self.units, 1))
    }

    fn lstm(&mut self, x: &Value, h: &Value, c: &Value) -> Result<[Value; 2], Error> {
        let (x, h) = (self.gates(0, x)?, self.gates(1, h)?);
        let all = self.two(Float2::Add, &x, &h)?;
        let [input, output, forget, cell] = [0, 1, 2, 3].map(|index| self.gate(&all, index));
        let input = self.act(0, &input)?;
        let output = self.act(0, &output)?;
        let forget = self.act(0, &forget)?;
        let cell = self.act(1, &cell)?;
        let kept = self.two(Float2::Mul, &forget, c)?;
        let new = self.two(Float2::Mul, &input, &cell)?;
        let c = self.two(Float2::Add, &kept, &new)?;
        let open = self.act(2, &c)?;
        Ok([self.two(Float2::Mul, &output, &open)?, c])
    }

    fn gru(&mut self, x: &Value, h: &Value, resets_after: bool) -> Result<Value, Error> {
        let x = self.gates(0, x)?;
        let [update, reset, new] = [0, 1, 2].map(|index| self.gate(&x, index));
        let of_state = self.gates(1, h)?;
        let gate = |layer: &mut Self, index: usize, of_input: &Value| {
            let own = layer.gate(&of_state, index);
            let sum = layer.two(Float2::Add, of_input, &own)?;
            layer.act(0, &sum)
        };
        let update = gate(self, 0, &update)?;
        let reset = gate(self, 1, &reset)?;
        let of_state = match resets_after {
            true => {
                let own = self.gate(&of_state, 2);
                self.two(Float2::Mul, &reset, &own)?
            }
            false => {
                // The state is reset before its product.
                let state = self.two(Float2::Mul, &reset, h)?;
                let all = self.gates(1, &state)?;
                self.gate(&all, 2)
            }
        };
        let sum = self.two(Float2::Add, &new, &of_state)?;
        let new = self.act(1, &sum)?;
        // h' = new + update (h - new)
        let difference = self.two(Float2::Sub, h, &new)?;
        let moved = self.two(Float2::Mul, &update, &difference)?;
        self.two(Float2::Add, &new, &moved)
    }

    fn rnn(&mut self, x: &Value, h: &Value) -> Result<Value, Error> {
        let (x, h) = (self.gates(0, x)?, self.gates(1, h)?);
        let sum = self.two(Float2::Add, &x, &h)?;
        self.act(0, &sum)
    }
}

/// The value of the only direction.
fn only(value: &Value) -> Result<Value, Error> {
    match value.view.axes.first() {
        Some(axis) if axis.size == 1 => Ok(value.with(value.view.at(0, 0, 0))),
        _ => values(format!("weights or states of {:?}", value.sizes())),
    }
}

/// The matrices of the input and of the state, each with a column for each gate and unit, and the number of units.
fn weights(call: &Call<'_>, form: &Layer) -> Result<([Value; 2], usize), Error> {
    let matrix = |index: usize| {
        let value = only(call.input(index)?)?;
        match value.rank() {
            2 => Ok(value.with(value.view.permute(&[1, 0]))),
            rank => values(format!("weights of {rank} axes")),
        }
    };
    let weights = [matrix(W)?, matrix(R)?];
    let units = weights[1].view.axes[0].size;
    let columns = form.cell.gates() * units;
    let are_of_units = weights.iter().all(|it| it.view.axes[1].size == columns);
    if !are_of_units || ![0, units].contains(&form.units) {
        return values(format!(
            "weights of {:?} and {:?}, with a hidden_size of {}",
            call.input(W)?.sizes(),
            call.input(R)?.sizes(),
            form.units
        ));
    }
    Ok((weights, units))
}

/// The biases of the input and of the state, if there are any.
fn biases(call: &Call<'_>, columns: usize) -> Result<[Option<Value>; 2], Error> {
    let Some(bias) = call.optional(B) else {
        return Ok([None, None]);
    };
    let bias = only(bias)?;
    if bias.sizes() != [2 * columns] {
        return values(format!("biases of {:?}", bias.sizes()));
    }
    Ok([0, columns].map(|start| Some(bias.with(bias.view.slice(0, start as isize, columns, 1)))))
}

pub(super) fn layer(planner: &mut Planner<'_>, call: &Call<'_>) -> Result<Vec<Value>, Error> {
    let form = read(call.node).map_err(Error::Values)?;
    let x = call.input(X)?;
    let [steps, batch, _] = *x.sizes() else {
        return values(format!("an input of {} axes", x.rank()));
    };
    let (weights, units) = weights(call, &form)?;
    let biases = biases(call, form.cell.gates() * units)?;
    let x = x.with(planner.materialised(x)?);
    let all = planner.parts(Kind::Float, &[steps, 1, batch, units])?;
    let direction = &form.directions[0];
    let mut layer = Planned {
        planner,
        units,
        activations: &direction.activations,
        weights,
        biases,
    };
    let initial = |layer: &mut Planned<'_, '_>, index: usize| match call.optional(index) {
        Some(value) => only(value),
        None => {
            let zero = layer.planner.float(0.0);
            Ok(zero.with(zero.view.broadcast(&[batch, units])))
        }
    };
    let mut h = initial(&mut layer, H)?;
    let mut c = match form.cell {
        Cell::Lstm { .. } => initial(&mut layer, C)?,
        _ => h.clone(),
    };
    for number in 0..steps {
        let step = match direction.is_backward {
            true => steps - 1 - number,
            false => number,
        };
        let own = x.with(x.view.at(0, step as i64, 0));
        match form.cell {
            Cell::Lstm { .. } => [h, c] = layer.lstm(&own, &h, &c)?,
            Cell::Gru {
                resets_after_product,
            } => h = layer.gru(&own, &h, resets_after_product)?,
            Cell::Rnn => h = layer.rnn(&own, &h)?,
        }
        let to = all.view.at(0, step as i64, 0).at(0, 0, 0);
        let from = layer.planner.materialised(&h)?;
        let moved = Operation::moved(Kind::Float);
        layer.planner.add_to(moved, vec![from], to);
    }
    let last = [h, c].map(|value| value.with(value.view.unsqueeze(0)));
    Ok([all].into_iter().chain(last).collect())
}
