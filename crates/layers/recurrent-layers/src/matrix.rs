//! Products with a matrix, for the steps of cells that are no LSTM, GRU or RNN.

use crate::element::Element;
use crate::error::{Error, check};
use crate::memory;
use crate::panels::{Panels, block_units};
use crate::product::{Rows, Sums};

/// A matrix that is packed for products with few rows at a time. A clone shares its memory.
///
/// ```
/// # use recurrent_layers::PackedMatrix;
/// let matrix = PackedMatrix::pack(&[1.0_f32, 2.0, 3.0, 4.0, 5.0, 6.0], [2, 3])?;
/// let mut products = [0.0; 6];
/// matrix.multiply(&[1.0, 0.0, 1.0, 1.0], &mut products)?;
/// assert_eq!(products, [1.0, 2.0, 3.0, 5.0, 7.0, 9.0]);
/// # Ok::<(), recurrent_layers::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct PackedMatrix<T> {
    panels: Panels<T>,
    /// The numbers of a row to multiply, and of its products.
    shape: [usize; 2],
}

impl<T: Element> PackedMatrix<T> {
    /// Packs a matrix of this shape, whose rows lie one after another.
    ///
    /// # Errors
    /// If the slice has another size, or memory is lacking.
    pub fn pack(matrix: &[T], shape: [usize; 2]) -> Result<Self, Error> {
        check("the matrix", matrix.len(), &shape)?;
        let [inner, columns] = shape;
        let column = |column: usize| (0..inner).map(move |row| matrix[row * columns + column]);
        let by_columns = memory::collect(matrix.len(), (0..columns).flat_map(column))?;
        Ok(Self {
            panels: Panels::pack(&by_columns, &[0], columns, inner)?,
            shape,
        })
    }

    /// Writes the products of rows with the matrix: `rows` is [count, inner], `to` [count, columns] for
    /// a matrix of [inner, columns].
    ///
    /// # Errors
    /// If a slice has another size, nothing is written; or memory is lacking.
    pub fn multiply(&self, rows: &[T], to: &mut [T]) -> Result<(), Error> {
        let [inner, columns] = self.shape;
        let count = to.len().checked_div(columns).unwrap_or_default();
        check("the products", to.len(), &[count, columns])?;
        check("the rows", rows.len(), &[count, inner])?;
        to.fill(T::zero());
        let rows = Rows {
            elements: rows,
            count,
            stride: inner,
        };
        // Vectors of the last block may reach beyond the columns.
        let of_block = block_units(columns);
        let (whole, rest) = (columns / of_block, columns % of_block);
        let sums = Sums {
            elements: &mut *to,
            first: 0,
            width: columns,
            stride: columns,
        };
        self.panels.add_products(0..whole, rows, sums);
        if rest > 0 {
            let mut last = memory::zeros(&[count, of_block])?;
            let sums = Sums {
                elements: &mut last,
                first: 0,
                width: of_block,
                stride: of_block,
            };
            self.panels.add_products(whole..whole + 1, rows, sums);
            let last = last.chunks_exact(of_block);
            for (to, last) in std::iter::zip(to.chunks_exact_mut(columns), last) {
                to[whole * of_block..].copy_from_slice(&last[..rest]);
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn products_are_those_of_rows_and_columns() {
        for [count, inner, columns] in [
            [1, 1, 1],
            [3, 5, 16],
            [2, 40, 33],
            [7, 3, 64],
            [1, 300, 100],
            [4, 0, 5],
            [0, 2, 9],
            [2, 3, 0],
        ] {
            let numbers = |len: usize| {
                (0..len)
                    .map(|it| (it * 7 % 11) as f32 - 5.0)
                    .collect::<Vec<f32>>()
            };
            let (matrix, rows) = (numbers(inner * columns), numbers(count * inner));
            let packed = PackedMatrix::pack(&matrix, [inner, columns]).unwrap();
            let mut products = vec![f32::NAN; count * columns];
            let given = if columns == 0 { &[][..] } else { &rows };
            packed.multiply(given, &mut products).unwrap();
            for (at, product) in products.iter().enumerate() {
                let (row, column) = (at / columns, at % columns);
                let terms =
                    (0..inner).map(|it| rows[row * inner + it] * matrix[it * columns + column]);
                assert_eq!(*product, terms.sum::<f32>());
            }
        }
    }

    #[test]
    fn other_sizes_are_errors() {
        assert!(PackedMatrix::pack(&[1.0_f32; 5], [2, 3]).is_err());
        let packed = PackedMatrix::pack(&[1.0_f32; 6], [2, 3]).unwrap();
        for (rows, products) in [(2, 4), (3, 3), (2, 6)] {
            let error = packed.multiply(&vec![1.0; rows], &mut vec![0.0; products]);
            assert!(error.is_err(), "{rows} {products}");
        }
    }
}
