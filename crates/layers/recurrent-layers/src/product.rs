//! Products with constant weights.
//!
//! The order in which products are summed depends on the number of rows, and not on the share of the
//! panels.

use num_traits::Float;
use rten_simd::Isa;
use rten_simd::ops::{BitOps, NumOps};

/// The number of rows of a panel that are reused for the next rows of the other matrix: they stay
/// in the L1 cache.
const DEPTH: usize = 256;

/// The most weights, for each lane of a vector, that an L2 cache holds: of some 512 KiB where vectors have 8 lanes,
/// and of 1 MiB where they have 16.
const NEAR: usize = 1 << 14;

/// The floats of a cache line.
const LINE: usize = 16;

/// The rows of a matrix.
#[derive(Clone, Copy)]
pub(crate) struct Rows<'a, T> {
    pub(crate) elements: &'a [T],
    pub(crate) count: usize,
    /// The elements from one row to the next.
    pub(crate) stride: usize,
}

impl<T: Float> Rows<'_, T> {
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
pub(crate) struct Starts {
    pub(crate) next: usize,
    pub(crate) place: usize,
    pub(crate) places: usize,
    pub(crate) of_panel: usize,
    pub(crate) units: usize,
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

/// Products of rows with the weights of panels, which are added to sums.
pub struct AddProducts<'a, T> {
    pub(crate) panels: &'a [T],
    pub(crate) starts: Starts,
    /// The number of gates in a panel.
    pub(crate) at_once: usize,
    pub(crate) inputs: usize,
    /// The units of a block.
    pub(crate) units: usize,
    pub(crate) rows: Rows<'a, T>,
    pub(crate) to: Sums<'a, T>,
}

impl<T: Float> AddProducts<'_, T> {
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
            1 => self.by::<I, 1, false>(isa),
            2 if self.are_far(isa) => self.by::<I, 2, true>(isa),
            2 => self.by::<I, 2, false>(isa),
            3 => self.by::<I, 3, false>(isa),
            _ => self.by::<I, 4, false>(isa),
        }
    }

    /// Whether weights lie beyond the L2 cache, and rows are enough to fetch some while others are multiplied.
    #[inline(always)]
    fn are_far<I: Isa>(&self, isa: I) -> bool {
        self.rows.count > maximum_rows(2) && self.panels.len() > NEAR * isa.f32().len()
    }

    /// The products with panels of so many vectors, whose rows may fetch what is next.
    #[inline(always)]
    fn by<I: Isa, const VECTORS: usize, const FETCHES: bool>(self, isa: I) {
        let columns = VECTORS * isa.f32().len();
        let rows = self.rows.count;
        let Tiles {
            tiles,
            size,
            larger,
        } = Tiles::new(rows, const { maximum_rows(VECTORS) });
        // The share of a tile for each row of a panel, a cache line at most.
        let share = (columns / tiles.max(1)).clamp(1, LINE);
        let panels = self.panels.chunks_exact(self.inputs * columns);
        for (panel, start) in std::iter::zip(panels, self.starts) {
            for (depth, part) in panel.chunks(DEPTH * columns).enumerate() {
                let mut next = part.as_ptr_range().end;
                let mut first = 0;
                for tile in 0..tiles {
                    let count = size + usize::from(tile < larger);
                    let at = Tile {
                        rows: Rows {
                            elements: &self.rows.elements
                                [first * self.rows.stride + depth * DEPTH..],
                            ..self.rows
                        },
                        panel: part,
                        to: &mut self.to.elements[start + first * self.to.stride..],
                        stride: self.to.stride,
                        next,
                        share,
                    };
                    match count {
                        1 => at.add::<I, VECTORS, FETCHES, 1>(isa),
                        2 => at.add::<I, VECTORS, FETCHES, 2>(isa),
                        3 => at.add::<I, VECTORS, FETCHES, 3>(isa),
                        4 => at.add::<I, VECTORS, FETCHES, 4>(isa),
                        5 => at.add::<I, VECTORS, FETCHES, 5>(isa),
                        _ => at.add::<I, VECTORS, FETCHES, 6>(isa),
                    }
                    first += count;
                    next = next.wrapping_add(share * part.len() / columns);
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

/// A few rows, and a part of a panel.
struct Tile<'a> {
    rows: Rows<'a, f32>,
    panel: &'a [f32],
    to: &'a mut [f32],
    /// The sums from one row to the next.
    stride: usize,
    /// What is read next, and how much of it each row of the panel fetches.
    next: *const f32,
    share: usize,
}

impl Tile<'_> {
    /// Adds their products.
    #[inline(always)]
    fn add<I: Isa, const VECTORS: usize, const FETCHES: bool, const ROWS: usize>(self, isa: I) {
        if const { ROWS > maximum_rows(VECTORS) } {
            return;
        }
        let ops = isa.f32();
        let mut next = self.next;
        let sides = const { sides(VECTORS, ROWS) };
        let columns = VECTORS * ops.len();
        let depth = self.panel.len() / columns;
        let rows: [&[f32]; ROWS] =
            std::array::from_fn(|row| &self.rows.elements[row * self.rows.stride..][..depth]);
        let mut sums = [[[ops.zero(); VECTORS]; ROWS]; 4];
        let whole = depth / sides * sides;
        let (by_sides, rest) = self.panel.split_at(whole * columns);
        for (at, side_rows) in by_sides.chunks_exact(sides * columns).enumerate() {
            for side in 0..sides {
                if FETCHES {
                    ops.prefetch(next);
                    next = next.wrapping_add(self.share);
                }
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
            let to = &mut self.to[row * self.stride..][..columns];
            for (vector, to) in to.chunks_exact_mut(ops.len()).enumerate() {
                let mut sum = ops.load(to);
                for side in &sums[..sides] {
                    sum = ops.add(sum, side[row][vector]);
                }
                ops.store(sum, to);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
}
