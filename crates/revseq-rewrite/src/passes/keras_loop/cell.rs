//! What a step computes: the cells of LSTM, GRU and SimpleRNN.

use crate::constant::{self, Floats};
use crate::scope::Scope;

use super::body::{Body, operands, through_identity};

/// How deep sums are followed.
const MAXIMUM_STEPS: usize = 64;

/// More than any axis that is sliced.
const ANY_SIZE: usize = i32::MAX as usize;

/// A sum of products, as every gate has before its activation.
#[derive(Clone, Debug, Default)]
pub(super) struct Sum<'a> {
    /// The input's step, and its weights `[input, units]`.
    pub(super) input: Option<(&'a str, Floats)>,
    /// The state, and its weights `[units, units]`.
    pub(super) state: Option<(&'a str, Floats)>,
    /// What is added, each `[units]`; at most two.
    pub(super) biases: Vec<Vec<f32>>,
}

/// The operator that a cell is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Lstm,
    Gru { linear_before_reset: bool },
    Rnn,
}

/// A cell.
#[derive(Debug)]
pub(super) struct Cell<'a> {
    pub(super) kind: Kind,
    /// Its gates in ONNX's order.
    pub(super) gates: Vec<Sum<'a>>,
    /// The activations in ONNX's order.
    pub(super) activations: Vec<&'static str>,
    /// The state that is its output, as the step finds it.
    pub(super) hidden: &'a str,
    /// LSTM's cell state as the step finds it and leaves it.
    pub(super) memory: Option<(&'a str, &'a str)>,
}

/// Activations of the same name and meaning in ONNX, without parameters.
const ACTIVATIONS: &[&str] = &["Sigmoid", "Tanh", "Relu"];

impl<'a> Cell<'a> {
    /// The cell that computes a value.
    pub(super) fn of(body: &Body<'a>, output: &'a str) -> Result<Self, String> {
        let parts = Parts {
            body,
            scope: body.inner,
        };
        let cell = parts
            .lstm(output)
            .or_else(|| parts.gru(output))
            .or_else(|| parts.rnn(output))
            .ok_or("its body is not the cell of an LSTM, GRU or SimpleRNN with constant weights")?;
        Ok(cell)
    }

    /// How many units it has.
    pub(super) fn units(&self) -> usize {
        self.gates[0].width().unwrap_or(0)
    }
}

impl Sum<'_> {
    fn width(&self) -> Option<usize> {
        let (_, weights) = self.input.as_ref().or(self.state.as_ref())?;
        weights.sizes.get(1).copied()
    }
}

struct Parts<'b, 'a> {
    body: &'b Body<'a>,
    scope: &'a Scope<'a>,
}

impl<'a> Parts<'_, 'a> {
    fn op(&self, name: &'a str, op: &str) -> Option<(&'a str, &'a str)> {
        operands(self.scope, through_identity(self.scope, name), op)
    }

    /// Both orders of a commutative operator's inputs.
    fn either(&self, name: &'a str, op: &str) -> Vec<(&'a str, &'a str)> {
        self.op(name, op)
            .map(|(first, second)| vec![(first, second), (second, first)])
            .unwrap_or_default()
    }

    /// The activation that computes a value, and of what.
    fn activation(&self, name: &'a str) -> Option<(&'static str, &'a str)> {
        let name = through_identity(self.scope, name);
        ACTIVATIONS.iter().find_map(|activation| {
            let node = self.scope.first_output_of(name, activation)?;
            Some((*activation, node.input(0)?))
        })
    }

    /// An activated sum with an input and a state.
    fn gate(&self, name: &'a str) -> Option<(&'static str, Sum<'a>)> {
        let (activation, sum) = self.activation(name)?;
        let sum = self.sum(sum)?;
        (sum.input.is_some() && sum.state.is_some()).then_some((activation, sum))
    }

    /// o · h(f · c + i · g)
    fn lstm(&self, output: &'a str) -> Option<Cell<'a>> {
        self.either(output, "Mul")
            .into_iter()
            .find_map(|(o, squashed)| {
                let (o_activation, o) = self.gate(o)?;
                let (h_activation, memory) = self.activation(squashed)?;
                let memory = through_identity(self.scope, memory);
                self.either(memory, "Add")
                    .into_iter()
                    .find_map(|(kept, added)| {
                        let (f_activation, f, old) =
                            self.either(kept, "Mul").into_iter().find_map(|(f, old)| {
                                let old = self.state(old)?;
                                let (activation, f) = self.gate(f)?;
                                Some((activation, f, old))
                            })?;
                        self.either(added, "Mul").into_iter().find_map(|(i, g)| {
                            let (i_activation, i) = self.gate(i)?;
                            let (g_activation, g) = self.gate(g)?;
                            // i · g may be read either way, but the gates have one activation.
                            if i_activation != f_activation || o_activation != f_activation {
                                return None;
                            }
                            // i comes before g: Keras' own order tells them apart where
                            // the activations do not, and their product does not care.
                            let cell = Cell {
                                kind: Kind::Lstm,
                                hidden: i.state.as_ref()?.0,
                                gates: vec![i, o.clone(), f.clone(), g],
                                activations: vec![f_activation, g_activation, h_activation],
                                memory: Some((old, memory)),
                            };
                            cell.is_of_one_state_and_input().then_some(cell)
                        })
                    })
            })
    }

    /// z · h + (1 - z) · n
    fn gru(&self, output: &'a str) -> Option<Cell<'a>> {
        self.either(output, "Add")
            .into_iter()
            .find_map(|(kept, added)| {
                self.either(kept, "Mul")
                    .into_iter()
                    .find_map(|(z_name, hidden)| {
                        let hidden = self.state(hidden)?;
                        let (activation, z) = self.gate(z_name)?;
                        self.either(added, "Mul")
                            .into_iter()
                            .find_map(|(rest, n_name)| {
                                let (one, of) = self.op(rest, "Sub")?;
                                let is_one = constant::floats(self.scope, one)
                                    .is_some_and(|one| one.elements == [1.0]);
                                let same = through_identity(self.scope, of)
                                    == through_identity(self.scope, z_name);
                                if !is_one || !same {
                                    return None;
                                }
                                let (n_activation, n_name) = self.activation(n_name)?;
                                let (linear_before_reset, r_activation, r, n) = self
                                    .reset_after(n_name)
                                    .or_else(|| self.reset_before(n_name, hidden))?;
                                if r_activation != activation {
                                    return None;
                                }
                                let cell = Cell {
                                    kind: Kind::Gru {
                                        linear_before_reset,
                                    },
                                    gates: vec![z.clone(), r, n],
                                    activations: vec![activation, n_activation],
                                    hidden,
                                    memory: None,
                                };
                                cell.is_of_one_state_and_input().then_some(cell)
                            })
                    })
            })
    }

    /// x · W + b + r · (h · U + b)
    fn reset_after(&self, n: &'a str) -> Option<(bool, &'static str, Sum<'a>, Sum<'a>)> {
        self.either(n, "Add")
            .into_iter()
            .find_map(|(input, reset)| {
                let mut input = self.sum(input)?;
                self.either(reset, "Mul")
                    .into_iter()
                    .find_map(|(r, state)| {
                        let (activation, r) = self.gate(r)?;
                        let state = self.sum(state)?;
                        if state.input.is_some() || input.state.is_some() || input.biases.len() > 1
                        {
                            return None;
                        }
                        let width = state.width()?;
                        input.state = Some(state.state.clone()?);
                        input.biases.resize(1, vec![0.0; width]);
                        let [ref recurrent] = state.biases[..] else {
                            return state
                                .biases
                                .is_empty()
                                .then(|| (true, activation, r, input.clone()));
                        };
                        input.biases.push(recurrent.clone());
                        Some((true, activation, r, input.clone()))
                    })
            })
    }

    /// x · W + b + (r · h) · U
    fn reset_before(
        &self,
        n: &'a str,
        hidden: &'a str,
    ) -> Option<(bool, &'static str, Sum<'a>, Sum<'a>)> {
        self.either(n, "Add")
            .into_iter()
            .find_map(|(input, reset)| {
                let (gated, weights) = self.op(reset, "MatMul")?;
                let mut n = self.sum(input)?;
                if n.state.is_some() || n.biases.len() > 1 {
                    return None;
                }
                let weights = self.weights(weights)?;
                n.state = Some((hidden, weights));
                self.either(gated, "Mul")
                    .into_iter()
                    .find_map(|(r, state)| {
                        if self.state(state)? != hidden {
                            return None;
                        }
                        let (activation, r) = self.gate(r)?;
                        Some((false, activation, r, n.clone()))
                    })
            })
    }

    /// f(x · W + h · U + b)
    fn rnn(&self, output: &'a str) -> Option<Cell<'a>> {
        let (activation, gate) = self.gate(output)?;
        let hidden = gate.state.as_ref()?.0;
        let cell = Cell {
            kind: Kind::Rnn,
            gates: vec![gate],
            activations: vec![activation],
            hidden,
            memory: None,
        };
        cell.is_of_one_state_and_input().then_some(cell)
    }

    /// A state that the loop carries, as the step finds it.
    fn state(&self, name: &'a str) -> Option<&'a str> {
        let name = through_identity(self.scope, name);
        let carried = self
            .body
            .states
            .iter()
            .map(|&state| self.body.carried(state));
        carried.into_iter().find(|&carried| carried == name)
    }

    /// A constant matrix.
    fn weights(&self, name: &str) -> Option<Floats> {
        constant::floats(self.scope, name).filter(|weights| weights.sizes.len() == 2)
    }

    fn sum(&self, name: &'a str) -> Option<Sum<'a>> {
        let mut sum = Sum::default();
        self.add(name, None, &mut sum, MAXIMUM_STEPS)?;
        Some(sum)
    }

    /// Adds what a value is the sum of, of which a range of columns is wanted.
    fn add(
        &self,
        name: &'a str,
        columns: Option<(usize, usize)>,
        sum: &mut Sum<'a>,
        steps: usize,
    ) -> Option<()> {
        let steps = steps.checked_sub(1)?;
        let name = through_identity(self.scope, name);
        if let Some(bias) = constant::floats(self.scope, name) {
            let vector = bias.sizes.len() == 1 || bias.sizes.len() == 2 && bias.sizes[0] == 1;
            if !vector || sum.biases.len() == 2 {
                return None;
            }
            let bias = take(bias, columns)?;
            sum.biases.push(bias.elements);
            return Some(());
        }
        let (scope, node, output) = self.scope.producer(name)?;
        if !std::ptr::eq(scope, self.scope) || !node.domain().is_empty() {
            return None;
        }
        match node.op() {
            "Add" => {
                self.add(node.input(0)?, columns, sum, steps / 2)?;
                self.add(node.input(1)?, columns, sum, steps / 2)
            }
            "MatMul" => {
                let weights = take(self.weights(node.input(1)?)?, columns)?;
                let factor = through_identity(self.scope, node.input(0)?);
                let place = match self.state(factor) {
                    Some(_) => &mut sum.state,
                    None => {
                        self.body.sequence(factor)?;
                        &mut sum.input
                    }
                };
                place.is_none().then(|| *place = Some((factor, weights)))
            }
            "Split" => {
                let base = node.input(0)?;
                let width = self.width(base, MAXIMUM_STEPS)?;
                if !matches!(node.int("axis").or(0)?, 1 | -1) {
                    return None;
                }
                let part = constant::split_part(scope, node, output, width)?;
                self.add(base, within(part, columns), sum, steps)
            }
            "Slice" => {
                let base = node.input(0)?;
                let width = self.width(base, MAXIMUM_STEPS)?;
                let mut part = (0, width);
                for (axis, start, end) in constant::slice_ranges(scope, node, &[ANY_SIZE, width])? {
                    match axis {
                        1 => part = (start, end.checked_sub(start)?),
                        _ if (start, end) == (0, ANY_SIZE) => {}
                        _ => return None,
                    }
                }
                self.add(base, within(part, columns), sum, steps)
            }
            _ => None,
        }
    }

    /// How many columns a sum has.
    fn width(&self, name: &'a str, steps: usize) -> Option<usize> {
        let steps = steps.checked_sub(1)?;
        let name = through_identity(self.scope, name);
        if let Some(constant) = constant::floats(self.scope, name) {
            return constant.sizes.last().copied();
        }
        let (_, node, _) = self.scope.producer(name)?;
        match node.op() {
            _ if !node.domain().is_empty() => None,
            "MatMul" => Some(self.weights(node.input(1)?)?.sizes[1]),
            "Add" => {
                let first = self.width(node.input(0)?, steps / 2)?;
                let second = self.width(node.input(1)?, steps / 2)?;
                (first == second).then_some(first)
            }
            _ => None,
        }
    }
}

impl Cell<'_> {
    /// Whether all gates read the same, and have weights of sizes that fit.
    fn is_of_one_state_and_input(&self) -> bool {
        let units = self.units();
        let first = self.gates[0]
            .input
            .as_ref()
            .map(|(input, weights)| (*input, weights.sizes[0]));
        self.gates.iter().all(|gate| {
            let (Some((input, weights)), Some((state, recurrent))) = (&gate.input, &gate.state)
            else {
                return false;
            };
            first == Some((*input, weights.sizes[0]))
                && *state == self.hidden
                && weights.sizes == [weights.sizes[0], units]
                && recurrent.sizes == [units, units]
                && gate.biases.iter().all(|bias| bias.len() == units)
        })
    }
}

/// The last axis's range of a constant.
fn take(value: Floats, columns: Option<(usize, usize)>) -> Option<Floats> {
    match columns {
        None => Some(value),
        Some((start, length)) => {
            let axis = value.sizes.len().checked_sub(1)?;
            constant::part(&value, axis, start, length)
        }
    }
}

/// A range within a range.
fn within(
    (start, length): (usize, usize),
    inner: Option<(usize, usize)>,
) -> Option<(usize, usize)> {
    match inner {
        None => Some((start, length)),
        Some((more, shorter)) => (more + shorter <= length).then_some((start + more, shorter)),
    }
}
