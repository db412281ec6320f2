//! The cells of LSTM, GRU and RNN.

use crate::pattern::{Match, Pattern, called, function, gate, number, state, value};
use crate::sum::Sum;
use crate::{Activation, Matrix, Step};

/// The kind of a cell.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
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

impl Kind {
    /// The name of ONNX's operator.
    #[must_use]
    pub fn operator(self) -> &'static str {
        match self {
            Self::Lstm => "LSTM",
            Self::Gru { .. } => "GRU",
            Self::Rnn => "RNN",
        }
    }
}

/// The argument of a gate's activation.
#[derive(Clone, Debug, PartialEq)]
pub struct Gate {
    /// The weights of the input, `[features, units]`.
    pub input: Matrix,
    /// The weights of the state, `[units, units]`.
    pub state: Matrix,
    /// The factors of an LSTM's cell state, one for each unit.
    pub peephole: Option<Vec<f32>>,
    /// A number for each unit.
    pub bias: Option<Vec<f32>>,
    /// The bias of the state's product alone, where a GRU resets the product.
    pub state_bias: Option<Vec<f32>>,
}

/// A cell, with the values that it computes with.
#[derive(Clone, Debug)]
pub struct Cell<V> {
    /// The operator.
    pub kind: Kind,
    /// The gates, in ONNX's order.
    pub gates: Vec<Gate>,
    /// The activations, in ONNX's order.
    pub activations: Vec<Activation>,
    /// The input.
    pub input: V,
    /// The output, which is also the hidden state after the step.
    pub output: V,
    /// The hidden state before the step.
    pub hidden: V,
    /// An LSTM's cell state before and after the step.
    pub memory: Option<(V, V)>,
}

/// A gate's sum, with its operands.
struct Reading<V> {
    gate: Gate,
    input: V,
    /// The state, or a value in its place.
    state: V,
    /// The operand with elementwise factors.
    scaled: Option<V>,
}

impl<V: Copy + PartialEq> Cell<V> {
    /// Recognises the cell that computes a value.
    #[must_use]
    pub fn of<S: Step<Value = V>>(step: &S, output: V) -> Option<Self> {
        let output = step.plain(output);
        lstm(step, output)
            .or_else(|| gru(step, output))
            .or_else(|| rnn(step, output))
    }

    /// The number of units.
    #[must_use]
    pub fn units(&self) -> usize {
        self.gates[0].state.columns()
    }

    /// The number of features of the input.
    #[must_use]
    pub fn features(&self) -> usize {
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
fn lstm<S: Step>(step: &S, output: S::Value) -> Option<Cell<S::Value>> {
    let memory = gate("f") * state("c") + gate("i") * gate("g");
    let pattern = gate("o") * function("h", called("new", memory));
    pattern.find(step, output, |found| {
        let (old, new) = (found.value("c")?.value, found.value("new")?.value);
        let gates = ["i", "o", "f", "g"].map(|gate| Reading::of(step, found, gate));
        let [i, o, f, g] = gates;
        let [i, o, f, g] = [i?, o?, f?, g?];
        let functions = ["i", "o", "f", "g", "h"].map(|name| found.function(name));
        let [i_function, o_function, f_function, g_function, h_function] = functions;
        let (hidden, input) = (step.state(i.state)?, i.input);
        // All gates share one function. It distinguishes i from g, unless they share it too; then
        // their order is irrelevant.
        let alike = i_function == f_function && o_function == f_function;
        let of_state = |gate: &Reading<S::Value>, seen: Option<S::Value>| {
            gate.state == hidden
                && gate.input == input
                && (gate.scaled.is_none() || gate.scaled == seen)
        };
        let sees = of_state(&i, Some(old)) && of_state(&f, Some(old)) && of_state(&o, Some(new));
        let is_one_state = hidden == old && !step.states_begin_alike();
        if !alike || !sees || !of_state(&g, None) || is_one_state {
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

fn gru<S: Step>(step: &S, output: S::Value) -> Option<Cell<S::Value>> {
    mixtures().iter().find_map(|(form, is_opposite)| {
        form.find(step, output, |found| {
            let hidden = found.value("h")?.value;
            let mut z = Reading::of(step, found, "z")?;
            let candidate = Candidate::of(step, found, hidden)?;
            let z_function = found.function("z")?;
            let n = candidate.new;
            let sees = |gate: &Reading<S::Value>| {
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
                kind: Kind::Gru {
                    resets_after_product: candidate.resets_after_product,
                },
                activations: vec![z_function, found.function("n")?],
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
struct Candidate<V> {
    resets_after_product: bool,
    reset: Reading<V>,
    /// The reset gate's function.
    function: Activation,
    new: Reading<V>,
}

impl<V: Copy + PartialEq> Candidate<V> {
    fn of<S: Step<Value = V>>(step: &S, found: &Match<V>, hidden: V) -> Option<Self> {
        let mut sum = Sum::of(step, found.value("n")?)?;
        if let Some(reset) = sum.rest.pop() {
            // x · W + b + r · (h · R + d)
            return (gate("r") * value("state")).find(step, reset, |inner| {
                let reset = Reading::of(step, inner, "r")?;
                let state = Sum::of(step, inner.value("state")?)?;
                let [(value, weights)] = state.products.as_slice() else {
                    return None;
                };
                let plain = state.scaled.is_empty() && state.rest.is_empty();
                if step.state(*value)? != hidden || !plain {
                    return None;
                }
                let state_bias = state.bias(weights.columns())?;
                let mut sum = sum.clone();
                sum.products.push((hidden, weights.clone()));
                let mut new = Reading::of_sum(step, &sum)?;
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
        let new = Reading::of_sum(step, &sum)?;
        (gate("r") * state("h")).find(step, new.state, |inner| {
            let is_hidden = inner.value("h")?.value == hidden;
            Some(Self {
                resets_after_product: false,
                reset: Reading::of(step, inner, "r").filter(|_| is_hidden)?,
                function: inner.function("r")?,
                new: Reading::of_sum(step, &sum)?,
            })
        })
    }
}

/// f(x · W + h · R + b)
fn rnn<S: Step>(step: &S, output: S::Value) -> Option<Cell<S::Value>> {
    gate("h").find(step, output, |found| {
        let only = Reading::of(step, found, "h")?;
        if only.scaled.is_some() {
            return None;
        }
        Cell {
            kind: Kind::Rnn,
            gates: vec![only.gate],
            activations: vec![found.function("h")?],
            input: only.input,
            output,
            hidden: step.state(only.state)?,
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

impl<V: Copy + PartialEq> Reading<V> {
    /// Reads a gate of a pattern.
    fn of<S: Step<Value = V>>(step: &S, found: &Match<V>, gate: &str) -> Option<Self> {
        Self::of_sum(step, &Sum::of(step, found.value(gate)?)?)
    }

    /// Reads a sum of one product of an input and one of a state, or of a value in its place.
    fn of_sum<S: Step<Value = V>>(step: &S, sum: &Sum<V>) -> Option<Self> {
        let [first, second] = sum.products.as_slice() else {
            return None;
        };
        let is_reset = |factor: V| {
            let reset = gate("r") * state("h");
            reset.find(step, factor, |_| Some(())).is_some()
        };
        let of_state =
            |(factor, _): &(V, Matrix)| step.state(*factor).is_some() || is_reset(*factor);
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
            state: step.state(*seen).unwrap_or(*seen),
            scaled,
        })
    }
}
