//! The steps of a state of linear attention.
//!
//! Columns of a state know nothing of each other. So some of them go through all steps in the nearest cache, and a step
//! reads and writes them once: while it adds what is new, it sums what the query asks, and what the state recalls
//! for the key of the next step.

use rten_simd::ops::{BitOps, NumOps};
use rten_simd::{Isa, SimdOp};

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
    #[inline(always)]
    pub(super) fn at(self, step: usize) -> &'a [f32] {
        &self.elements[self.first + step * self.stride..][..self.len]
    }
}

/// A state, `[key, value]`, with its inputs and outputs.
pub(super) struct State<'a, 'b, P> {
    pub(super) steps: usize,
    pub(super) key: usize,
    pub(super) value: usize,
    pub(super) scale: f32,
    /// The number of states that are present, at least 1.
    pub(super) window: usize,
    /// The state before the first step, zeros if there is none.
    pub(super) past: Option<&'a [f32]>,
    /// Those of all heads that ask the state.
    pub(super) queries: Rows<'a>,
    pub(super) keys: Rows<'a>,
    pub(super) values: Rows<'a>,
    /// `[steps, key]`.
    pub(super) factors: Option<&'a [f32]>,
    pub(super) betas: Option<Rows<'a>>,
    /// Memory for some columns, and for a key.
    pub(super) block: Vec<f32>,
    pub(super) next: Vec<f32>,
    /// Those of all heads for each step, or nothing.
    pub(super) outputs: Vec<&'b mut [P]>,
    /// The states after the last steps, or nothing.
    pub(super) slots: Vec<&'b mut [P]>,
}

impl<P: Place<f32>> SimdOp for State<'_, '_, P> {
    type Output = ();

    #[inline(always)]
    fn eval<I: Isa>(self, isa: I) {
        // Sums, operands and factors fit into the registers: 32 of AVX-512, 16 of others.
        match isa.f32().len() {
            16.. => self.by_columns::<I, 4>(isa),
            _ => self.by_columns::<I, 2>(isa),
        }
    }
}

impl<P: Place<f32>> State<'_, '_, P> {
    #[inline(always)]
    fn by_columns<I: Isa, const V: usize>(mut self, isa: I) {
        let width = V * isa.f32().len();
        for first in (0..self.value).step_by(width) {
            let columns = Columns {
                first,
                len: width.min(self.value - first),
                width,
            };
            match (self.factors.is_some(), self.betas.is_some()) {
                (false, false) => self.steps::<I, V, false, false>(isa, columns),
                (false, true) => self.steps::<I, V, false, true>(isa, columns),
                (true, false) => self.steps::<I, V, true, false>(isa, columns),
                (true, true) => self.steps::<I, V, true, true>(isa, columns),
            }
        }
        if self.steps < self.window {
            let unreached = self.window - self.steps;
            let none = if self.steps == 0 {
                unreached - 1
            } else {
                unreached
            };
            self.slots
                .iter_mut()
                .take(none)
                .for_each(|slot| fill(slot, 0.0));
        }
    }

    /// Runs all steps for some columns.
    #[inline(always)]
    fn steps<I: Isa, const V: usize, const DECAYS: bool, const CORRECTS: bool>(
        &mut self,
        isa: I,
        columns: Columns,
    ) {
        let ops = isa.f32();
        self.read(columns);
        let mut recalled = [ops.zero(); V];
        if CORRECTS && self.steps > 0 {
            self.recall::<DECAYS>(0);
            recalled = self.ask::<I, V>(isa, columns, None);
        }
        for step in 0..self.steps {
            let values = &self.values.at(step)[columns.first..][..columns.len];
            let mut value = load::<I, V>(isa, values);
            if let (true, Some(betas)) = (CORRECTS, self.betas) {
                let beta = ops.splat(betas.at(step)[0]);
                for (value, recalled) in std::iter::zip(&mut value, recalled) {
                    *value = ops.mul(beta, ops.sub(*value, recalled));
                }
                match step + 1 < self.steps {
                    true => self.recall::<DECAYS>(step + 1),
                    false => self.next.fill(0.0),
                }
            }
            let asked;
            (asked, recalled) = self.add::<I, V, DECAYS, CORRECTS>(isa, columns, step, value);
            self.answer::<I, V>(isa, columns, step, 0, asked);
            for head in 1..self.queries.len.checked_div(self.key).unwrap_or(1) {
                let asked = self.ask::<I, V>(isa, columns, Some((step, head)));
                self.answer::<I, V>(isa, columns, step, head, asked);
            }
            if let Some(slot) = (step + self.window).checked_sub(self.steps) {
                self.write(columns, slot);
            }
        }
        if self.steps == 0 {
            self.write(columns, self.window - 1);
        }
    }

    /// Sets what the state is multiplied with to recall what it has for the key of a step, once it has decayed.
    #[inline(always)]
    fn recall<const DECAYS: bool>(&mut self, step: usize) {
        let key = self.keys.at(step);
        match self.factors {
            Some(factors) if DECAYS => {
                let factors = &factors[step * self.key..][..self.key];
                for (next, (key, factor)) in
                    std::iter::zip(&mut self.next, std::iter::zip(key, factors))
                {
                    *next = key * factor;
                }
            }
            _ => self.next.copy_from_slice(key),
        }
    }

    /// Adds a step's outer product, and returns what the first query asks, and what the next key recalls.
    #[inline(always)]
    fn add<I: Isa, const V: usize, const DECAYS: bool, const CORRECTS: bool>(
        &mut self,
        isa: I,
        columns: Columns,
        step: usize,
        value: [I::F32; V],
    ) -> ([I::F32; V], [I::F32; V]) {
        let ops = isa.f32();
        let key = &self.keys.at(step)[..self.key];
        let query = &self.queries.at(step)[..self.key];
        let factors = match self.factors {
            Some(factors) if DECAYS => &factors[step * self.key..][..self.key],
            // Not read.
            _ => key,
        };
        let next = &self.next[..self.key];
        let mut asked = [ops.zero(); V];
        let mut recalled = [ops.zero(); V];
        let rows = self.block.chunks_exact_mut(columns.width);
        for (index, row) in rows.take(self.key).enumerate() {
            let mut state = ops.load_many::<V>(row);
            let at = ops.splat(key[index]);
            let asks = ops.splat(query[index]);
            for vector in 0..V {
                if DECAYS {
                    state[vector] = ops.mul(state[vector], ops.splat(factors[index]));
                }
                state[vector] = ops.mul_add(at, value[vector], state[vector]);
                asked[vector] = ops.mul_add(asks, state[vector], asked[vector]);
                if CORRECTS {
                    let recalls = ops.splat(next[index]);
                    recalled[vector] = ops.mul_add(recalls, state[vector], recalled[vector]);
                }
            }
            for (row, state) in std::iter::zip(row.chunks_exact_mut(ops.len()), state) {
                ops.store(state, row);
            }
        }
        (asked, recalled)
    }

    /// Returns what a query, of a step and a head, or else the next key, asks of the state.
    #[inline(always)]
    fn ask<I: Isa, const V: usize>(
        &self,
        isa: I,
        columns: Columns,
        query: Option<(usize, usize)>,
    ) -> [I::F32; V] {
        let ops = isa.f32();
        let query = match query {
            Some((step, head)) => &self.queries.at(step)[head * self.key..][..self.key],
            None => &self.next[..],
        };
        let mut asked = [ops.zero(); V];
        for (row, query) in std::iter::zip(self.block.chunks_exact(columns.width), query) {
            let state = ops.load_many::<V>(row);
            for (asked, state) in std::iter::zip(&mut asked, state) {
                *asked = ops.mul_add(ops.splat(*query), state, *asked);
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
        let Some(output) = self.outputs.get_mut(step) else {
            return;
        };
        let ops = isa.f32();
        let scale = ops.splat(self.scale);
        let mut row = [0.0_f32; WIDTH];
        for (row, asked) in std::iter::zip(row.chunks_exact_mut(ops.len()), asked) {
            ops.store(ops.mul(asked, scale), row);
        }
        let to = &mut output[head * self.value + columns.first..][..columns.len];
        copy(to, &row[..columns.len]);
    }

    /// Reads some columns of the past state; others are zeros.
    fn read(&mut self, columns: Columns) {
        let rows = self.block.chunks_exact_mut(columns.width).take(self.key);
        for (index, row) in rows.enumerate() {
            row.fill(0.0);
            if let Some(past) = self.past {
                let from = &past[index * self.value + columns.first..][..columns.len];
                row[..columns.len].copy_from_slice(from);
            }
        }
    }

    /// Writes some columns of a present state.
    fn write(&mut self, columns: Columns, slot: usize) {
        let Some(slot) = self.slots.get_mut(slot) else {
            return;
        };
        let rows = self.block.chunks_exact(columns.width).take(self.key);
        for (index, row) in rows.enumerate() {
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
    let mut row = [0.0_f32; WIDTH];
    row[..from.len()].copy_from_slice(from);
    isa.f32().load_many::<V>(&row)
}
