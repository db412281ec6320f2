//! Products with constant weights.
//!
//! tract packs matrices into panels too, but multiplies all of them; here a product takes some of
//! the panels, those of one thread, and adds to the output. A product of few rows reads the weights
//! once, so it matters that they lie in reading order. The order in which products are summed
//! depends on the number of rows, and not on the share of the panels.

use std::ops::Range;

use rten_simd::ops::{BitOps, NumOps};
use rten_simd::{Isa, SimdOp};

/// The vectors in a row of a panel.
const VECTORS: usize = 2;

/// The most rows of the other matrix that are multiplied at once: with two vectors each, their sums
/// and operands fit into the 16 registers of AVX2.
const MAXIMUM_ROWS: usize = 6;

/// The number of rows of a panel that are reused for the next rows of the other matrix: they stay
/// in the L1 cache.
const DEPTH: usize = 256;

/// The bytes of a cache line, which no vector may cross.
const LINE: usize = 64;

/// The number of columns of a panel: [`VECTORS`] on this processor.
pub(super) fn panel_columns() -> usize {
    struct Lanes;
    impl SimdOp for Lanes {
        type Output = usize;

        #[inline(always)]
        fn eval<I: Isa>(self, isa: I) -> usize {
            isa.f32().len()
        }
    }
    VECTORS * Lanes.dispatch()
}

/// The weights of some gates, in panels: one per gate for each block of [`panel_columns`] units,
/// with a row for each input and a column for each unit. The last block is padded with zeros.
#[derive(Clone, Debug)]
pub(super) struct Panels {
    elements: Vec<f32>,
    /// The index of the first element, at a cache line.
    start: usize,
    gates: usize,
    inputs: usize,
    columns: usize,
}

impl Panels {
    /// Packs some gates of weights, [gates * units, inputs].
    pub(super) fn pack(weights: &[f32], gates: Range<usize>, units: usize, inputs: usize) -> Self {
        let columns = panel_columns();
        let len = units.div_ceil(columns) * gates.len() * inputs * columns;
        let mut elements = vec![0.0; len + LINE / size_of::<f32>()];
        // `align_offset` may say that it cannot tell; vectors are loaded from any address.
        let start = elements
            .as_ptr()
            .align_offset(LINE)
            .min(LINE / size_of::<f32>());
        let panels = elements[start..][..len].chunks_exact_mut((inputs * columns).max(1));
        for (panel, to) in panels.enumerate() {
            let (block, gate) = (panel / gates.len(), gates.start + panel % gates.len());
            for unit in block * columns..units.min((block + 1) * columns) {
                let from = &weights[(gate * units + unit) * inputs..][..inputs];
                let to = to.iter_mut().skip(unit % columns).step_by(columns);
                for (to, from) in std::iter::zip(to, from) {
                    *to = *from;
                }
            }
        }
        Self {
            elements,
            start,
            gates: gates.len(),
            inputs,
            columns,
        }
    }

    /// Adds the products of rows with the weights of some blocks of units.
    ///
    /// `rows` is [rows, inputs]. The sums are [rows, units of the blocks] for each gate, beginning
    /// at `starts`.
    pub(super) fn add_products(
        &self,
        blocks: Range<usize>,
        rows: &[f32],
        to: &mut [f32],
        starts: &[usize],
    ) {
        if self.inputs == 0 {
            return;
        }
        let of_block = self.gates * self.inputs * self.columns;
        let panels = &self.elements[self.start..];
        AddProducts {
            panels: &panels[blocks.start * of_block..blocks.end * of_block],
            inputs: self.inputs,
            rows,
            to,
            starts,
            stride: blocks.len() * self.columns,
        }
        .dispatch();
    }
}

/// [`Panels::add_products`] with the instructions of a processor.
struct AddProducts<'a> {
    panels: &'a [f32],
    inputs: usize,
    rows: &'a [f32],
    to: &'a mut [f32],
    starts: &'a [usize],
    stride: usize,
}

impl SimdOp for AddProducts<'_> {
    type Output = ();

    #[inline(always)]
    fn eval<I: Isa>(self, isa: I) {
        let columns = VECTORS * isa.f32().len();
        let rows = self.rows.len() / self.inputs;
        let tiles = rows.div_ceil(MAXIMUM_ROWS);
        let panels = self.panels.chunks_exact(self.inputs * columns);
        for (index, panel) in panels.enumerate() {
            let (block, gate) = (index / self.starts.len(), index % self.starts.len());
            let start = self.starts[gate] + block * columns;
            for (depth, part) in panel.chunks(DEPTH * columns).enumerate() {
                // In tiles of equal size, since sums of few rows wait for each other.
                let mut first = 0;
                for tile in 0..tiles {
                    let end = rows * (tile + 1) / tiles;
                    let a = &self.rows[first * self.inputs + depth * DEPTH..];
                    let to = &mut self.to[start + first * self.stride..];
                    let (inputs, stride) = (self.inputs, self.stride);
                    match end - first {
                        1 => add_tile::<I, 1, 4>(isa, a, inputs, part, to, stride),
                        2 => add_tile::<I, 2, 2>(isa, a, inputs, part, to, stride),
                        3 => add_tile::<I, 3, 2>(isa, a, inputs, part, to, stride),
                        4 => add_tile::<I, 4, 1>(isa, a, inputs, part, to, stride),
                        5 => add_tile::<I, 5, 1>(isa, a, inputs, part, to, stride),
                        _ => add_tile::<I, MAXIMUM_ROWS, 1>(isa, a, inputs, part, to, stride),
                    }
                    first = end;
                }
            }
        }
    }
}

/// The products of a few rows with a part of a panel. With very few rows, several inputs are summed
/// side by side, since each sum waits for the one before.
#[inline(always)]
fn add_tile<I: Isa, const ROWS: usize, const SIDES: usize>(
    isa: I,
    rows: &[f32],
    inputs: usize,
    panel: &[f32],
    to: &mut [f32],
    stride: usize,
) {
    let ops = isa.f32();
    let columns = VECTORS * ops.len();
    let depth = panel.len() / columns;
    let rows: [&[f32]; ROWS] = std::array::from_fn(|row| &rows[row * inputs..][..depth]);
    let mut sums = [[[ops.zero(); VECTORS]; ROWS]; SIDES];
    let whole = depth / SIDES * SIDES;
    let (sides, rest) = panel.split_at(whole * columns);
    for (at, side_rows) in sides.chunks_exact(SIDES * columns).enumerate() {
        for side in 0..SIDES {
            let b = ops.load_many::<VECTORS>(&side_rows[side * columns..][..columns]);
            for row in 0..ROWS {
                let a = ops.splat(rows[row][at * SIDES + side]);
                for vector in 0..VECTORS {
                    let sum = &mut sums[side][row][vector];
                    *sum = ops.mul_add(a, b[vector], *sum);
                }
            }
        }
    }
    for (input, b) in (whole..depth).zip(rest.chunks_exact(columns)) {
        let b = ops.load_many::<VECTORS>(b);
        for row in 0..ROWS {
            let a = ops.splat(rows[row][input]);
            for vector in 0..VECTORS {
                sums[0][row][vector] = ops.mul_add(a, b[vector], sums[0][row][vector]);
            }
        }
    }
    for row in 0..ROWS {
        let to = &mut to[row * stride..][..columns];
        for (vector, to) in to.chunks_exact_mut(ops.len()).enumerate() {
            let mut sum = ops.load(to);
            for side in &sums {
                sum = ops.add(sum, side[row][vector]);
            }
            ops.store(sum, to);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn products_are_those_of_all_gates() {
        let numbers = |len: usize, by: usize| -> Vec<f32> {
            (0..len).map(|it| (it * by % 17) as f32 - 8.0).collect()
        };
        for (rows, units, inputs) in [(0, 3, 2), (1, 40, 5), (2, 1, 7), (9, 70, 3), (13, 33, 600)] {
            let weights = numbers(4 * units * inputs, 5);
            let a = numbers(rows * inputs, 7);
            let panels = Panels::pack(&weights, 1..4, units, inputs);
            let columns = panel_columns();
            let blocks = units.div_ceil(columns);
            for part in [0..blocks, 0..1, blocks - 1..blocks] {
                let stride = part.len() * columns;
                let starts = [0, 1, 2].map(|gate| gate * rows * stride);
                let mut to = vec![1.0; 3 * rows * stride];
                panels.add_products(part.clone(), &a, &mut to, &starts);
                for (gate, row) in (0..3).flat_map(|gate| (0..rows).map(move |row| (gate, row))) {
                    for column in 0..stride {
                        let unit = part.start * columns + column;
                        let sum: f32 = if unit < units {
                            let weights = &weights[((gate + 1) * units + unit) * inputs..];
                            let products = std::iter::zip(&a[row * inputs..][..inputs], weights);
                            products.map(|(a, b)| a * b).sum()
                        } else {
                            0.0
                        };
                        // Sums of small whole numbers are exact.
                        let found = to[starts[gate] + row * stride + column];
                        assert_eq!(found.to_bits(), (1.0 + sum).to_bits());
                    }
                }
            }
        }
    }
}
