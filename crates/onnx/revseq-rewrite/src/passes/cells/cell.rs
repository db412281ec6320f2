//! The cells of LSTM, GRU and RNN.

use super::activation::Activation;
use super::matrix::Matrix;
use super::pattern::{Match, Pattern, called, function, gate, number, state, value};
use super::sum::Sum;
use crate::passes::steps::body::Body;

/// The kind of a cell.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CellKind {
    /// Gates i, o, f, c; activations of the first three, of c, and of the cell state.
    Lstm,
    /// Gates z, r, h; activations of the first two, and of h.
    Gru {
        /// Whether the candidate resets the product of the state instead of the state: ONNX's
        /// `linear_before_reset`.
        resets_after_product: bool,
    },
    /// One gate and its activation.
    Rnn,
}

impl CellKind {
    /// The name of ONNX's operator.
    pub(crate) fn operator(self) -> &'static str {
        match self {
            Self::Lstm => "LSTM",
            Self::Gru { .. } => "GRU",
            Self::Rnn => "RNN",
        }
    }
}

/// The argument of a gate's activation.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Gate {
    /// The weights of the input, `[features, units]`.
    pub(crate) input: Matrix,
    /// The weights of the state, `[units, units]`.
    pub(crate) state: Matrix,
    /// The factors of an LSTM's cell state, one for each unit.
    pub(crate) peephole: Option<Vec<f32>>,
    /// A number for each unit.
    pub(crate) bias: Option<Vec<f32>>,
    /// The bias of the state's product alone, where a GRU resets the product.
    pub(crate) state_bias: Option<Vec<f32>>,
}

/// A cell, with the values that it computes with.
#[derive(Clone, Debug)]
pub(crate) struct Cell<'a> {
    /// The operator.
    pub(crate) kind: CellKind,
    /// The gates, in ONNX's order.
    pub(crate) gates: Vec<Gate>,
    /// The activations, in ONNX's order.
    pub(crate) activations: Vec<Activation>,
    /// The input.
    pub(crate) input: &'a str,
    /// The output, which is also the hidden state after the step.
    pub(crate) output: &'a str,
    /// The hidden state before the step.
    pub(crate) hidden: &'a str,
    /// An LSTM's cell state before and after the step.
    pub(crate) memory: Option<(&'a str, &'a str)>,
}

/// A gate's sum, with its operands.
struct GateSum<'a> {
    gate: Gate,
    input: &'a str,
    /// The state, or a value in its place.
    state: &'a str,
    /// The operand with elementwise factors.
    scaled: Option<&'a str>,
}

impl<'a> Cell<'a> {
    /// Recognises the cell that computes a value.
    pub(crate) fn of(body: &Body<'a>, output: &'a str) -> Option<Self> {
        let output = body.plain(output);
        lstm(body, output)
            .or_else(|| gru(body, output))
            .or_else(|| rnn(body, output))
    }

    /// The number of units.
    pub(crate) fn units(&self) -> usize {
        self.gates[0].state.columns()
    }

    /// The number of features of the input.
    pub(crate) fn features(&self) -> usize {
        self.gates[0].input.rows()
    }

    /// Accepts the cell if the weights of all gates fit together.
    fn fits(self) -> Option<Self> {
        let (features, units) = (self.features(), self.units());
        let sizes = |matrix: &Matrix| [matrix.rows(), matrix.columns()];
        let mut gates = self.gates.iter();
        let fits = gates.all(|gate| {
            sizes(&gate.input) == [features, units] && sizes(&gate.state) == [units, units]
        });
        fits.then_some(self)
    }
}

/// o · h(f · c + i · g)
fn lstm<'a>(body: &Body<'a>, output: &'a str) -> Option<Cell<'a>> {
    let memory = gate("f") * state("c") + gate("i") * gate("g");
    let pattern = gate("o") * function("h", called("new", memory));
    pattern.find(body, output, |matched| {
        let (old, new) = (matched.value("c")?.value, matched.value("new")?.value);
        let gates = ["i", "o", "f", "g"].map(|gate| GateSum::of(body, matched, gate));
        let [i, o, f, g] = gates;
        let [i, o, f, g] = [i?, o?, f?, g?];
        let functions = ["i", "o", "f", "g", "h"].map(|name| matched.function(name));
        let [i_function, o_function, f_function, g_function, h_function] = functions;
        let (hidden, input) = (body.state(i.state)?.carried, i.input);
        // All gates share one function. It distinguishes i from g, unless they share it too; then
        // their order is irrelevant.
        let alike = i_function == f_function && o_function == f_function;
        let of_state = |gate: &GateSum<'a>, seen: Option<&'a str>| {
            gate.state == hidden
                && gate.input == input
                && (gate.scaled.is_none() || gate.scaled == seen)
        };
        let sees = of_state(&i, Some(old)) && of_state(&f, Some(old)) && of_state(&o, Some(new));
        let is_one_state = hidden == old && !body.is_written_out();
        if !alike || !sees || !of_state(&g, None) || is_one_state {
            return None;
        }
        Cell {
            kind: CellKind::Lstm,
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

/// The forms of z · h + (1 - z) · n, each with whether its gate is 1 - z.
fn mixtures() -> [(Pattern, bool); 6] {
    let z = || called("update", gate("z"));
    let rest = || number(1.0) - value("update");
    let h = || state("h");
    let n = || called("candidate", function("n", value("n")));
    let again = || value("candidate");
    [
        (z() * h() + rest() * n(), false),
        (n() + z() * (h() - again()), false),
        (n() - z() * (again() - h()), false),
        (z() * n() + rest() * h(), true),
        (h() + z() * (n() - h()), true),
        (h() - z() * (h() - n()), true),
    ]
}

fn gru<'a>(body: &Body<'a>, output: &'a str) -> Option<Cell<'a>> {
    mixtures().iter().find_map(|(form, is_opposite)| {
        form.find(body, output, |matched| {
            let hidden = matched.value("h")?.value;
            let mut z = GateSum::of(body, matched, "z")?;
            let candidate = Candidate::of(body, matched, hidden)?;
            let z_function = matched.function("z")?;
            let n = candidate.new;
            let sees = |gate: &GateSum<'a>| {
                gate.state == hidden && gate.input == n.input && gate.scaled.is_none()
            };
            let is_one = sees(&z) && sees(&candidate.reset) && n.scaled.is_none();
            if z_function != candidate.function || !is_one {
                return None;
            }
            if *is_opposite {
                z.gate = z_function.is_symmetric().then(|| z.gate.opposite())?;
            }
            Cell {
                kind: CellKind::Gru {
                    resets_after_product: candidate.resets_after_product,
                },
                activations: vec![z_function, matched.function("n")?],
                input: n.input,
                output,
                hidden,
                memory: None,
                gates: [z, candidate.reset, n].map(|it| it.gate).into(),
            }
            .fits()
        })
    })
}

/// The argument of a GRU's new state, with its reset gate.
struct Candidate<'a> {
    resets_after_product: bool,
    reset: GateSum<'a>,
    /// The reset gate's function.
    function: Activation,
    new: GateSum<'a>,
}

impl<'a> Candidate<'a> {
    fn of(body: &Body<'a>, matched: &Match<'a>, hidden: &'a str) -> Option<Self> {
        let mut sum = Sum::of(body, matched.value("n")?)?;
        if let Some(reset) = sum.rest.pop() {
            // x · W + b + r · (h · R + d)
            return (gate("r") * value("state")).find(body, reset, |inner| {
                let reset = GateSum::of(body, inner, "r")?;
                let state = Sum::of(body, inner.value("state")?)?;
                let [(value, weights)] = state.products.as_slice() else {
                    return None;
                };
                let plain = state.scaled.is_empty() && state.rest.is_empty();
                if body.state(value)?.carried != hidden || !plain {
                    return None;
                }
                let state_bias = state.bias(weights.columns())?;
                let mut sum = sum.clone();
                sum.products.push((hidden, weights.clone()));
                let mut new = GateSum::of_sum(body, &sum)?;
                new.gate.state_bias = state_bias;
                Some(Self {
                    resets_after_product: true,
                    reset,
                    function: inner.function("r")?,
                    new,
                })
            });
        }
        // x · W + (r · h) · R + b
        let new = GateSum::of_sum(body, &sum)?;
        (gate("r") * state("h")).find(body, new.state, |inner| {
            let is_hidden = inner.value("h")?.value == hidden;
            Some(Self {
                resets_after_product: false,
                reset: GateSum::of(body, inner, "r").filter(|_| is_hidden)?,
                function: inner.function("r")?,
                new: GateSum::of_sum(body, &sum)?,
            })
        })
    }
}

/// f(x · W + h · R + b)
fn rnn<'a>(body: &Body<'a>, output: &'a str) -> Option<Cell<'a>> {
    gate("h").find(body, output, |matched| {
        let only = GateSum::of(body, matched, "h")?;
        if only.scaled.is_some() {
            return None;
        }
        Cell {
            kind: CellKind::Rnn,
            gates: vec![only.gate],
            activations: vec![matched.function("h")?],
            input: only.input,
            output,
            hidden: body.state(only.state)?.carried,
            memory: None,
        }
        .fits()
    })
}

impl Gate {
    /// The gate of the opposite argument.
    fn opposite(self) -> Self {
        let opposite = |bias: Vec<f32>| bias.into_iter().map(|it| -it).collect();
        Self {
            input: self.input.negated(),
            state: self.state.negated(),
            bias: self.bias.map(opposite),
            ..self
        }
    }
}

impl<'a> GateSum<'a> {
    /// Reads a gate of a pattern.
    fn of(body: &Body<'a>, matched: &Match<'a>, gate: &str) -> Option<Self> {
        Self::of_sum(body, &Sum::of(body, matched.value(gate)?)?)
    }

    /// Reads a sum of one product of an input and one of a state, or of a value in its place.
    fn of_sum(body: &Body<'a>, sum: &Sum<'a>) -> Option<Self> {
        let [first, second] = sum.products.as_slice() else {
            return None;
        };
        let is_reset = |factor: &'a str| {
            let reset = gate("r") * state("h");
            reset.find(body, factor, |_| Some(())).is_some()
        };
        let of_state =
            |(factor, _): &(&'a str, Matrix)| body.state(factor).is_some() || is_reset(factor);
        let ((input, of_input), (seen, of_seen)) = match (of_state(first), of_state(second)) {
            (false, true) => (first, second),
            (true, false) => (second, first),
            // If both are states, one may be an earlier cell's, read as input.
            _ => return None,
        };
        let units = of_seen.columns();
        let (scaled, peephole) = match sum.scaled.as_slice() {
            [] => (None, None),
            [(value, by)] if by.len() == units => (Some(*value), Some(by.clone())),
            _ => return None,
        };
        let gate = Gate {
            input: of_input.clone(),
            state: of_seen.clone(),
            peephole,
            bias: sum.bias(units)?,
            state_bias: None,
        };
        sum.rest.is_empty().then_some(Self {
            gate,
            input: *input,
            state: body.state(seen).map_or(*seen, |state| state.carried),
            scaled,
        })
    }
}
