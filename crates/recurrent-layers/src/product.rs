//! Products with constant weights.
//!
//! tract packs matrices into panels too, but multiplies all of them; here a product takes some of
//! the panels, those of one thread, and adds to the output. A product of few rows reads the weights
//! once, so it matters that they lie in reading order. The order in which products are summed
//! depends on the number of rows, and not on the share of the panels.

use std::ops::Range;
use std::sync::Arc;

use rten_simd::ops::{BitOps, NumOps};
use rten_simd::{Isa, SimdOp};

use crate::element::Element;

/// The vectors in a row of a panel, but for layers of so few units that one vector holds them.
const VECTORS: usize = 2;

/// The number of rows of a panel that are reused for the next rows of the other matrix: they stay
/// in the L1 cache.
const DEPTH: usize = 256;

/// The inputs whose weights are packed at once.
const PACKED_AT_ONCE: usize = 16;

/// The bytes of a cache line, which no vector may cross.
const LINE: usize = 64;

/// The floats of a vector on this processor.
pub(crate) fn lanes() -> usize {
    struct Lanes;
    impl SimdOp for Lanes {
        type Output = usize;

        #[inline(always)]
        fn eval<I: Isa>(self, isa: I) -> usize {
            isa.f32().len()
        }
    }
    Lanes.dispatch()
}

/// The units of a block: those of [`VECTORS`], or of one vector if it holds all units.
pub(crate) fn block_units(units: usize) -> usize {
    let lanes = lanes();
    if units <= lanes {
        lanes
    } else {
        VECTORS * lanes
    }
}

/// The weights of some gates, in panels with a row for each input and a column for each unit. The
/// last block of units is padded with zeros.
///
/// There is a panel for each block and gate, or one of all gates if there is a single block of one
/// vector: so few units are multiplied at once.
#[derive(Clone, Debug)]
pub(crate) struct Panels<T> {
    elements: Arc<Vec<T>>,
    /// The index of the first element, at a cache line.
    start: usize,
    gates: usize,
    /// The number of gates in a panel.
    at_once: usize,
    inputs: usize,
    /// The units of a block.
    units: usize,
    /// Whether products with 0 are 0.
    is_finite: bool,
}

impl<T: Element> Panels<T> {
    /// Packs some gates of weights, [all gates * units, inputs], in this order.
    pub(crate) fn pack(weights: &[T], gates: &[usize], units: usize, inputs: usize) -> Self {
        let of_block = block_units(units);
        let at_once = match of_block == lanes() {
            true => gates.len(),
            false => 1,
        };
        let columns = at_once * of_block;
        // Without inputs there may be any number of units, and the other way round.
        let (units, inputs) = match weights.is_empty() {
            true => (0, 0),
            false => (units, inputs),
        };
        let len = units.div_ceil(of_block) * gates.len() * inputs * of_block;
        let line = LINE / size_of::<T>();
        let mut elements = vec![T::zero(); len + line];
        // `align_offset` may say that it cannot tell; vectors are loaded from any address.
        let start = elements.as_ptr().align_offset(LINE).min(line);
        let panels = elements[start..][..len].chunks_exact_mut((inputs * columns).max(1));
        for (panel, to) in panels.enumerate() {
            let block = panel * at_once / gates.len();
            let gates = &gates[panel * at_once % gates.len()..][..at_once];
            let range = block * of_block..units.min((block + 1) * of_block);
            for (place, gate) in gates.iter().enumerate() {
                let from = &weights[(gate * units + range.start) * inputs..];
                let from = &from[..range.len() * inputs];
                // Weights are read by whole cache lines.
                for (part, rows) in to.chunks_mut(PACKED_AT_ONCE * columns).enumerate() {
                    for (unit, from) in from.chunks_exact(inputs).enumerate() {
                        let from = &from[part * PACKED_AT_ONCE..];
                        let column = place * of_block + unit;
                        for (row, from) in std::iter::zip(rows.chunks_exact_mut(columns), from) {
                            row[column] = *from;
                        }
                    }
                }
            }
        }
        Self {
            elements: Arc::new(elements),
            start,
            gates: gates.len(),
            at_once,
            inputs,
            units: of_block,
            is_finite: are_finite(weights),
        }
    }

    /// Whether no weight is infinite or NaN, so that products with 0 are 0.
    pub(crate) fn is_finite(&self) -> bool {
        self.is_finite
    }

    /// Adds the products of rows with the weights of some blocks of units.
    pub(crate) fn add_products(&self, blocks: Range<usize>, rows: Rows<'_, T>, to: Sums<'_, T>) {
        if self.inputs == 0 {
            return;
        }
        let of_block = self.gates * self.inputs * self.units;
        let panels = &self.elements[self.start..];
        let of_panel = self.at_once * to.width;
        AddProducts {
            panels: &panels[blocks.start * of_block..blocks.end * of_block],
            starts: Starts {
                next: to.first,
                place: 0,
                places: self.gates / self.at_once,
                of_panel,
                units: self.units,
            },
            at_once: self.at_once,
            inputs: self.inputs,
            units: self.units,
            rows,
            to,
        }
        .dispatch();
    }
}

/// Whether no number is infinite or NaN. Without a branch, so that it is vectorised.
fn are_finite<T: Element>(numbers: &[T]) -> bool {
    let zero = T::zero();
    (numbers.iter()).fold(true, |all, number| all & (*number * zero == zero))
}

/// The rows of a matrix.
#[derive(Clone, Copy)]
pub(crate) struct Rows<'a, T> {
    pub(crate) elements: &'a [T],
    pub(crate) count: usize,
    /// The elements from one row to the next.
    pub(crate) stride: usize,
}

impl<T: Element> Rows<'_, T> {
    /// Whether the numbers of these columns, the first ones, are all 0.
    pub(crate) fn are_zero(&self, columns: usize) -> bool {
        let mut rows = self.elements.chunks(self.stride).take(self.count);
        rows.all(|row| row[..columns].iter().all(|it| *it == T::zero()))
    }
}

/// Sums that products are added to: those of a row of the other matrix are, for each gate, `width` units.
pub(crate) struct Sums<'a, T> {
    pub(crate) elements: &'a mut [T],
    /// The place of the first gate.
    pub(crate) first: usize,
    pub(crate) width: usize,
    pub(crate) stride: usize,
}

/// Start of the products of each panel, without divisions.
struct Starts {
    next: usize,
    place: usize,
    places: usize,
    of_panel: usize,
    units: usize,
}

impl Iterator for Starts {
    type Item = usize;

    #[inline(always)]
    fn next(&mut self) -> Option<usize> {
        let start = self.next;
        self.place += 1;
        self.next += self.of_panel;
        if self.place == self.places {
            self.place = 0;
            self.next += self.units;
            self.next -= self.places * self.of_panel;
        }
        Some(start)
    }
}

/// [`Panels::add_products`] with the instructions of a processor.
pub struct AddProducts<'a, T> {
    panels: &'a [T],
    starts: Starts,
    at_once: usize,
    inputs: usize,
    units: usize,
    rows: Rows<'a, T>,
    to: Sums<'a, T>,
}

impl<T: Element> SimdOp for AddProducts<'_, T> {
    type Output = ();

    #[inline(always)]
    fn eval<I: Isa>(self, isa: I) {
        T::add_products(isa, self);
    }
}

impl<T: Element> AddProducts<'_, T> {
    /// The products, one after the other: for numbers that have no vectors.
    #[inline(always)]
    pub(crate) fn plain(self) {
        let columns = self.at_once * self.units;
        let panels = self.panels.chunks_exact(self.inputs * columns);
        for (panel, start) in std::iter::zip(panels, self.starts) {
            for row in 0..self.rows.count {
                let a = &self.rows.elements[row * self.rows.stride..][..self.inputs];
                let to = &mut self.to.elements[start + row * self.to.stride..][..columns];
                for (a, b) in std::iter::zip(a, panel.chunks_exact(columns)) {
                    for (to, b) in std::iter::zip(&mut *to, b) {
                        *to = *to + *a * *b;
                    }
                }
            }
        }
    }
}

impl AddProducts<'_, f32> {
    /// The products by vectors.
    #[inline(always)]
    pub(crate) fn by_vectors<I: Isa>(self, isa: I) {
        match self.at_once * self.units / isa.f32().len() {
            1 => self.by::<I, 1>(isa),
            2 => self.by::<I, 2>(isa),
            3 => self.by::<I, 3>(isa),
            _ => self.by::<I, 4>(isa),
        }
    }

    /// The products with panels of so many vectors.
    #[inline(always)]
    fn by<I: Isa, const VECTORS: usize>(self, isa: I) {
        let columns = VECTORS * isa.f32().len();
        let rows = self.rows.count;
        let Tiles {
            tiles,
            size,
            larger,
        } = Tiles::new(rows, const { maximum_rows(VECTORS) });
        let panels = self.panels.chunks_exact(self.inputs * columns);
        for (panel, start) in std::iter::zip(panels, self.starts) {
            for (depth, part) in panel.chunks(DEPTH * columns).enumerate() {
                let mut first = 0;
                for tile in 0..tiles {
                    let count = size + usize::from(tile < larger);
                    let a = Rows {
                        elements: &self.rows.elements[first * self.rows.stride + depth * DEPTH..],
                        ..self.rows
                    };
                    let to = &mut self.to.elements[start + first * self.to.stride..];
                    match count {
                        1 => add_tile::<I, VECTORS, 1>(isa, a, part, to, self.to.stride),
                        2 => add_tile::<I, VECTORS, 2>(isa, a, part, to, self.to.stride),
                        3 => add_tile::<I, VECTORS, 3>(isa, a, part, to, self.to.stride),
                        4 => add_tile::<I, VECTORS, 4>(isa, a, part, to, self.to.stride),
                        5 => add_tile::<I, VECTORS, 5>(isa, a, part, to, self.to.stride),
                        _ => add_tile::<I, VECTORS, 6>(isa, a, part, to, self.to.stride),
                    }
                    first += count;
                }
            }
        }
    }
}

/// The rows of the other matrix, in tiles of equal size, since sums of few rows wait for each other.
struct Tiles {
    tiles: usize,
    size: usize,
    /// The first tiles, which have a row more.
    larger: usize,
}

impl Tiles {
    fn new(rows: usize, maximum: usize) -> Self {
        let tiles = rows.div_ceil(maximum);
        Self {
            tiles,
            size: rows.checked_div(tiles).unwrap_or_default(),
            larger: rows.checked_rem(tiles).unwrap_or_default(),
        }
    }
}

/// The most rows of the other matrix that are multiplied at once: with so many vectors each, their
/// sums and operands fit into the 16 registers of AVX2.
const fn maximum_rows(vectors: usize) -> usize {
    match vectors {
        1 | 2 => 6,
        3 => 4,
        _ => 3,
    }
}

/// The number of inputs that are summed side by side, since each sum waits for the one before.
const fn sides(vectors: usize, rows: usize) -> usize {
    match vectors * rows {
        1 | 2 => 4,
        3..=6 => 2,
        _ => 1,
    }
}

/// Whether so many rows are summed as any larger number of them is: side by side equally often.
pub(crate) fn sums_as_many(rows: usize) -> bool {
    matches!(rows, 4 | 6 | 8..)
}

/// The products of a few rows with a part of a panel.
#[inline(always)]
fn add_tile<I: Isa, const VECTORS: usize, const ROWS: usize>(
    isa: I,
    rows: Rows<'_, f32>,
    panel: &[f32],
    to: &mut [f32],
    stride: usize,
) {
    if const { ROWS > maximum_rows(VECTORS) } {
        return;
    }
    let ops = isa.f32();
    let sides = const { sides(VECTORS, ROWS) };
    let columns = VECTORS * ops.len();
    let depth = panel.len() / columns;
    let rows: [&[f32]; ROWS] =
        std::array::from_fn(|row| &rows.elements[row * rows.stride..][..depth]);
    let mut sums = [[[ops.zero(); VECTORS]; ROWS]; 4];
    let whole = depth / sides * sides;
    let (by_sides, rest) = panel.split_at(whole * columns);
    for (at, side_rows) in by_sides.chunks_exact(sides * columns).enumerate() {
        for side in 0..sides {
            let b = ops.load_many::<VECTORS>(&side_rows[side * columns..][..columns]);
            for row in 0..ROWS {
                let a = ops.splat(rows[row][at * sides + side]);
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
            for side in &sums[..sides] {
                sum = ops.add(sum, side[row][vector]);
            }
            ops.store(sum, to);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check<T: Element + std::fmt::Debug>(number: impl Fn(f32) -> T) {
        let numbers = |len: usize, by: usize| -> Vec<T> {
            (0..len)
                .map(|it| number((it * by % 17) as f32 - 8.0))
                .collect()
        };
        for (rows, units, inputs) in [
            (0, 3, 2),
            (1, 40, 5),
            (2, 1, 7),
            (9, 70, 3),
            (5, 4, 9),
            (13, 33, 600),
            (7, 3, 300),
        ] {
            let weights = numbers(4 * units * inputs, 5);
            // Rows may lie further apart than they are long.
            let apart = inputs + 2;
            let a = numbers(rows * apart, 7);
            let of_block = block_units(units);
            let blocks = units.div_ceil(of_block);
            for gates in [&[1, 2, 3][..], &[3, 0, 1, 2], &[2], &[2, 1]] {
                let panels = Panels::pack(&weights, gates, units, inputs);
                for part in [0..blocks, 0..1, blocks - 1..blocks] {
                    let width = part.len() * of_block;
                    let (first, stride) = (width, (1 + gates.len()) * width);
                    let mut to = vec![T::one(); rows * stride];
                    let sums = Sums {
                        elements: &mut to,
                        first,
                        width,
                        stride,
                    };
                    let a = Rows {
                        elements: &a,
                        count: rows,
                        stride: apart,
                    };
                    panels.add_products(part.clone(), a, sums);
                    for (row, found) in to.chunks_exact(stride.max(1)).enumerate() {
                        for (place, found) in found.iter().enumerate() {
                            let unit = part.start * of_block + place % width;
                            let gate = (place / width).checked_sub(1).map(|it| gates[it]);
                            let sum = match gate {
                                Some(gate) if unit < units => {
                                    let weights = &weights[(gate * units + unit) * inputs..];
                                    let a = &a.elements[row * apart..][..inputs];
                                    std::iter::zip(a, weights)
                                        .fold(T::zero(), |sum, (a, b)| sum + *a * *b)
                                }
                                _ => T::zero(),
                            };
                            // Sums of small whole numbers are exact.
                            assert_eq!(*found, T::one() + sum);
                        }
                    }
                }
            }
        }
    }

    #[test]
    fn parts_of_many_rows_are_summed_alike() {
        for vectors in 1..=4 {
            let maximum = maximum_rows(vectors);
            for rows in (1..100).filter(|rows| sums_as_many(*rows)) {
                let Tiles { size, larger, .. } = Tiles::new(rows, maximum);
                for size in [size, size + usize::from(larger > 0)] {
                    assert_eq!(sides(vectors, size), sides(vectors, maximum), "{rows} rows");
                }
            }
        }
    }

    #[test]
    fn products_are_those_of_all_gates() {
        check::<f32>(|number| number);
        check::<f64>(f64::from);
    }
}
