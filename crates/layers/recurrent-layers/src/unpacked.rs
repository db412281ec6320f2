//! Products with weights as ONNX lays them, for runs that are too short to pack them first.

use std::ops::Range;

use num_traits::Float;
use rten_simd::Isa;
use rten_simd::ops::{BitOps, NumOps};

use crate::product::{Rows, Sums};

/// The units whose products with a row are summed side by side.
const UNITS: usize = 4;

/// The most numbers of a vector.
const MOST_LANES: usize = 64;

/// Products of rows with the weights of some units, which are added to sums.
pub struct AddDots<'a, T> {
    /// Those of a direction: [gates * units, inputs].
    pub(crate) weights: &'a [T],
    /// The gates to multiply with, in the order of the sums.
    pub(crate) gates: &'static [usize],
    /// The units of a gate, and those to multiply with.
    pub(crate) units: usize,
    pub(crate) range: Range<usize>,
    pub(crate) inputs: usize,
    pub(crate) rows: Rows<'a, T>,
    pub(crate) to: Sums<'a, T>,
}

impl<T: Float> AddDots<'_, T> {
    /// The products, one after the other: for numbers that have no vectors.
    #[inline(always)]
    pub(crate) fn plain(mut self) {
        for place in 0..self.gates.len() {
            for unit in self.range.clone() {
                let weights = self.weights(place, unit);
                for row in 0..self.rows.count {
                    let products = std::iter::zip(self.row(row), weights).map(|(a, b)| *a * *b);
                    let sum = products.fold(T::zero(), |sum, product| sum + product);
                    self.add(place, unit, row, sum);
                }
            }
        }
    }

    #[inline(always)]
    fn weights<'a>(&self, place: usize, unit: usize) -> &'a [T]
    where
        Self: 'a,
    {
        &self.weights[(self.gates[place] * self.units + unit) * self.inputs..][..self.inputs]
    }

    #[inline(always)]
    fn row(&self, row: usize) -> &[T] {
        &self.rows.elements[row * self.rows.stride..][..self.inputs]
    }

    #[inline(always)]
    fn add(&mut self, place: usize, unit: usize, row: usize, sum: T) {
        let Sums {
            first,
            width,
            stride,
            ..
        } = self.to;
        let at = first + row * stride + place * width + unit - self.range.start;
        self.to.elements[at] = self.to.elements[at] + sum;
    }
}

impl AddDots<'_, f32> {
    /// The products by vectors.
    #[inline(always)]
    pub(crate) fn by_vectors<I: Isa>(mut self, isa: I) {
        // Sums and operands fit into the registers: 32 of AVX-512, 16 of others.
        let most = if isa.f32().len() < 16 { 2 } else { 4 };
        for place in 0..self.gates.len() {
            for unit in self.range.clone().step_by(UNITS) {
                let mut row = 0;
                while row < self.rows.count {
                    let count = most.min(self.rows.count - row);
                    match count {
                        1 => self.tile::<I, 1>(isa, place, unit, row),
                        2 => self.tile::<I, 2>(isa, place, unit, row),
                        3 => self.tile::<I, 3>(isa, place, unit, row),
                        _ => self.tile::<I, 4>(isa, place, unit, row),
                    }
                    row += count;
                }
            }
        }
    }

    /// The products of some rows with some units.
    #[inline(always)]
    fn tile<I: Isa, const ROWS: usize>(&mut self, isa: I, place: usize, unit: usize, row: usize) {
        let ops = isa.f32();
        let units = UNITS.min(self.range.end - unit);
        // The last ones stand for those that lack.
        let weights: [&[f32]; UNITS] =
            std::array::from_fn(|at| self.weights(place, unit + at.min(units - 1)));
        let rows: [&[f32]; ROWS] = std::array::from_fn(|at| self.row(row + at));
        let mut sums = [[ops.zero(); UNITS]; ROWS];
        let whole = self.inputs / ops.len() * ops.len();
        for at in (0..whole).step_by(ops.len()) {
            let mut b = [ops.zero(); UNITS];
            for unit in 0..UNITS {
                b[unit] = ops.load(&weights[unit][at..]);
            }
            for row in 0..ROWS {
                let a = ops.load(&rows[row][at..]);
                for unit in 0..UNITS {
                    sums[row][unit] = ops.mul_add(a, b[unit], sums[row][unit]);
                }
            }
        }
        if whole < self.inputs {
            let mut b = [ops.zero(); UNITS];
            for unit in 0..UNITS {
                b[unit] = load_rest(ops, &weights[unit][whole..]);
            }
            for row in 0..ROWS {
                let a = load_rest(ops, &rows[row][whole..]);
                for unit in 0..UNITS {
                    sums[row][unit] = ops.mul_add(a, b[unit], sums[row][unit]);
                }
            }
        }
        for (at, sums) in sums.into_iter().enumerate() {
            for (index, sum) in sums.into_iter().enumerate().take(units) {
                self.add(place, unit + index, row + at, ops.sum(sum));
            }
        }
    }
}

/// Loads fewer numbers than a vector has, with zeros behind them.
#[inline(always)]
fn load_rest<O: BitOps<f32>>(ops: O, from: &[f32]) -> O::Simd {
    let mut to = [0.0; MOST_LANES];
    to[..from.len()].copy_from_slice(from);
    ops.load(&to)
}
