//! Weights that are bytes, for products with quantised rows.
//!
//! ONNX Runtime multiplies integers, and so does this: exactly. The columns of the weights are in the order
//! of blocks of units, as those of `panels.rs`, then of gates, so that a thread's blocks are neighbours:
//!
//! ```text
//! units 0 to 31 of gate i, of o, of f, of c; units 32 to 63 of gate i, …
//! ```

use std::ops::Range;
use std::sync::Arc;

use integer_products::{Bytes, Matrix, PackedColumns, PackedRows, Sink, WIDTH, ZeroPoints};

use crate::element::Element;
use crate::error::Error;
use crate::memory;
use crate::panels::block_units;
use crate::product::Sums;
use crate::quantized::{Quantization, Quantized, Quantizing};

/// The weights of some gates.
#[derive(Clone, Debug)]
pub(crate) struct BytePanels(Arc<Packed>);

#[derive(Debug)]
struct Packed {
    columns: PackedColumns,
    /// The scale of each column, 0 of those that are no unit's.
    scales: Vec<f32>,
    /// The zero point of each column, or of all.
    zeros: Vec<i32>,
    gates: usize,
    /// The units of a block.
    units: usize,
}

impl BytePanels {
    /// Packs some gates of the weights of a direction, in this order.
    ///
    /// # Errors
    /// [`Error::OutOfMemory`].
    pub(crate) fn pack(
        weights: &Quantized<'_>,
        direction: usize,
        gates: &[usize],
        [directions, units, inputs, all_gates]: [usize; 4],
    ) -> Result<Self, Error> {
        let of_block = block_units(units);
        let rows = all_gates * units;
        let blocks = units.div_ceil(of_block);
        let count = blocks * gates.len() * of_block;
        // The place of a column's first unit among those of all gates, and the units from there on.
        let unit = |column: usize| {
            let block = column / of_block;
            let (gate, first) = (gates[block % gates.len()], block / gates.len() * of_block);
            (gate * units + first, of_block.min(units - first))
        };
        let parameter = |len: usize, place: usize| match len == directions {
            true => direction,
            false => direction * rows + place,
        };
        let mut scales = memory::zeros(&[count])?;
        let mut zeros = memory::zeros(&[count])?;
        let columns = scales
            .chunks_exact_mut(of_block)
            .zip(zeros.chunks_exact_mut(of_block));
        for (block, (scales, zeros)) in columns.enumerate() {
            let (first, count) = unit(block * of_block);
            for (at, (scale, zero)) in scales.iter_mut().zip(zeros).take(count).enumerate() {
                *scale = weights.scales[parameter(weights.scales.len(), first + at)];
                *zero = weights
                    .zero_points
                    .get(parameter(weights.zero_points.len(), first + at));
            }
        }
        let is_same = zeros.iter().all(|it| Some(it) == zeros.first());
        zeros.truncate(if is_same { 1 } else { count });
        let mut columns = PackedColumns::default();
        columns
            .try_reserve([inputs, count])
            .map_err(|_| Error::OutOfMemory {
                bytes: count.saturating_mul(inputs),
            })?;
        columns.set_by(weights.weights, [inputs, count], |input, columns, to| {
            let row = (direction * inputs + input) * rows;
            for (block, to) in to.chunks_mut(of_block).enumerate() {
                let (first, count) = unit(columns.start + block * of_block);
                let (units, none) = to.split_at_mut(count);
                weights.weights.copy(row + first, units);
                none.fill(0);
            }
        });
        Ok(Self(Arc::new(Packed {
            columns,
            scales,
            zeros,
            gates: gates.len(),
            units: of_block,
        })))
    }

    /// Whether products with 0 are 0.
    pub(crate) fn is_finite(&self) -> bool {
        self.0.scales.iter().all(|it| it.is_finite())
    }

    /// Adds the products of rows with the weights of some blocks of units.
    pub(crate) fn add_products<T: Element>(
        &self,
        blocks: Range<usize>,
        rows: &QuantizedRows,
        to: Sums<'_, T>,
    ) {
        let Packed {
            columns,
            scales,
            zeros,
            gates,
            units,
        } = &*self.0;
        let of_block = gates * units;
        let range = blocks.start * of_block..blocks.end * of_block;
        let panels = range.start / WIDTH..range.end.div_ceil(WIDTH);
        let zeros = ZeroPoints {
            rows: &rows.zeros,
            columns: zeros,
        };
        let mut sums = AddScaled {
            to,
            of_rows: &rows.scales,
            of_columns: scales,
            gates: *gates,
            units: *units,
            range,
        };
        columns.multiply_panels(panels, &rows.packed, zeros, &mut sums);
    }
}

/// Adds sums of integers, times the scales of their rows and columns.
struct AddScaled<'a, T> {
    to: Sums<'a, T>,
    of_rows: &'a [f32],
    of_columns: &'a [f32],
    gates: usize,
    units: usize,
    /// The columns that are wanted.
    range: Range<usize>,
}

impl<T: Element> Sink for AddScaled<'_, T> {
    #[inline(always)]
    fn put(&mut self, row: usize, first: usize, sums: &[i32]) {
        let of_row = self.of_rows[row];
        for (block, sums) in sums.chunks_exact(self.units).enumerate() {
            let column = first + block * self.units;
            if !self.range.contains(&column) {
                continue;
            }
            let place = (column - self.range.start) / self.units;
            let start = place % self.gates * self.to.width + place / self.gates * self.units;
            let to = &mut self.to.elements[self.to.first + row * self.to.stride + start..];
            let scales = &self.of_columns[column..][..self.units];
            for (to, (sum, scale)) in to.iter_mut().zip(sums.iter().zip(scales)) {
                *to = *to + T::of(*sum as f32 * (of_row * scale));
            }
        }
    }
}

/// Rows of quantised numbers.
#[derive(Clone, Debug, Default)]
pub(crate) struct QuantizedRows {
    bytes: Vec<u8>,
    packed: PackedRows,
    scales: Vec<f32>,
    zeros: Vec<i32>,
}

impl QuantizedRows {
    /// Makes room for rows, so that they take no more memory.
    ///
    /// # Errors
    /// [`Error::OutOfMemory`].
    pub(crate) fn make_room(&mut self, rows: usize, columns: usize) -> Result<(), Error> {
        memory::clear(&mut self.bytes, &[rows, columns])?;
        memory::clear(&mut self.scales, &[rows])?;
        memory::clear(&mut self.zeros, &[rows])?;
        let reserved = self.packed.try_reserve([rows, columns]);
        reserved.map_err(|_| Error::OutOfMemory {
            bytes: rows.saturating_mul(columns),
        })
    }

    /// Forgets all rows.
    pub(crate) fn clear(&mut self) {
        self.bytes.clear();
        self.scales.clear();
        self.zeros.clear();
    }

    /// Quantises one more row.
    pub(crate) fn push<T>(&mut self, quantizing: Quantizing<T>, by: Quantization, row: &[T]) {
        (quantizing.quantize)(by, row, &mut self.bytes);
        self.scales.push(by.scale);
        self.zeros.push(by.zero_point.into());
    }

    /// Packs all rows, which have so many columns.
    pub(crate) fn pack(&mut self, columns: usize) {
        let shape = [self.scales.len(), columns];
        self.packed
            .set(Matrix::dense(Bytes::U8(&self.bytes), shape));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn products_are_those_of_the_numbers_that_integers_stand_for() {
        for (rows, units, inputs, gates) in [
            (1, 3, 2, &[0, 1, 2, 3][..]),
            (1, 40, 5, &[0, 1, 2, 3]),
            (7, 70, 9, &[2, 0, 1]),
            (2, 33, 130, &[1]),
            (3, 5, 0, &[0]),
        ] {
            let all_gates = 4;
            let columns = all_gates * units;
            let weights: Vec<i8> = (0..2 * inputs * columns)
                .map(|it| (it * 37 % 251) as i8)
                .collect();
            let scales: Vec<f32> = (0..2 * columns).map(|it| 1.0 + (it % 3) as f32).collect();
            let zeros: Vec<i8> = (0..2 * columns).map(|it| (it % 5) as i8 - 2).collect();
            let quantized = Quantized {
                weights: Bytes::I8(&weights),
                scales: &scales,
                zero_points: Bytes::I8(&zeros),
            };
            let sizes = [2, units, inputs, all_gates];
            let packed = BytePanels::pack(&quantized, 1, gates, sizes).unwrap();
            let mut quantized = QuantizedRows::default();
            quantized.make_room(rows, inputs).unwrap();
            quantized.clear();
            // Each row stands for integers times its own scale.
            for row in 0..rows {
                let by = Quantization {
                    scale: (1 + row) as f32,
                    zero_point: 2,
                };
                let numbers: Vec<f32> = (0..inputs).map(|it| number(row, it)).collect();
                quantized.push(Quantizing::FLOATS, by, &numbers);
            }
            quantized.pack(inputs);
            let of_block = block_units(units);
            let blocks = units.div_ceil(of_block);
            for part in [0..blocks, 0..1, blocks - 1..blocks] {
                let width = part.len() * of_block;
                let stride = (1 + gates.len()) * width;
                let mut to = vec![1.0_f32; rows * stride];
                let sums = Sums {
                    elements: &mut to,
                    first: width,
                    width,
                    stride,
                };
                packed.add_products(part.clone(), &quantized, sums);
                for (at, found) in to.iter().enumerate() {
                    let (row, slot) = (at / stride, at % stride / width);
                    let unit = part.start * of_block + at % width;
                    let expected = match slot.checked_sub(1).map(|slot| gates[slot] * units + unit)
                    {
                        Some(column) if unit < units => {
                            let terms = (0..inputs).map(|input| {
                                let weight = weights[(inputs + input) * columns + column];
                                let weight = f32::from(weight) - f32::from(zeros[columns + column]);
                                number(row, input) * weight * scales[columns + column]
                            });
                            terms.sum()
                        }
                        _ => 0.0,
                    };
                    // Sums of small whole numbers are exact.
                    assert_eq!(
                        *found,
                        1.0 + expected,
                        "{rows} {units} {inputs} {part:?} {at}"
                    );
                }
            }
        }
    }

    fn number(row: usize, input: usize) -> f32 {
        ((row + input) % 40) as f32 * (1 + row) as f32
    }
}
