//! The steps of a state of linear attention.
//!
//! Columns of a state know nothing of each other. So some of them go through all steps in the nearest cache, and a step
//! reads and writes them once: while it adds what is new, it sums what the query asks, and what the state recalls
//! for the key of the next step.

use rten_simd::ops::{BitOps, NumOps};
use rten_simd::{Isa, SimdOp};

use crate::error::Error;
use crate::memory::{clear, clear_to_zeros};
use crate::place::{Place, copy, fill};

/// The most columns at once.
pub(super) const WIDTH: usize = 64;

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
    /// What it recalls, so that no register holds it but in the loop over rows.
    recalled: Row,
}

impl Default for Memory {
    fn default() -> Self {
        Self {
            factor: vec![],
            block: vec![],
            next: vec![],
            recalled: ZEROS,
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
                1 => self.by_rule::<I, 1>(isa, columns),
                2 => self.by_rule::<I, 2>(isa, columns),
                _ => self.by_rule::<I, 4>(isa, columns),
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

impl<P: Place<f32>> State<'_, '_, P> {
    #[inline(always)]
    fn by_rule<I: Isa, const V: usize>(&mut self, isa: I, columns: Columns) {
        match self.betas.is_some() {
            false => self.steps::<I, V, false>(isa, columns),
            true => self.steps::<I, V, true>(isa, columns),
        }
    }

    /// Runs all steps for some columns.
    #[inline(always)]
    fn steps<I: Isa, const V: usize, const CORRECTS: bool>(&mut self, isa: I, columns: Columns) {
        let ops = isa.f32();
        if CORRECTS && self.steps > 0 {
            self.recall(0);
        }
        self.read::<I, V, CORRECTS>(isa, columns);
        let groups = self.queries.len.checked_div(self.key).unwrap_or(1);
        for step in 0..self.steps {
            let values = &self.values.at(step)[columns.first..][..columns.len];
            let mut value = load::<I, V>(isa, values);
            let is_last = step + 1 == self.steps;
            if let (true, Some(betas)) = (CORRECTS, self.betas) {
                let beta = ops.splat(betas.at(step)[0]);
                let recalled = ops.load_many::<V>(&self.memory.recalled.0);
                for vector in 0..V {
                    value[vector] = ops.mul(beta, ops.sub(value[vector], recalled[vector]));
                }
                if !is_last {
                    self.recall(step + 1);
                }
            }
            if let Some(Some(captured)) = self.captured.get_mut(step) {
                write(isa, value, &mut captured[columns.first..][..columns.len]);
            }
            // A last state that nothing reads again goes where it stays.
            let is_whole = columns.len == columns.width && !self.value_first;
            let stays = is_last && groups == 1 && is_whole;
            let asked = match stays {
                true => self.add::<I, V, false, true>(isa, columns, step, value),
                false => self.add::<I, V, CORRECTS, false>(isa, columns, step, value),
            };
            self.answer::<I, V>(isa, columns, step, 0, asked);
            for head in 1..groups {
                let asked = self.ask::<I, V>(isa, step, head);
                self.answer::<I, V>(isa, columns, step, head, asked);
            }
            if let Some(slot) = (step + self.window).checked_sub(self.steps)
                && !stays
            {
                self.write(columns, slot);
            }
        }
        if self.steps == 0 {
            self.write(columns, self.window - 1);
        }
    }

    /// Sets what the state is multiplied with to recall what it has for the key of a step, once it has decayed.
    #[inline(always)]
    fn recall(&mut self, step: usize) {
        self.decay(step);
        let operands = std::iter::zip(self.keys.at(step), &self.memory.factor);
        for (next, (key, factor)) in std::iter::zip(&mut self.memory.next, operands) {
            *next = key * factor;
        }
    }

    /// Sets what the state is multiplied with before a step.
    #[inline(always)]
    fn decay(&mut self, step: usize) {
        match self.factors.at(step) {
            _ if self.factors.stride == 0 && step > 0 => {}
            [factor] => self.memory.factor.fill(*factor),
            factors => self.memory.factor.copy_from_slice(factors),
        }
    }

    /// Adds a step's outer product, keeps what the next key recalls, and returns what the first query asks. The last
    /// state goes to its slot alone.
    #[inline(always)]
    fn add<I: Isa, const V: usize, const RECALLS: bool, const LAST: bool>(
        &mut self,
        isa: I,
        columns: Columns,
        step: usize,
        value: [I::F32; V],
    ) -> [I::F32; V] {
        let ops = isa.f32();
        let key = &self.keys.at(step)[..self.key];
        let query = &self.queries.at(step)[..self.key];
        self.decay(step);
        let factors = &self.memory.factor[..self.key];
        let next = &self.memory.next[..self.key];
        let mut slot = self.slots.last_mut().and_then(Option::as_deref_mut);
        let mut asked = [ops.zero(); V];
        let mut recalled = [ops.zero(); V];
        for (index, Row(row)) in self.memory.block.iter_mut().enumerate() {
            let mut state = ops.load_many::<V>(row);
            let (factor, at) = (ops.splat(factors[index]), ops.splat(key[index]));
            let (asks, recalls) = (ops.splat(query[index]), ops.splat(next[index]));
            for vector in 0..V {
                state[vector] = ops.mul(state[vector], factor);
                state[vector] = ops.mul_add(at, value[vector], state[vector]);
                asked[vector] = ops.mul_add(asks, state[vector], asked[vector]);
                if RECALLS {
                    recalled[vector] = ops.mul_add(recalls, state[vector], recalled[vector]);
                }
            }
            if !LAST {
                store(isa, state, row);
            } else if let Some(slot) = &mut slot {
                let to = &mut slot[index * self.value + columns.first..][..columns.width];
                store(isa, state, to);
            }
        }
        if RECALLS {
            store(isa, recalled, &mut self.memory.recalled.0);
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

    /// Writes the output of a step and a head.
    #[inline(always)]
    fn answer<I: Isa, const V: usize>(
        &mut self,
        isa: I,
        columns: Columns,
        step: usize,
        head: usize,
        asked: [I::F32; V],
    ) {
        let Some(Some(output)) = self.outputs.get_mut(step) else {
            return;
        };
        let ops = isa.f32();
        let scale = ops.splat(self.scale);
        let to = &mut output[head * self.value + columns.first..][..columns.len];
        write(isa, asked.map(|it| ops.mul(it, scale)), to);
    }

    /// Reads some columns of the past state, zeros if there is none, and keeps what the first key recalls.
    #[inline(always)]
    fn read<I: Isa, const V: usize, const RECALLS: bool>(&mut self, isa: I, columns: Columns) {
        let ops = isa.f32();
        if let (true, Some(past)) = (self.value_first, self.past) {
            for column in 0..columns.len {
                let past = &past[(columns.first + column) * self.key..][..self.key];
                for (Row(row), past) in std::iter::zip(&mut self.memory.block, past) {
                    row[column] = *past;
                }
            }
        }
        let mut recalled = [ops.zero(); V];
        let rows = std::iter::zip(&mut self.memory.block, &self.memory.next);
        for (index, (Row(row), next)) in rows.enumerate() {
            let past = match self.past {
                Some(_) if self.value_first => &row[..columns.len],
                Some(past) => &past[index * self.value + columns.first..][..columns.len],
                None => &[],
            };
            let state = load::<I, V>(isa, past);
            store(isa, state, row);
            if RECALLS {
                let recalls = ops.splat(*next);
                for vector in 0..V {
                    recalled[vector] = ops.mul_add(recalls, state[vector], recalled[vector]);
                }
            }
        }
        if RECALLS {
            store(isa, recalled, &mut self.memory.recalled.0);
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
