//! All states of a run: what each reads and writes, and how threads share them.

use std::iter::zip;

use rten_simd::{SimdOp, SimdUnaryOp};
use rten_vecmath::Exp;

use super::packing::Packing;
use super::share;
use super::state::{Memory, Rows, State};
use crate::error::Error;
use crate::memory::{clear, collect};
use crate::place::{Place, copy, fill};
use crate::threads::Threads;

/// The elements of an input, where a token has some for each of some heads.
#[derive(Clone, Copy)]
pub(super) struct Heads<'a> {
    pub(super) elements: &'a [f32],
    /// The first of the first head.
    pub(super) first: usize,
    /// How many elements a token has, of other heads as well.
    pub(super) token: usize,
    pub(super) heads: usize,
    /// How many a head has.
    pub(super) size: usize,
}

impl<'a> Heads<'a> {
    /// Those of an input that has nothing else.
    pub(super) fn of(elements: &'a [f32], heads: usize, size: usize) -> Self {
        Self {
            elements,
            first: 0,
            token: heads * size,
            heads,
            size,
        }
    }

    /// Those of some heads from one on, for each token from one on.
    fn rows(self, token: usize, head: usize, len: usize) -> Rows<'a> {
        Rows {
            elements: self.elements,
            first: self.first + token * self.token + head * self.size,
            stride: self.token,
            len: len * self.size,
        }
    }

    /// Those of the head that a state shares with others, or has several of.
    fn of_state(self, token: usize, state: usize, states: usize) -> Rows<'a> {
        let len = self.heads.div_ceil(states);
        self.rows(token, state * self.heads / states, len)
    }
}

/// What decays and betas go through before they are used.
pub(super) trait Gates: Sync {
    /// Makes decays of a state the logarithms of factors: as many for each token.
    fn decays(&self, _state: usize, _decays: &mut [f32], _of_token: usize) {}

    /// Makes betas rates.
    fn betas(&self, _betas: &mut [f32]) {}
}

/// No gates.
pub(super) struct AsGiven;

impl Gates for AsGiven {}

/// The operands of all states.
pub(super) struct States<'a, G> {
    pub(super) packing: Packing<'a>,
    /// How many a sequence has.
    pub(super) states: usize,
    pub(super) key: usize,
    pub(super) value: usize,
    pub(super) scale: f32,
    /// How many states are present for each, at least 1.
    pub(super) window: usize,
    /// Whether the elements of a key are beside each other in past and present states.
    pub(super) value_first: bool,
    /// Whether queries and keys are made unit vectors.
    pub(super) normalizes: bool,
    pub(super) past: Option<&'a [f32]>,
    pub(super) queries: Heads<'a>,
    pub(super) keys: Heads<'a>,
    pub(super) values: Heads<'a>,
    pub(super) decays: Option<Heads<'a>>,
    pub(super) betas: Option<Heads<'a>>,
    pub(super) gates: G,
    pub(super) captured: Captured<'a>,
}

/// How many of the first steps of each sequence are captured.
#[derive(Clone, Copy, Default)]
pub(super) struct Captured<'a> {
    /// The most.
    pub(super) capacity: usize,
    /// Those of each sequence, or none of any.
    pub(super) counts: Option<&'a [i32]>,
}

impl Captured<'_> {
    pub(super) fn of(self, sequence: usize, steps: usize) -> usize {
        let count = self.counts.map_or(0, |counts| counts[sequence].max(0));
        (count as usize).min(self.capacity).min(steps)
    }
}

/// A state of a sequence, and what is written of it.
struct Task<'a, P> {
    sequence: usize,
    state: usize,
    /// The outputs of each step, unless nothing reads them.
    rows: &'a mut [Option<&'a mut [P]>],
    /// The states that are present after the last steps, unless nothing reads them.
    slots: &'a mut [Option<&'a mut [P]>],
    /// The factors, keys and values of the first steps, unless nothing reads them.
    captured: [&'a mut [Option<&'a mut [P]>]; 3],
}

impl<G: Gates> States<'_, G> {
    /// Writes the outputs, the states after the last steps, and what is captured.
    pub(super) fn run<P: Place<f32>>(
        &self,
        output: Option<&mut [P]>,
        present: Option<&mut [P]>,
        captured: Option<&mut [P]>,
        threads: &dyn Threads,
    ) -> Result<(), Error> {
        let Self {
            packing, states, ..
        } = *self;
        let (sequences, tokens) = (packing.sequences(), packing.count());
        let count = sequences * states;
        let state = self.key * self.value;
        let group = self.queries.heads.div_ceil(states);
        // Those of a state beside each other.
        let mut rows = places(tokens * states)?;
        if let Some(output) = output.filter(|it| !it.is_empty()) {
            let mut parts = output.chunks_mut(group * self.value);
            for sequence in 0..sequences {
                let tokens = packing.tokens(sequence);
                for token in tokens.clone() {
                    for (state, part) in (0..states).zip(&mut parts) {
                        let before = tokens.start * states + state * tokens.len();
                        rows[before + token - tokens.start] = Some(part);
                    }
                }
            }
        }
        let slots = self.window;
        let mut kept = places(count * slots)?;
        if let Some(present) = present.filter(|it| !it.is_empty()) {
            for (index, part) in present.chunks_mut(state).enumerate() {
                kept[index % count * slots + index / count] = Some(part);
            }
        }
        let capacity = self.captured.capacity;
        let mut parts = self.parts(captured, count)?;
        let [factors, keys, values] = parts.each_mut().map(|it| &mut it[..]);
        let mut rows = &mut rows[..];
        let mut kept = kept.chunks_mut(slots);
        let mut captured = [factors, keys, values].map(|it| it.chunks_mut(capacity.max(1)));
        let tasks = (0..count).map(|at| {
            let (sequence, state) = (at / states, at % states);
            let steps = packing.tokens(sequence).len();
            Task {
                sequence,
                state,
                rows: rows.split_off_mut(..steps).unwrap_or_default(),
                slots: kept.next().unwrap_or_default(),
                captured: captured.each_mut().map(|it| it.next().unwrap_or_default()),
            }
        });
        let tasks = collect(count, tasks)?;
        let work = tokens.max(sequences).saturating_mul(states * state);
        share(tasks, work, threads, |task, memory| {
            self.of_state(task, memory)
        })
    }

    /// The places of what is captured: factors, keys and values, those of a state beside each other. The state
    /// that is first of a key's has that.
    fn parts<'b, P>(
        &self,
        captured: Option<&'b mut [P]>,
        count: usize,
    ) -> Result<[Vec<Option<&'b mut [P]>>; 3], Error> {
        let (states, capacity) = (self.states, self.captured.capacity);
        let mut parts = [vec![], vec![], vec![]];
        let Some(captured) = captured.filter(|it| !it.is_empty()) else {
            return Ok(parts);
        };
        let sizes = [
            (states, self.decays.map_or(1, |it| it.size)),
            (self.keys.heads, self.key),
            (states, self.value),
        ];
        for part in &mut parts {
            *part = places(count * capacity)?;
        }
        let of_step: usize = sizes.iter().map(|(heads, size)| heads * size).sum();
        for (sequence, mut row) in captured.chunks_mut(capacity * of_step).enumerate() {
            for (part, (heads, size)) in zip(&mut parts, sizes) {
                let len = capacity * heads * size;
                let of_part = row.split_off_mut(..len).unwrap_or_default();
                for (index, place) in of_part.chunks_mut(size.max(1)).enumerate() {
                    let (step, state) = (index / heads, index % heads * states / heads);
                    part[(sequence * states + state) * capacity + step] = Some(place);
                }
            }
        }
        Ok(parts)
    }

    /// Runs all steps of a state.
    fn of_state<P: Place<f32>>(
        &self,
        task: Task<'_, P>,
        memory: &mut OfThread,
    ) -> Result<(), Error> {
        let Self { key, states, .. } = *self;
        let tokens = self.packing.tokens(task.sequence);
        let (first, steps) = (tokens.start, tokens.len());
        let size = key * self.value;
        let past = self.past.map(|past| {
            let before = (self.window - 1) * self.packing.sequences();
            let at = (before + task.sequence) * states + task.state;
            &past[at * size..][..size]
        });
        let OfThread {
            factors,
            betas,
            queries,
            keys,
            of_state,
        } = memory;
        let factors = match self.decays {
            None => {
                clear(factors, &[1])?;
                factors.push(1.0);
                Rows::same(factors)
            }
            Some(decays) => {
                let made = copied(decays.rows(first, task.state, 1), steps, factors)?;
                self.gates.decays(task.state, made, decays.size);
                Exp {}.map_mut(made);
                Rows::of(made, decays.size)
            }
        };
        let betas = match self.betas {
            Some(given) => {
                let made = copied(given.of_state(first, task.state, states), steps, betas)?;
                self.gates.betas(made);
                Some(Rows::of(made, 1))
            }
            None => None,
        };
        let mut of_keys = self.keys.of_state(first, task.state, states);
        let mut of_queries = self.queries.of_state(first, task.state, states);
        if self.normalizes {
            of_keys = Rows::of(normal(of_keys, steps, key, keys)?, of_keys.len);
            of_queries = Rows::of(normal(of_queries, steps, key, queries)?, of_queries.len);
        }
        let [of_factors, captured_keys, values] = task.captured;
        let count = self.captured.of(task.sequence, steps);
        for (parts, rows) in [(of_factors, factors), (captured_keys, of_keys)] {
            for (step, part) in parts.iter_mut().enumerate() {
                match part {
                    Some(part) if step < count => copy(part, rows.at(step)),
                    Some(part) => fill(part, 0.0),
                    None => {}
                }
            }
        }
        let (captured, unused) = values.split_at_mut(count.min(values.len()));
        unused.iter_mut().flatten().for_each(|it| fill(it, 0.0));
        State {
            steps,
            key,
            value: self.value,
            scale: self.scale,
            window: self.window,
            value_first: self.value_first,
            past,
            queries: of_queries,
            keys: of_keys,
            values: self.values.rows(first, task.state, 1),
            factors,
            betas,
            memory: of_state.of(key)?,
            outputs: task.rows,
            slots: task.slots,
            captured,
        }
        .dispatch();
        Ok(())
    }
}

/// Memory of a thread's own.
#[derive(Default)]
struct OfThread {
    factors: Vec<f32>,
    betas: Vec<f32>,
    queries: Vec<f32>,
    keys: Vec<f32>,
    of_state: Memory,
}

/// No places yet.
fn places<'a, P>(count: usize) -> Result<Vec<Option<&'a mut [P]>>, Error> {
    collect(count, (0..count).map(|_| None))
}

/// A copy of the rows of some steps.
fn copied<'a>(rows: Rows<'_>, steps: usize, to: &'a mut Vec<f32>) -> Result<&'a mut [f32], Error> {
    clear(to, &[steps, rows.len])?;
    (0..steps).for_each(|step| to.extend_from_slice(rows.at(step)));
    Ok(to)
}

/// What ONNX Runtime adds to the square of a length.
const LEAST_SQUARE: f32 = 1e-12;

/// Vectors of so many elements, made unit vectors.
fn normal<'a>(
    rows: Rows<'_>,
    steps: usize,
    size: usize,
    to: &'a mut Vec<f32>,
) -> Result<&'a [f32], Error> {
    let made = copied(rows, steps, to)?;
    for vector in made.chunks_mut(size.max(1)) {
        let square: f32 = vector.iter().map(|it| it * it).sum();
        let factor = 1.0 / (square + LEAST_SQUARE).sqrt();
        vector.iter_mut().for_each(|it| *it *= factor);
    }
    Ok(made)
}
