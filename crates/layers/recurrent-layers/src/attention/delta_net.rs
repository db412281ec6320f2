//! `GatedDeltaNet`: linear attention of packed sequences, with the gates before it.
//!
//! ```text
//! decay ← -exp(a_log) * softplus(decay + dt_bias)                      "softplus"
//! decay ← gate_lower_bound * sigmoid(exp(a_log) * (decay + dt_bias))   "sigmoid"
//! ```

use super::gate::{logistic, softplus};
use super::packing::Packing;
use super::states::{Captured, Gates, Heads, States};
use super::{Inputs, Shapes, capacity, rule, taken};
use crate::attributes::{Attributes, wrong};
use crate::error::Error;
use crate::place::Place;
use crate::threads::Threads;

const QUERY: usize = 0;
const KEY: usize = 1;
const VALUE: usize = 2;
const OFFSETS: usize = 3;
const DECAY: usize = 4;
const BETA: usize = 5;
const INITIAL_STATE: usize = 6;
const A_LOG: usize = 7;
const DT_BIAS: usize = 8;
const CAPTURE_COUNT: usize = 9;
const ACTIVE: usize = 10;

pub(super) const INPUTS: [&str; 11] = [
    "query",
    "key",
    "value",
    "cu_seqlens",
    "decay",
    "beta",
    "initial_state",
    "a_log",
    "dt_bias",
    "capture_count",
    "state_update_active",
];

/// What makes decays of the values that a model computes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum DecayGate {
    /// "softplus".
    Softplus,
    /// "sigmoid", with its `gate_lower_bound`.
    Sigmoid {
        /// What the function is multiplied with.
        bound: f32,
    },
}

/// ONNX Runtime's `GatedDeltaNet`.
#[derive(Clone, Debug, PartialEq)]
pub struct GatedDeltaNet {
    /// Whether states decay: the rules "gated" and "gated_delta".
    pub decays: bool,
    /// Whether what a state recalls for a key is taken from the value: "delta" and "gated_delta".
    pub corrects: bool,
    /// What outputs are multiplied with; `None` for 1 by the square root of the size of a key.
    pub scale: Option<f32>,
    /// `gate_activation`, if it is not "none".
    pub gate: Option<DecayGate>,
    /// Whether betas go through a Sigmoid.
    pub sigmoid_of_beta: bool,
    /// Whether queries and keys are made unit vectors: `qk_l2_norm`.
    pub normalizes: bool,
    /// `state_update_capacity`: how many of the first steps of a sequence are output for being done again.
    pub capacity: usize,
}

/// The sizes of a run.
#[derive(Clone, Debug)]
pub(super) struct Sizes {
    /// Those of the axes of tokens, one or two.
    tokens: Vec<usize>,
    batch: usize,
    /// The heads of queries and keys.
    heads: usize,
    states: usize,
    key: usize,
    value: usize,
    /// The decays of a state, 1 or one for each element of a key.
    decays: usize,
    /// What is captured of a sequence.
    captured: usize,
}

impl Sizes {
    fn tokens(&self) -> usize {
        self.tokens.iter().product()
    }

    pub(super) fn outputs(&self) -> Vec<Vec<usize>> {
        vec![
            [&self.tokens[..], &[self.states, self.value]].concat(),
            vec![self.batch, self.states, self.value, self.key],
            vec![self.batch, self.captured],
        ]
    }
}

impl GatedDeltaNet {
    pub(super) fn of(attributes: &dyn Attributes) -> Result<Self, Error> {
        let (decays, corrects) = rule(attributes)?;
        let gate = attributes.text("gate_activation")?;
        let bound = attributes.float("gate_lower_bound")?.unwrap_or(-5.0);
        let gate = match gate.as_deref().unwrap_or("none") {
            "none" => None,
            "softplus" | "qwen" => Some(DecayGate::Softplus),
            "sigmoid" | "kda" => Some(DecayGate::Sigmoid { bound }),
            other => {
                let gates = "none, softplus or sigmoid";
                return wrong("gate_activation", format!("{other:?}"), gates);
            }
        };
        let of_beta = attributes.text("beta_activation")?;
        let sigmoid_of_beta = match of_beta.as_deref().unwrap_or("none") {
            "none" => false,
            "sigmoid" => true,
            other => {
                let gates = "none or sigmoid";
                return wrong("beta_activation", format!("{other:?}"), gates);
            }
        };
        Ok(Self {
            decays,
            corrects,
            scale: attributes.float("scale")?.filter(|scale| *scale != 0.0),
            gate,
            sigmoid_of_beta,
            normalizes: attributes.is_set("qk_l2_norm")?,
            capacity: capacity(attributes)?,
        })
    }

    pub(super) fn sizes(&self, sizes: &[Option<&[usize]>]) -> Result<Sizes, Error> {
        let shapes = Shapes {
            names: &INPUTS,
            sizes,
        };
        let (tokens, [heads, states, key, value]) = match [KEY, VALUE].map(|it| shapes.get(it)) {
            [None, None] => packed_sizes(shapes)?,
            _ => separate_sizes(shapes)?,
        };
        if heads == 0 || states == 0 || !states.is_multiple_of(heads) {
            let is_packed = shapes.get(VALUE).is_none();
            let operand = if is_packed { INITIAL_STATE } else { VALUE };
            let expected = format!("heads that are a multiple of the query's {heads}");
            return Err(shapes.wrong(operand, expected));
        }
        let batch = batch(shapes, tokens)?;
        shapes.check(INITIAL_STATE, &[batch, states, value, key])?;
        let of_states = [tokens, &[states]].concat();
        let by_key = [tokens, &[states, key]].concat();
        let decays = match shapes.used(DECAY, self.decays, "update_rule")? {
            None => 1,
            Some(decays) if decays == of_states => 1,
            Some(decays) if decays == by_key => key,
            Some(_) => {
                let expected = format!("{of_states:?} or {by_key:?}");
                return Err(shapes.wrong(DECAY, expected));
            }
        };
        shapes.used(BETA, self.corrects, "update_rule")?;
        shapes.check(BETA, &of_states)?;
        for input in [A_LOG, DT_BIAS] {
            shapes.used(input, self.gate.is_some(), "gate_activation")?;
        }
        shapes.check(A_LOG, &[states])?;
        match shapes.get(DT_BIAS) {
            Some(bias) if *bias == [states, decays] || *bias == [states * decays] => {}
            _ => shapes.check(DT_BIAS, &[states])?,
        }
        shapes.used(CAPTURE_COUNT, self.capacity > 0, "state_update_capacity")?;
        shapes.check(CAPTURE_COUNT, &[batch])?;
        shapes.check(ACTIVE, &[1])?;
        Ok(Sizes {
            tokens: tokens.to_vec(),
            batch,
            heads,
            states,
            key,
            value,
            decays,
            captured: self.capacity * (states * decays + heads * key + states * value),
        })
    }

    pub(super) fn run<P: Place<f32>>(
        &self,
        sizes: &Sizes,
        inputs: Inputs<'_>,
        outputs: &mut [Option<&mut [P]>],
        threads: &dyn Threads,
    ) -> Result<(), Error> {
        let Sizes {
            batch,
            heads,
            states,
            key,
            value,
            ..
        } = *sizes;
        let tokens = sizes.tokens();
        let packing = match inputs.integers(OFFSETS) {
            Some(offsets) => Packing::of(INPUTS[OFFSETS], offsets, tokens)?,
            None => Packing::Even {
                batch,
                steps: tokens.checked_div(batch).unwrap_or_default(),
            },
        };
        // One input may have all three, beside each other for each token.
        let is_packed = inputs.optional(KEY).is_none();
        let mut first = 0;
        let token = 2 * heads * key + states * value;
        let mut of = |input: usize, heads: usize, size: usize| {
            let start = first;
            first += heads * size;
            match is_packed {
                false => Heads::of(inputs.floats(input), heads, size),
                true => Heads {
                    elements: inputs.floats(QUERY),
                    first: start,
                    token,
                    heads,
                    size,
                },
            }
        };
        let is_active = inputs.integers(ACTIVE).is_none_or(|it| it != [0]);
        let [output, present, captured] = taken(outputs);
        States {
            packing,
            states,
            key,
            value,
            scale: self.scale.unwrap_or_else(|| 1.0 / (key as f32).sqrt()),
            window: 1,
            value_first: true,
            normalizes: self.normalizes,
            past: inputs.optional(INITIAL_STATE),
            queries: of(QUERY, heads, key),
            keys: of(KEY, heads, key),
            values: of(VALUE, states, value),
            decays: (self.decays).then(|| Heads::of(inputs.floats(DECAY), states, sizes.decays)),
            betas: (self.corrects).then(|| Heads::of(inputs.floats(BETA), states, 1)),
            gates: OfNet {
                gate: self.gate,
                sigmoid_of_beta: self.sigmoid_of_beta,
                a_log: inputs.floats(A_LOG),
                bias: inputs.floats(DT_BIAS),
                states,
            },
            captured: Captured {
                capacity: self.capacity,
                counts: inputs.integers(CAPTURE_COUNT).filter(|_| is_active),
            },
        }
        .run(output, present, captured, threads)
    }
}

const STATE: &str = "four sizes, [sequences, heads, value, key]";

/// The gates of a run.
struct OfNet<'a> {
    gate: Option<DecayGate>,
    sigmoid_of_beta: bool,
    a_log: &'a [f32],
    /// One for each state, or for each element of its key.
    bias: &'a [f32],
    states: usize,
}

impl Gates for OfNet<'_> {
    fn decays(&self, state: usize, decays: &mut [f32], of_token: usize) {
        let Some(gate) = self.gate else { return };
        let a = self.a_log[state].exp();
        let of_state = self.bias.len() / self.states;
        let bias = &self.bias[state * of_state..][..of_state];
        for decays in decays.chunks_mut(of_token.max(1)) {
            for (decay, bias) in std::iter::zip(decays, bias.iter().cycle()) {
                *decay = match gate {
                    DecayGate::Softplus => -a * softplus(*decay + bias),
                    DecayGate::Sigmoid { bound } => bound * logistic(a * (*decay + bias)),
                };
            }
        }
    }

    fn betas(&self, betas: &mut [f32]) {
        if self.sigmoid_of_beta {
            betas.iter_mut().for_each(|it| *it = logistic(*it));
        }
    }
}

/// The sizes of tokens, and the numbers of heads, of states, and of the elements of keys and values.
type TokensAndSizes<'a> = (&'a [usize], [usize; 4]);

/// Reads them where queries, keys and values are one input, side by side: the state tells them apart.
fn packed_sizes(shapes: Shapes<'_>) -> Result<TokensAndSizes<'_>, Error> {
    let [_, states, value, key] = shapes.axes(INITIAL_STATE, STATE)?;
    let of_value = states.saturating_mul(value);
    let of_heads = |size: usize| size.checked_sub(of_value)?.checked_div(2 * key);
    match shapes.required(QUERY)? {
        [tokens @ .., size] if (1..=2).contains(&tokens.len()) => {
            let heads = of_heads(*size).unwrap_or_default();
            if 2 * heads * key + of_value != *size {
                let expected = format!("{of_value} and 2 * heads * {key} at last");
                return Err(shapes.wrong(QUERY, expected));
            }
            Ok((tokens, [heads, states, key, value]))
        }
        _ => Err(shapes.wrong(QUERY, "two or three sizes".to_owned())),
    }
}

/// Reads them where each is an input.
fn separate_sizes(shapes: Shapes<'_>) -> Result<TokensAndSizes<'_>, Error> {
    let [query, of_key, of_value] = [QUERY, KEY, VALUE].map(|it| shapes.required(it));
    let (query, of_key) = (query?, of_key?);
    match (query, of_value?) {
        (&[ref tokens @ .., heads, key], &[.., states, value])
            if (1..=2).contains(&tokens.len()) =>
        {
            if of_key != query {
                return Err(shapes.wrong(KEY, format!("{query:?}")));
            }
            shapes.check(VALUE, &[tokens, &[states, value]].concat())?;
            Ok((tokens, [heads, states, key, value]))
        }
        _ => Err(shapes.wrong(QUERY, "[tokens, heads, size]".to_owned())),
    }
}

/// The number of sequences that the tokens are of.
fn batch(shapes: Shapes<'_>, tokens: &[usize]) -> Result<usize, Error> {
    let batch = match (shapes.get(OFFSETS), tokens) {
        (Some([offsets]), [_]) if *offsets >= 2 => return Ok(offsets - 1),
        (Some([_]), [_, _]) => {
            let expected = "one axis of tokens where cu_seqlens is given";
            return Err(shapes.wrong(QUERY, expected.to_owned()));
        }
        (Some(_), _) => return Err(shapes.wrong(OFFSETS, "[sequences + 1]".to_owned())),
        (None, &[batch, _]) => batch,
        (None, _) => shapes.axes::<4>(INITIAL_STATE, STATE)?[0],
    };
    let count: usize = tokens.iter().product();
    if count.checked_rem(batch).unwrap_or(count) != 0 {
        return Err(shapes.wrong(QUERY, format!("tokens that {batch} sequences share")));
    }
    Ok(batch)
}
