//! `LinearAttention`: states that are matrices, to which each step adds an outer product.
//!
//! ```text
//! S ← g S               as "gated" and "gated_delta" have it, g = exp(decay)
//! v ← beta (v - Sᵀk)    as "delta" and "gated_delta" have it
//! S ← S + k vᵀ          o = scale * Sᵀq
//! ```

use super::packing::Packing;
use super::states::{AsGiven, Captured, Heads, States};
use super::{Inputs, Shapes, rule, taken, window};
use crate::attributes::{Attributes, wrong};
use crate::error::Error;
use crate::place::Place;
use crate::threads::Threads;

const QUERY: usize = 0;
const KEY: usize = 1;
const VALUE: usize = 2;
const PAST_STATE: usize = 3;
const DECAY: usize = 4;
const BETA: usize = 5;

pub(super) const INPUTS: [&str; 6] = ["query", "key", "value", "past_state", "decay", "beta"];

/// ONNX's `LinearAttention`, and ONNX Runtime's.
#[derive(Clone, Debug, PartialEq)]
pub struct LinearAttention {
    /// Whether states decay: the rules "gated" and "gated_delta".
    pub decays: bool,
    /// Whether what a state recalls for a key is taken from the value: "delta" and "gated_delta".
    pub corrects: bool,
    /// `q_num_heads`, at least 1.
    pub query_heads: usize,
    /// `kv_num_heads`, the number of states of a sequence, at least 1.
    pub states: usize,
    /// What outputs are multiplied with; `None` for 1 by the square root of the size of a key.
    pub scale: Option<f32>,
    /// `state_window`: how many states past and present ones hold, on an axis of their own in front; 0 for one
    /// without this axis.
    pub window: usize,
}

/// The sizes of a run.
#[derive(Clone, Copy, Debug)]
pub(super) struct Sizes {
    batch: usize,
    steps: usize,
    /// The heads of keys, of which one may be that of several states.
    key_heads: usize,
    states: usize,
    /// The heads of outputs for each state.
    group: usize,
    key: usize,
    value: usize,
    window: usize,
    /// The decays of a state, 1 or one for each element of a key.
    decays: usize,
    /// The betas of a state, 1, or 0 if all have the same one.
    betas: usize,
}

impl Sizes {
    pub(super) fn outputs(&self) -> Vec<Vec<usize>> {
        let heads = self.states * self.group;
        let output = vec![self.batch, self.steps, heads * self.value];
        let window = (self.window > 0).then_some(self.window);
        let state = [self.batch, self.states, self.key, self.value];
        vec![output, window.into_iter().chain(state).collect()]
    }
}

impl LinearAttention {
    pub(super) fn of(attributes: &dyn Attributes) -> Result<Self, Error> {
        let (decays, corrects) = rule(attributes)?;
        let heads = |name: &'static str| match attributes.count(name)? {
            Some(heads) => Ok(heads),
            None => wrong(name, "left out", "1 at least"),
        };
        let (query_heads, states) = (heads("q_num_heads")?, heads("kv_num_heads")?);
        if !query_heads.is_multiple_of(states) && !states.is_multiple_of(query_heads) {
            return wrong("q_num_heads", query_heads, "a multiple of kv_num_heads");
        }
        Ok(Self {
            decays,
            corrects,
            query_heads,
            states,
            scale: attributes.float("scale")?.filter(|scale| *scale != 0.0),
            window: window(attributes)?,
        })
    }

    pub(super) fn sizes(&self, sizes: &[Option<&[usize]>]) -> Result<Sizes, Error> {
        let shapes = Shapes {
            names: &INPUTS,
            sizes,
        };
        const PACKED: &str = "three sizes, [batch, steps, heads * size]";
        let [batch, steps, of_query] = shapes.axes(QUERY, PACKED)?;
        let [_, _, of_key] = shapes.axes(KEY, PACKED)?;
        let [_, _, of_value] = shapes.axes(VALUE, PACKED)?;
        let multiple = |input, size: usize, heads: usize| match size % heads {
            0 => Ok(size / heads),
            _ => Err(shapes.wrong(input, format!("a last size that {heads} heads share"))),
        };
        let states = self.states;
        let key = multiple(QUERY, of_query, self.query_heads)?;
        let value = multiple(VALUE, of_value, states)?;
        // Keys may have fewer heads than there are states, as queries may.
        let key_heads = of_key.checked_div(key).unwrap_or(states);
        if key_heads == 0 || !states.is_multiple_of(key_heads) || key_heads * key != of_key {
            return Err(shapes.wrong(KEY, format!("[{batch}, {steps}, {}]", states * key)));
        }
        shapes.check(KEY, &[batch, steps, of_key])?;
        shapes.check(VALUE, &[batch, steps, of_value])?;
        let state = [batch, states, key, value];
        match self.window {
            0 => shapes.check(PAST_STATE, &state)?,
            window => {
                shapes.check(PAST_STATE, &[&[window], &state[..]].concat())?;
            }
        }
        // How many numbers an input has for each of the states.
        let rates = |input: usize, is_used: bool, others: [usize; 2], of_all: usize| {
            let Some(sizes) = shapes.used(input, is_used, "update_rule")? else {
                return Ok(0);
            };
            let mut counts = others.into_iter();
            let count = counts.find(|count| *sizes == [batch, steps, *count]);
            let expected = || format!("[{batch}, {steps}, {}] or [.., {}]", others[0], others[1]);
            let count = count.ok_or_else(|| shapes.wrong(input, expected()))?;
            Ok::<_, Error>(count / of_all)
        };
        let decays = rates(DECAY, self.decays, [states, states * key], states)?;
        let betas = rates(BETA, self.corrects, [states, 1], states)?;
        Ok(Sizes {
            batch,
            steps,
            key_heads,
            states,
            group: self.query_heads.div_ceil(states),
            key,
            value,
            window: self.window,
            decays,
            betas,
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
            steps,
            states,
            key,
            value,
            ..
        } = *sizes;
        let heads = |input, heads, size| Heads::of(inputs.floats(input), heads, size);
        let betas = self.corrects.then_some(match sizes.betas {
            0 => heads(BETA, 1, 1),
            _ => heads(BETA, states, 1),
        });
        let [output, present, _] = taken(outputs);
        States {
            packing: Packing::Even { batch, steps },
            states,
            key,
            value,
            scale: self.scale.unwrap_or_else(|| 1.0 / (key as f32).sqrt()),
            window: self.window.max(1),
            value_first: false,
            normalizes: false,
            past: inputs.optional(PAST_STATE),
            queries: heads(QUERY, self.query_heads, key),
            keys: heads(KEY, sizes.key_heads, key),
            values: heads(VALUE, states, value),
            decays: self.decays.then(|| heads(DECAY, states, sizes.decays)),
            betas,
            gates: AsGiven,
            captured: Captured::default(),
        }
        .run(output, present, None, threads)
    }
}
