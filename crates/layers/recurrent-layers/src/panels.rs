//! Constant weights, packed for products.
//!
//! tract packs matrices into panels too, but multiplies all of them; here a product takes some of
//! the panels, those of one thread, and adds to the output. A product of few rows reads the weights
//! once, so it matters that they lie in reading order.

use std::ops::Range;
use std::sync::Arc;

use rten_simd::ops::BitOps;
use rten_simd::{Isa, SimdOp};

use crate::element::Element;
use crate::error::Error;
use crate::memory;
use crate::product::{AddProducts, Rows, Starts, Sums};

/// The vectors in a row of a panel, but for layers of so few units that one vector holds them.
const VECTORS: usize = 2;

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
    ///
    /// # Errors
    /// [`Error::OutOfMemory`].
    pub(crate) fn pack(
        weights: &[T],
        gates: &[usize],
        units: usize,
        inputs: usize,
    ) -> Result<Self, Error> {
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
        let sizes = [units.div_ceil(of_block), gates.len(), inputs, of_block];
        let len = sizes.into_iter().fold(1, usize::saturating_mul);
        let line = LINE / size_of::<T>();
        let mut elements: Vec<T> = memory::zeros(&[len.saturating_add(line)])?;
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
        Ok(Self {
            elements: Arc::new(elements),
            start,
            gates: gates.len(),
            at_once,
            inputs,
            units: of_block,
            is_finite: are_finite(weights),
        })
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

impl<T: Element> SimdOp for AddProducts<'_, T> {
    type Output = ();

    #[inline(always)]
    fn eval<I: Isa>(self, isa: I) {
        T::add_products(isa, self);
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
                let panels = Panels::pack(&weights, gates, units, inputs).unwrap();
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
    fn products_are_those_of_all_gates() {
        check::<f32>(|number| number);
        check::<f64>(f64::from);
    }
}
