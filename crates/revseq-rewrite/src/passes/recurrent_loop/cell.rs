//! What a step computes: the cells of LSTM, GRU and RNN.

use crate::constant::Floats;

use super::activation::Activation;
use super::body::Body;
use super::pattern::{Match, called, function, gate, number, state, value};
use super::sum::Sum;

/// The operator that a cell is.
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

/// What a gate is the function of.
#[derive(Clone, Debug)]
pub(super) struct Gate {
    /// The weights of the input `[input, units]` and of the state `[units, units]`.
    pub(super) input: Floats,
    pub(super) state: Floats,
    /// What LSTM's own state is multiplied with, element by element.
    pub(super) peephole: Option<Vec<f32>>,
    pub(super) bias: Option<Vec<f32>>,
    /// What is added to the state's product alone: GRU's, before it is reset.
    pub(super) state_bias: Option<Vec<f32>>,
}

/// A cell.
#[derive(Debug)]
pub(super) struct Cell<'a> {
    pub(super) kind: Kind,
    /// Its gates in ONNX's order.
    pub(super) gates: Vec<Gate>,
    /// The functions in ONNX's order.
    pub(super) activations: Vec<Activation>,
    /// What it reads.
    pub(super) input: &'a str,
    /// What it gives, which is its state after the step.
    pub(super) output: &'a str,
    /// The state that is its output, as the step finds it.
    pub(super) hidden: &'a str,
    /// LSTM's cell state as the step finds it and leaves it.
    pub(super) memory: Option<(&'a str, &'a str)>,
}

/// A gate's sum, with the values that it reads.
struct Reading<'a> {
    gate: Gate,
    input: &'a str,
    /// The value that takes the state's place.
    state: &'a str,
    /// What is multiplied element by element.
    scaled: Option<&'a str>,
}

impl<'a> Cell<'a> {
    /// The cell that computes a value.
    pub(super) fn of(body: &Body<'a>, output: &'a str) -> Option<Self> {
        let output = body.plain(output);
        lstm(body, output)
            .or_else(|| gru(body, output))
            .or_else(|| rnn(body, output))
    }

    /// How many units it has.
    pub(super) fn units(&self) -> usize {
        self.gates[0].state.sizes[1]
    }

    /// How many features its input has.
    pub(super) fn features(&self) -> usize {
        self.gates[0].input.sizes[0]
    }

    /// Whether all gates have weights of sizes that fit.
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
        // The gates have one function. i and g are told apart by it, or else their product
        // does not care.
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

/// The forms of z · h + (1 - z) · n
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

/// GRU's candidate `n`, with the gate that resets it: whether it does so behind the product.
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
    /// What a gate of a pattern reads.
    fn of(body: &Body<'a>, found: &Match<'a>, gate: &str) -> Option<Self> {
        Self::of_sum(body, &Sum::of(body, found.value(gate)?)?)
    }

    /// One product of an input and one of a state, or of what takes its place.
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
            // The state of a cell before this one may be its input.
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
