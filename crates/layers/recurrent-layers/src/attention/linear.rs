//! `LinearAttention`: states that are matrices, to which each step adds an outer product.
//!
//! ```text
//! S ← g S               as "gated" and "gated_delta" have it, g = exp(decay)
//! v ← beta (v - Sᵀk)    as "delta" and "gated_delta" have it
//! S ← S + k vᵀ          o = scale * Sᵀq
//! ```

use rten_simd::{SimdOp, SimdUnaryOp};
use rten_vecmath::Exp;

use super::state::{Memory, Rows, State};
use super::{Elements, Shapes, share, window};
use crate::attributes::{Attributes, wrong};
use crate::error::Error;
use crate::memory::{clear, collect};
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
    pub(super) fn outputs(&self) -> [Vec<usize>; 2] {
        let heads = self.states * self.group;
        let output = vec![self.batch, self.steps, heads * self.value];
        let window = (self.window > 0).then_some(self.window);
        let state = [self.batch, self.states, self.key, self.value];
        [output, window.into_iter().chain(state).collect()]
    }
}

impl LinearAttention {
    pub(super) fn of(attributes: &dyn Attributes) -> Result<Self, Error> {
        let rule = attributes.text("update_rule")?;
        let (decays, corrects) = match rule.as_deref().unwrap_or("gated_delta") {
            "linear" => (false, false),
            "gated" => (true, false),
            "delta" => (false, true),
            "gated_delta" => (true, true),
            other => {
                let rules = "linear, gated, delta or gated_delta";
                return wrong("update_rule", format!("{other:?}"), rules);
            }
        };
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
            let operand = INPUTS[input];
            let sizes = match (is_used, shapes.get(input)) {
                (false, None) => return Ok(0),
                (false, Some(_)) => return Err(Error::Unused { operand }),
                (true, _) => shapes.required(input)?,
            };
            let mut counts = others.into_iter();
            let count = counts.find(|count| *sizes == [batch, steps, *count]);
            let expected = || format!("[{batch}, {steps}, {}] or [.., {}]", others[0], others[1]);
            let count = count.ok_or_else(|| shapes.wrong(input, expected()))?;
            Ok(count / of_all)
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
        inputs: Elements<'_>,
        [output, present]: [Option<&mut [P]>; 2],
        threads: &dyn Threads,
    ) -> Result<(), Error> {
        let Sizes { steps, states, .. } = *sizes;
        let count = sizes.batch * states;
        let (row, state) = (sizes.group * sizes.value, sizes.key * sizes.value);
        let slots = sizes.window.max(1);
        // Those of a state beside each other.
        let mut rows = places(output, row, count * steps, |index| {
            let (token, state) = (index / states, index % states);
            (token / steps * states + state) * steps + token % steps
        })?;
        let mut kept = places(present, state, count * slots, |index| {
            index % count * slots + index / count
        })?;
        let mut rows = rows.chunks_mut(steps.max(1));
        let mut kept = kept.chunks_mut(slots);
        let tasks = (0..count).map(|at| Task {
            at,
            rows: rows.next().unwrap_or_default(),
            slots: kept.next().unwrap_or_default(),
        });
        let tasks = collect(count, tasks)?;
        let work = count.saturating_mul(steps.max(1)).saturating_mul(state);
        share(tasks, work, threads, |task, memory| {
            self.of_state(sizes, inputs, task, memory)
        })
    }

    /// Runs all steps of a state.
    fn of_state<P: Place<f32>>(
        &self,
        sizes: &Sizes,
        inputs: Elements<'_>,
        task: Task<'_, P>,
        memory: &mut Memory,
    ) -> Result<(), Error> {
        let Sizes {
            steps, key, states, ..
        } = *sizes;
        let (sequence, state) = (task.at / states, task.at % states);
        // The elements of some heads, where a token has so many.
        let rows = |input: usize, heads: usize, head: usize, len: usize, size: usize| Rows {
            elements: inputs.required(input),
            first: (sequence * steps * heads + head) * size,
            stride: heads * size,
            len: len * size,
        };
        let query_head = state * self.query_heads / states;
        let key_head = state * sizes.key_heads / states;
        let size = key * sizes.value;
        let past = inputs.get(PAST_STATE).map(|past| {
            let before = sizes.window.saturating_sub(1) * sizes.batch * states;
            &past[(before + task.at) * size..][..size]
        });
        let mut of_steps = std::mem::take(&mut memory.factors);
        let decays = sizes.decays.max(1);
        match self.decays {
            false => {
                clear(&mut of_steps, &[1])?;
                of_steps.push(1.0);
            }
            true => {
                clear(&mut of_steps, &[steps, decays])?;
                let rows = rows(DECAY, states, state, 1, decays);
                (0..steps).for_each(|step| of_steps.extend_from_slice(rows.at(step)));
                Exp {}.map_mut(&mut of_steps);
            }
        }
        let betas = match sizes.betas {
            0 => rows(BETA, 1, 0, 1, 1),
            _ => rows(BETA, states, state, 1, 1),
        };
        let scale = self.scale.unwrap_or_else(|| 1.0 / (key as f32).sqrt());
        State {
            steps,
            key,
            value: sizes.value,
            scale,
            window: sizes.window.max(1),
            past,
            queries: rows(QUERY, self.query_heads, query_head, sizes.group, key),
            keys: rows(KEY, sizes.key_heads, key_head, 1, key),
            values: rows(VALUE, states, state, 1, sizes.value),
            factors: Rows {
                elements: &of_steps,
                first: 0,
                stride: if self.decays { decays } else { 0 },
                len: decays,
            },
            betas: self.corrects.then_some(betas),
            memory: memory.of(key)?,
            outputs: task.rows,
            slots: task.slots,
        }
        .dispatch();
        memory.factors = of_steps;
        Ok(())
    }
}

/// A state of a sequence, and what is written of it.
struct Task<'a, P> {
    at: usize,
    /// The outputs of each step, unless nothing reads them.
    rows: &'a mut [Option<&'a mut [P]>],
    /// The states that are present after the last steps, unless nothing reads them.
    slots: &'a mut [Option<&'a mut [P]>],
}

/// The parts of an output of so many elements, at places of their own; nothing if nothing reads the output.
fn places<P>(
    output: Option<&mut [P]>,
    size: usize,
    count: usize,
    place: impl Fn(usize) -> usize,
) -> Result<Vec<Option<&mut [P]>>, Error> {
    let Some(output) = output.filter(|it| !it.is_empty()) else {
        return Ok(vec![]);
    };
    let mut places = collect(count, (0..count).map(|_| None))?;
    for (index, part) in output.chunks_mut(size).enumerate() {
        places[place(index)] = Some(part);
    }
    Ok(places)
}
