//! The steps of a state of linear attention.
//!
//! Columns of a state know nothing of each other. So some of them go through all steps in the nearest cache, and a pass
//! reads and writes them once: while it adds what is new, it sums what queries ask, and what the state recalls
//! for the keys of the next pass.
//!
//! A pass has two steps where one number decays all of a state: it leaves the state as if nothing had decayed, and divides
//! what it adds instead. A pass of one step takes up what was left, the last one at the latest.

use std::ops::RangeInclusive;

use rten_simd::ops::{BitOps, NumOps};
use rten_simd::{Isa, SimdOp};

use crate::error::Error;
use crate::memory::{clear, clear_to_zeros};
use crate::place::{Place, copy, fill};

/// The most columns at once.
pub(super) const WIDTH: usize = 64;

/// What may be left to multiply a state with, so that neither the state nor what is added becomes too large.
const LAGS: RangeInclusive<f32> = 1e-6..=1e6;

/// The elements of an input for each step.
#[derive(Clone, Copy)]
pub(super) struct Rows<'a> {
    pub(super) elements: &'a [f32],
    pub(super) first: usize,
    pub(super) stride: usize,
    pub(super) len: usize,
}

impl<'a> Rows<'a> {
    /// Rows of so many elements, one after the other.
    pub(super) fn of(elements: &'a [f32], len: usize) -> Self {
        Self {
            elements,
            first: 0,
            stride: len,
            len,
        }
    }

    /// The same row for all steps.
    pub(super) fn same(elements: &'a [f32]) -> Self {
        let len = elements.len();
        Self {
            stride: 0,
            ..Self::of(elements, len)
        }
    }

    #[inline(always)]
    pub(super) fn at(self, step: usize) -> &'a [f32] {
        &self.elements[self.first + step * self.stride..][..self.len]
    }
}

/// The columns of a row that are at hand. Vectors that cross cache lines would take twice as long.
#[derive(Clone, Copy)]
#[repr(align(64))]
struct Row([f32; WIDTH]);

const ZEROS: Row = Row([0.0; WIDTH]);

/// Memory for the columns that are at hand.
pub(super) struct Memory {
    /// What the state is multiplied with before a step, for each element of a key.
    factor: Vec<f32>,
    block: Vec<Row>,
    /// What the state is multiplied with to recall what it has for the next key.
    next: Vec<f32>,
    /// What it recalls for the steps of a pass, so that no register holds it but in the loop over rows.
    recalled: [Row; 2],
    /// What the state has yet to be multiplied with.
    lag: f32,
}

impl Default for Memory {
    fn default() -> Self {
        Self {
            factor: vec![],
            block: vec![],
            next: vec![],
            recalled: [ZEROS; 2],
            lag: 1.0,
        }
    }
}

impl Memory {
    /// Makes room for keys of this size.
    pub(super) fn of(&mut self, key: usize) -> Result<&mut Self, Error> {
        if self.next.len() != key {
            clear(&mut self.block, &[key])?;
            self.block.resize(key, ZEROS);
            clear_to_zeros(&mut self.next, &[key])?;
            clear_to_zeros(&mut self.factor, &[key])?;
        }
        Ok(self)
    }
}

/// A state, with its inputs and outputs.
pub(super) struct State<'a, 'b, P> {
    pub(super) steps: usize,
    pub(super) key: usize,
    pub(super) value: usize,
    pub(super) scale: f32,
    /// The number of states that are present, at least 1.
    pub(super) window: usize,
    /// Whether the states before and after are `[value, key]`, not `[key, value]`.
    pub(super) value_first: bool,
    /// The state before the first step, zeros if there is none.
    pub(super) past: Option<&'a [f32]>,
    /// Those of all heads that ask the state.
    pub(super) queries: Rows<'a>,
    pub(super) keys: Rows<'a>,
    pub(super) values: Rows<'a>,
    /// What the state is multiplied with before each step, all of it or each element of a key.
    pub(super) factors: Rows<'a>,
    pub(super) betas: Option<Rows<'a>>,
    pub(super) memory: &'a mut Memory,
    /// Those of all heads for each step, or nothing.
    pub(super) outputs: &'a mut [Option<&'b mut [P]>],
    /// The states after the last steps, or nothing.
    pub(super) slots: &'a mut [Option<&'b mut [P]>],
    /// What is added for the keys of the first steps, or nothing.
    pub(super) captured: &'a mut [Option<&'b mut [P]>],
}

impl<P: Place<f32>> SimdOp for State<'_, '_, P> {
    type Output = ();

    #[inline(always)]
    fn eval<I: Isa>(mut self, isa: I) {
        let lanes = isa.f32().len();
        // Sums, operands and factors fit into the registers: 32 of AVX-512, 16 of others.
        let most = if lanes < 16 { 2 } else { 4 };
        let mut first = 0;
        while first < self.value {
            let left = self.value - first;
            let vectors = most.min(left.div_ceil(lanes).next_power_of_two());
            let width = vectors * lanes;
            let len = width.min(left);
            let columns = Columns { first, len, width };
            match vectors {
                1 => self.by_rule::<1>(columns),
                2 => self.by_rule::<2>(columns),
                _ => self.by_rule::<4>(columns),
            }
            first += len;
        }
        // The last state is one without steps, too.
        let unreached = self.window - self.steps.max(1).min(self.window);
        for slot in self.slots.iter_mut().take(unreached).flatten() {
            fill(slot, 0.0);
        }
    }
}

/// All steps for some columns. Each of its forms is a function of its own, which compiles faster than one for all.
struct OfColumns<'s, 'a, 'b, P, const V: usize, const HEADS: usize, const R: usize> {
    state: &'s mut State<'a, 'b, P>,
    columns: Columns,
}

impl<P: Place<f32>, const V: usize, const HEADS: usize, const R: usize> SimdOp
    for OfColumns<'_, '_, '_, P, V, HEADS, R>
{
    type Output = ();

    #[inline(always)]
    fn eval<I: Isa>(self, isa: I) {
        self.state.steps::<I, V, HEADS, R>(isa, self.columns);
    }
}

impl<P: Place<f32>> State<'_, '_, P> {
    fn by_rule<const V: usize>(&mut self, columns: Columns) {
        match (self.heads(), self.betas.is_some(), self.has_pairs()) {
            (0..=1, false, _) => self.of_columns::<V, 1, 0>(columns),
            (0..=1, true, false) => self.of_columns::<V, 1, 1>(columns),
            (0..=1, true, true) => self.of_columns::<V, 1, 2>(columns),
            (_, false, _) => self.of_columns::<V, 2, 0>(columns),
            (_, true, false) => self.of_columns::<V, 2, 1>(columns),
            (_, true, true) => self.of_columns::<V, 2, 2>(columns),
        }
    }

    fn of_columns<const V: usize, const HEADS: usize, const R: usize>(&mut self, columns: Columns) {
        let state = self;
        OfColumns::<'_, '_, '_, P, V, HEADS, R> { state, columns }.dispatch();
    }

    /// The heads that ask the state in each step.
    fn heads(&self) -> usize {
        self.queries.len.checked_div(self.key).unwrap_or(1)
    }

    /// Whether a pass may have two steps, of which the state after neither is present.
    fn has_pairs(&self) -> bool {
        self.factors.len == 1 && self.heads() <= 2 && self.steps > self.window + 1
    }

    /// Runs all steps for some columns, one or two in a pass, of which each asks for one head or two. A pass
    /// recalls for the keys of `R` steps.
    #[inline(always)]
    fn steps<I: Isa, const V: usize, const HEADS: usize, const R: usize>(
        &mut self,
        isa: I,
        columns: Columns,
    ) {
        self.memory.lag = 1.0;
        let mut pair = self.lags::<R>(0);
        let ahead = self.ahead::<R>(0, pair.is_some());
        self.read::<I, V, R>(isa, columns, ahead);
        let mut step = 0;
        while step < self.steps {
            if let Some(lags) = pair {
                let values = self.values::<I, V, R, 2>(isa, columns, step, lags);
                self.memory.lag = lags[1];
                pair = self.lags::<R>(step + 2);
                let ahead = self.ahead::<R>(step + 2, pair.is_some());
                let asked =
                    self.pass::<I, V, 2, HEADS, R, false>(isa, columns, step, values, ahead);
                self.answer(isa, columns, step, asked, lags);
                step += 2;
                continue;
            }
            let values = self.values::<I, V, R, 1>(isa, columns, step, [1.0]);
            self.decay(step);
            self.memory.lag = 1.0;
            pair = self.lags::<R>(step + 1);
            let ahead = self.ahead::<R>(step + 1, pair.is_some());
            // A last state that nothing reads again goes where it stays.
            let is_whole = columns.len == columns.width && !self.value_first;
            let stays = step + 1 == self.steps && self.heads() <= HEADS && is_whole;
            let asked = match stays {
                true => self.pass::<I, V, 1, HEADS, 0, true>(isa, columns, step, values, None),
                false => self.pass::<I, V, 1, HEADS, R, false>(isa, columns, step, values, ahead),
            };
            self.answer(isa, columns, step, asked, [1.0]);
            for head in HEADS..self.heads() {
                let asked = self.ask::<I, V>(isa, step, head);
                self.answer_of(isa, columns, [step, head], asked, 1.0);
            }
            if let Some(slot) = (step + self.window).checked_sub(self.steps)
                && !stays
            {
                self.write(columns, slot);
            }
            step += 1;
        }
        if self.steps == 0 {
            self.write(columns, self.window - 1);
        }
    }

    /// What the state has yet to be multiplied with after each of two steps that a pass may have.
    #[inline(always)]
    fn lags<const R: usize>(&self, step: usize) -> Option<[f32; 2]> {
        // Where steps recall, R says whether two do at once.
        let has_pairs = R == 2 || R == 0 && self.has_pairs();
        if !has_pairs || step + 1 + self.window >= self.steps {
            return None;
        }
        let first = self.memory.lag * self.factors.at(step)[0];
        let lags = [first, first * self.factors.at(step + 1)[0]];
        lags.iter().all(|lag| LAGS.contains(lag)).then_some(lags)
    }

    /// The step whose key and that after it are recalled for as they are, if a pass has both; otherwise one is
    /// recalled for, which this sets.
    #[inline(always)]
    fn ahead<const R: usize>(&mut self, step: usize, is_pair: bool) -> Option<usize> {
        if R > 0 && !is_pair && step < self.steps {
            self.recall(step);
        }
        is_pair.then_some(step)
    }

    /// What the steps of a pass add for their keys, divided by their lags.
    #[inline(always)]
    fn values<I: Isa, const V: usize, const R: usize, const N: usize>(
        &mut self,
        isa: I,
        columns: Columns,
        step: usize,
        lags: [f32; N],
    ) -> [[I::F32; V]; N] {
        let ops = isa.f32();
        let mut values = [[ops.zero(); V]; N];
        for index in 0..N {
            let given = &self.values.at(step + index)[columns.first..][..columns.len];
            let mut value = load::<I, V>(isa, given);
            let lag = ops.splat(lags[index]);
            if let (true, Some(betas)) = (R > 0, self.betas) {
                let beta = ops.splat(betas.at(step + index)[0]);
                let mut recalled = ops.load_many::<V>(&self.memory.recalled[index].0);
                // The state before the pass lacks what its first step adds.
                if index > 0 {
                    let alike = dot(isa, self.keys.at(step), self.keys.at(step + index));
                    let alike = ops.splat(alike);
                    for vector in 0..V {
                        recalled[vector] = ops.mul_add(alike, values[0][vector], recalled[vector]);
                    }
                }
                for vector in 0..V {
                    let recalled = ops.mul(lag, recalled[vector]);
                    value[vector] = ops.mul(beta, ops.sub(value[vector], recalled));
                }
            }
            if let Some(Some(captured)) = self.captured.get_mut(step + index) {
                write(isa, value, &mut captured[columns.first..][..columns.len]);
            }
            let divisor = ops.splat(1.0 / lags[index]);
            values[index] = value.map(|value| ops.mul(divisor, value));
        }
        values
    }

    /// Sets what the state is multiplied with to recall what it has for the key of a step, once it has decayed.
    #[inline(always)]
    fn recall(&mut self, step: usize) {
        let keys = std::iter::zip(&mut self.memory.next, self.keys.at(step));
        match self.factors.at(step) {
            [factor] => {
                let factor = factor * self.memory.lag;
                keys.for_each(|(next, key)| *next = key * factor);
            }
            factors => {
                let factors = std::iter::zip(keys, factors);
                factors.for_each(|((next, key), factor)| *next = key * factor);
            }
        }
    }

    /// Sets what the state is multiplied with before a step.
    #[inline(always)]
    fn decay(&mut self, step: usize) {
        let lag = self.memory.lag;
        match self.factors.at(step) {
            [factor] => self.memory.factor.fill(factor * lag),
            factors => self.memory.factor.copy_from_slice(factors),
        }
    }

    /// Adds the outer products of a pass's steps, keeps what the keys after it recall, and returns what some heads of
    /// each step ask. Those keys are of a pair from the step ahead on, or one. The last state goes to its slot alone.
    #[inline(always)]
    fn pass<
        I: Isa,
        const V: usize,
        const N: usize,
        const HEADS: usize,
        const R: usize,
        const LAST: bool,
    >(
        &mut self,
        isa: I,
        columns: Columns,
        step: usize,
        values: [[I::F32; V]; N],
        ahead: Option<usize>,
    ) -> [[[I::F32; V]; HEADS]; N] {
        let ops = isa.f32();
        let size = self.key;
        let keys: [&[f32]; N] = std::array::from_fn(|index| &self.keys.at(step + index)[..size]);
        let queries: [[&[f32]; HEADS]; N] = std::array::from_fn(|index| {
            let query = self.queries.at(step + index);
            std::array::from_fn(|head| &query[head * size..][..size])
        });
        let (keys_ahead, memory_next) = (self.keys, &self.memory.next);
        let next: [&[f32]; R] = std::array::from_fn(|index| match ahead {
            Some(step) => &keys_ahead.at(step + index)[..self.key],
            None => &memory_next[..self.key],
        });
        let factors = &self.memory.factor[..size];
        let mut slot = self.slots.last_mut().and_then(Option::as_deref_mut);
        let mut asked = [[[ops.zero(); V]; HEADS]; N];
        let mut recalled = [[ops.zero(); V]; R];
        for (index, Row(row)) in self.memory.block.iter_mut().enumerate() {
            let mut state = ops.load_many::<V>(row);
            if N == 1 {
                let factor = ops.splat(factors[index]);
                state = state.map(|state| ops.mul(state, factor));
            }
            for part in 0..N {
                let at = ops.splat(keys[part][index]);
                for vector in 0..V {
                    state[vector] = ops.mul_add(at, values[part][vector], state[vector]);
                }
                for head in 0..HEADS {
                    let asks = ops.splat(queries[part][head][index]);
                    let asked = &mut asked[part][head];
                    for vector in 0..V {
                        asked[vector] = ops.mul_add(asks, state[vector], asked[vector]);
                    }
                }
            }
            for part in 0..R {
                let recalls = ops.splat(next[part][index]);
                for vector in 0..V {
                    recalled[part][vector] =
                        ops.mul_add(recalls, state[vector], recalled[part][vector]);
                }
            }
            if !LAST {
                store(isa, state, row);
            } else if let Some(slot) = &mut slot {
                let to = &mut slot[index * self.value + columns.first..][..columns.width];
                store(isa, state, to);
            }
        }
        for (recalled, Row(to)) in std::iter::zip(recalled, &mut self.memory.recalled) {
            store(isa, recalled, to);
        }
        asked
    }

    /// Returns what a query, of a step and a head, asks of the state.
    #[inline(always)]
    fn ask<I: Isa, const V: usize>(&self, isa: I, step: usize, head: usize) -> [I::F32; V] {
        let ops = isa.f32();
        let query = &self.queries.at(step)[head * self.key..][..self.key];
        let mut asked = [ops.zero(); V];
        for (Row(row), query) in std::iter::zip(&self.memory.block, query) {
            let state = ops.load_many::<V>(row);
            let query = ops.splat(*query);
            for vector in 0..V {
                asked[vector] = ops.mul_add(query, state[vector], asked[vector]);
            }
        }
        asked
    }

    /// Writes the outputs of a pass's steps, for some heads.
    #[inline(always)]
    fn answer<I: Isa, const V: usize, const HEADS: usize, const N: usize>(
        &mut self,
        isa: I,
        columns: Columns,
        step: usize,
        asked: [[[I::F32; V]; HEADS]; N],
        lags: [f32; N],
    ) {
        for (index, (asked, lag)) in std::iter::zip(asked, lags).enumerate() {
            for (head, asked) in asked.into_iter().enumerate() {
                self.answer_of(isa, columns, [step + index, head], asked, lag);
            }
        }
    }

    /// Writes the output of a step and a head.
    #[inline(always)]
    fn answer_of<I: Isa, const V: usize>(
        &mut self,
        isa: I,
        columns: Columns,
        [step, head]: [usize; 2],
        asked: [I::F32; V],
        lag: f32,
    ) {
        let Some(Some(output)) = self.outputs.get_mut(step) else {
            return;
        };
        let ops = isa.f32();
        let scale = ops.splat(self.scale * lag);
        let to = &mut output[head * self.value + columns.first..][..columns.len];
        write(isa, asked.map(|it| ops.mul(it, scale)), to);
    }

    /// Reads some columns of the past state, zeros if there is none, and keeps what the first keys recall.
    #[inline(always)]
    fn read<I: Isa, const V: usize, const R: usize>(
        &mut self,
        isa: I,
        columns: Columns,
        ahead: Option<usize>,
    ) {
        let ops = isa.f32();
        if let (true, Some(past)) = (self.value_first, self.past) {
            for column in 0..columns.len {
                let past = &past[(columns.first + column) * self.key..][..self.key];
                for (Row(row), past) in std::iter::zip(&mut self.memory.block, past) {
                    row[column] = *past;
                }
            }
        }
        let (keys_ahead, memory_next) = (self.keys, &self.memory.next);
        let next: [&[f32]; R] = std::array::from_fn(|index| match ahead {
            Some(step) => &keys_ahead.at(step + index)[..self.key],
            None => &memory_next[..self.key],
        });
        let mut recalled = [[ops.zero(); V]; R];
        for (index, Row(row)) in self.memory.block.iter_mut().enumerate() {
            let past = match self.past {
                Some(_) if self.value_first => &row[..columns.len],
                Some(past) => &past[index * self.value + columns.first..][..columns.len],
                None => &[],
            };
            let state = load::<I, V>(isa, past);
            store(isa, state, row);
            for part in 0..R {
                let recalls = ops.splat(next[part][index]);
                for vector in 0..V {
                    recalled[part][vector] =
                        ops.mul_add(recalls, state[vector], recalled[part][vector]);
                }
            }
        }
        for (recalled, Row(to)) in std::iter::zip(recalled, &mut self.memory.recalled) {
            store(isa, recalled, to);
        }
    }

    /// Writes some columns of a present state.
    #[inline(always)]
    fn write(&mut self, columns: Columns, slot: usize) {
        let Some(Some(slot)) = self.slots.get_mut(slot) else {
            return;
        };
        if self.value_first {
            for column in 0..columns.len {
                let to = &mut slot[(columns.first + column) * self.key..][..self.key];
                for (to, Row(row)) in std::iter::zip(to, &self.memory.block) {
                    to.set(row[column]);
                }
            }
            return;
        }
        for (index, Row(row)) in self.memory.block.iter().enumerate() {
            let to = &mut slot[index * self.value + columns.first..][..columns.len];
            copy(to, &row[..columns.len]);
        }
    }
}

/// Some columns of a state.
#[derive(Clone, Copy)]
struct Columns {
    first: usize,
    len: usize,
    /// Those that vectors have.
    width: usize,
}

/// The sum of the products of two slices' elements.
#[inline(always)]
fn dot<I: Isa>(isa: I, one: &[f32], other: &[f32]) -> f32 {
    let ops = isa.f32();
    let lanes = ops.len();
    let mut sums = ops.zero();
    for (one, other) in std::iter::zip(one.chunks(lanes), other.chunks(lanes)) {
        let ([one], [other]) = (load::<I, 1>(isa, one), load::<I, 1>(isa, other));
        sums = ops.mul_add(one, other, sums);
    }
    ops.sum(sums)
}

/// Loads a row, with zeros behind it.
#[inline(always)]
fn load<I: Isa, const V: usize>(isa: I, from: &[f32]) -> [I::F32; V] {
    let ops = isa.f32();
    if from.len() == V * ops.len() {
        return ops.load_many::<V>(from);
    }
    let mut row = [0.0_f32; WIDTH];
    row[..from.len()].copy_from_slice(from);
    ops.load_many::<V>(&row)
}

/// Stores a row.
#[inline(always)]
fn store<I: Isa, const V: usize, P: Place<f32>>(isa: I, row: [I::F32; V], to: &mut [P]) {
    let ops = isa.f32();
    for (vector, to) in std::iter::zip(row, to.chunks_exact_mut(ops.len())) {
        P::store(ops, vector, to);
    }
}

/// Writes the beginning of a row to places.
#[inline(always)]
fn write<I: Isa, const V: usize, P: Place<f32>>(isa: I, row: [I::F32; V], to: &mut [P]) {
    if to.len() == V * isa.f32().len() {
        return store(isa, row, to);
    }
    let mut elements = [0.0_f32; WIDTH];
    store(isa, row, &mut elements);
    copy(to, &elements[..to.len()]);
}
