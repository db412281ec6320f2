//! Recognises the cells of LSTM, GRU and RNN.

use crate::constant::Floats;

use super::activation::Activation;
use super::body::Body;
use super::pattern::{Match, called, function, gate, number, state, value};
use super::sum::Sum;

/// A cell's operator.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Lstm,
    Gru { linear_before_reset: bool },
    Rnn,
}

impl Kind {
    pub(super) fn operator(self) -> &'static str {
        match self {
            Self::Lstm => "LSTM",
            Self::Gru { .. } => "GRU",
            Self::Rnn => "RNN",
        }
    }
}

/// The argument of a gate's activation.
#[derive(Clone, Debug)]
pub(super) struct Gate {
    /// The weights of the input, `[input, units]`, and of the state, `[units, units]`.
    pub(super) input: Floats,
    pub(super) state: Floats,
    /// The elementwise factors of LSTM's cell state.
    pub(super) peephole: Option<Vec<f32>>,
    pub(super) bias: Option<Vec<f32>>,
    /// The bias of the state's product alone: in GRU, before the reset.
    pub(super) state_bias: Option<Vec<f32>>,
}

#[derive(Debug)]
pub(super) struct Cell<'a> {
    pub(super) kind: Kind,
    /// The gates, in ONNX's order.
    pub(super) gates: Vec<Gate>,
    /// The activations, in ONNX's order.
    pub(super) activations: Vec<Activation>,
    /// The input.
    pub(super) input: &'a str,
    /// The output, which is also the hidden state after the step.
    pub(super) output: &'a str,
    /// The hidden state before the step.
    pub(super) hidden: &'a str,
    /// LSTM's cell state before and after the step.
    pub(super) memory: Option<(&'a str, &'a str)>,
}

/// A gate's sum, with its operands.
struct Reading<'a> {
    gate: Gate,
    input: &'a str,
    /// The state, or a value in its place.
    state: &'a str,
    /// The operand with elementwise factors.
    scaled: Option<&'a str>,
}

impl<'a> Cell<'a> {
    /// Recognises the cell that computes a value.
    pub(super) fn of(body: &Body<'a>, output: &'a str) -> Option<Self> {
        let output = body.plain(output);
        lstm(body, output)
            .or_else(|| gru(body, output))
            .or_else(|| rnn(body, output))
    }

    /// The number of units.
    pub(super) fn units(&self) -> usize {
        self.gates[0].state.sizes[1]
    }

    /// The number of features of the input.
    pub(super) fn features(&self) -> usize {
        self.gates[0].input.sizes[0]
    }

    /// Accepts the cell if the weights of all gates fit together.
    fn fits(self) -> Option<Self> {
        let (features, units) = (self.features(), self.units());
        let fits = self.gates.iter().all(|gate| {
            gate.input.sizes == [features, units] && gate.state.sizes == [units, units]
        });
        fits.then_some(self)
    }
}

/// o · h(f · c + i · g)
fn lstm<'a>(body: &Body<'a>, output: &'a str) -> Option<Cell<'a>> {
    let memory = gate("f") * state("c") + gate("i") * gate("g");
    let pattern = gate("o") * function("h", called("new", memory));
    pattern.find(body, output, |found| {
        let (old, new) = (found.value("c")?.name, found.value("new")?.name);
        let gates = ["i", "o", "f", "g"].map(|gate| Reading::of(body, found, gate));
        let [i, o, f, g] = gates;
        let [i, o, f, g] = [i?, o?, f?, g?];
        let functions = ["i", "o", "f", "g", "h"].map(|name| found.function(name).cloned());
        let [i_function, o_function, f_function, g_function, h_function] = functions;
        let (hidden, input) = (body.state(i.state)?.carried, i.input);
        // All gates share one function. It distinguishes i from g, unless they share it too; then
        // their order is irrelevant.
        let alike = i_function == f_function && o_function == f_function;
        let of_state = |gate: &Reading<'_>, seen: &str| {
            gate.state == hidden
                && gate.input == input
                && gate.scaled.is_none_or(|scaled| scaled == seen)
        };
        let reads = of_state(&i, old) && of_state(&f, old) && of_state(&o, new);
        if !alike || !reads || !of_state(&g, "") || hidden == old {
            return None;
        }
        Cell {
            kind: Kind::Lstm,
            gates: [i, o, f, g].map(|it| it.gate).into(),
            activations: vec![f_function?, g_function?, h_function?],
            input,
            output,
            hidden,
            memory: Some((old, new)),
        }
        .fits()
    })
}

/// The forms of z · h + (1 - z) · n.
fn gru<'a>(body: &Body<'a>, output: &'a str) -> Option<Cell<'a>> {
    let z = || called("update", gate("z"));
    let n = || function("n", value("n"));
    let forms = [
        z() * state("h") + (number(1.0) - value("update")) * n(),
        called("candidate", n()) + z() * (state("h") - value("candidate")),
    ];
    forms.iter().find_map(|form| {
        form.find(body, output, |found| {
            let hidden = found.value("h")?.name;
            let z = Reading::of(body, found, "z")?;
            let (linear_before_reset, r, r_function, n) = candidate(body, found, hidden)?;
            let z_function = found.function("z")?;
            let reads = |gate: &Reading<'_>| {
                gate.state == hidden && gate.input == n.input && gate.scaled.is_none()
            };
            if *z_function != r_function || !reads(&z) || !reads(&r) {
                return None;
            }
            Cell {
                kind: Kind::Gru {
                    linear_before_reset,
                },
                activations: vec![r_function, found.function("n")?.clone()],
                input: n.input,
                output,
                hidden,
                memory: None,
                gates: [z, r, n].map(|it| it.gate).into(),
            }
            .fits()
        })
    })
}

/// GRU's candidate `n`, with the reset gate, and whether the reset comes after the product.
fn candidate<'a>(
    body: &Body<'a>,
    found: &Match<'a>,
    hidden: &'a str,
) -> Option<(bool, Reading<'a>, Activation, Reading<'a>)> {
    let mut sum = Sum::of(body, found.value("n")?)?;
    if let Some(reset) = sum.rest.pop() {
        // x · W + b + r · (h · U + b)
        return (gate("r") * value("state")).find(body, reset, |inner| {
            let r = Reading::of(body, inner, "r")?;
            let state = Sum::of(body, inner.value("state")?)?;
            let [(of, weights)] = state.products.as_slice() else {
                return None;
            };
            let plain = state.scaled.is_empty() && state.rest.is_empty();
            if body.state(of)?.carried != hidden || !plain {
                return None;
            }
            let state_bias = state.bias(weights.sizes[1])?;
            let mut sum = sum.clone();
            sum.products.push((hidden, weights.clone()));
            let mut n = Reading::of_sum(body, &sum)?;
            n.gate.state_bias = state_bias;
            Some((true, r, inner.function("r")?.clone(), n))
        });
    }
    // x · W + b + (r · h) · U
    let n = Reading::of_sum(body, &sum)?;
    (gate("r") * state("h")).find(body, n.state, |inner| {
        let r = Reading::of(body, inner, "r")?;
        let n = Reading::of_sum(body, &sum)?;
        (inner.value("h")?.name == hidden)
            .then(|| Some((false, r, inner.function("r")?.clone(), n)))?
    })
}

/// f(x · W + h · U + b)
fn rnn<'a>(body: &Body<'a>, output: &'a str) -> Option<Cell<'a>> {
    gate("h").find(body, output, |found| {
        let only = Reading::of(body, found, "h")?;
        if only.scaled.is_some() {
            return None;
        }
        Cell {
            kind: Kind::Rnn,
            gates: vec![only.gate],
            activations: vec![found.function("h")?.clone()],
            input: only.input,
            output,
            hidden: body.state(only.state)?.carried,
            memory: None,
        }
        .fits()
    })
}

impl<'a> Reading<'a> {
    /// Reads a gate of a pattern.
    fn of(body: &Body<'a>, found: &Match<'a>, gate: &str) -> Option<Self> {
        Self::of_sum(body, &Sum::of(body, found.value(gate)?)?)
    }

    /// Reads a sum of one product of an input and one of a state, or of a value in its place.
    fn of_sum(body: &Body<'a>, sum: &Sum<'a>) -> Option<Self> {
        let [first, second] = sum.products.as_slice() else {
            return None;
        };
        let is_state = |(factor, _): &(&'a str, Floats)| body.state(factor).is_some();
        let is_reset = |(factor, _): &(&'a str, Floats)| {
            let reset = gate("r") * state("h");
            reset.find(body, factor, |_| Some(())).is_some()
        };
        let of_state = |product| is_state(product) || is_reset(product);
        let (input, state) = match (of_state(first), of_state(second)) {
            (false, true) => (first, second),
            (true, false) => (second, first),
            // If both are states, one may be an earlier cell's, read as input.
            _ => return None,
        };
        let scaled = match sum.scaled.as_slice() {
            [] => None,
            [scaled] => Some(scaled),
            _ => return None,
        };
        let units = *state.1.sizes.get(1)?;
        if !sum.rest.is_empty() {
            return None;
        }
        let peephole = match scaled {
            Some((_, by)) if by.len() == units => Some(by.clone()),
            Some(_) => return None,
            None => None,
        };
        Some(Self {
            gate: Gate {
                input: input.1.clone(),
                state: state.1.clone(),
                peephole,
                bias: sum.bias(units)?,
                state_bias: None,
            },
            input: input.0,
            state: state.0,
            scaled: scaled.map(|&(value, _)| value),
        })
    }
}
