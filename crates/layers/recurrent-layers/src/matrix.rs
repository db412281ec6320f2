//! Products with a matrix, for the steps of cells that are no LSTM, GRU or RNN.

use std::ops::Range;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

use crate::element::Element;
use crate::error::{Error, check};
use crate::memory;
use crate::panels::{Panels, block_units};
use crate::product::{Rows, Sums};
use crate::threads::Threads;

/// The multiplications that are worth a thread: some tens of microseconds.
const OF_THREAD: usize = 1 << 19;

/// A matrix that is packed for products with few rows at a time. A clone shares its memory.
///
/// ```
/// # use recurrent_layers::{PackedMatrix, Serial};
/// let matrix = PackedMatrix::pack(&[1.0_f32, 2.0, 3.0, 4.0, 5.0, 6.0], [2, 3])?;
/// let mut products = [0.0; 6];
/// matrix.multiply(&[1.0, 0.0, 1.0, 1.0], &mut products, &Serial)?;
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
    /// a matrix of [inner, columns]. Threads share the columns of a large one, with the same results.
    ///
    /// # Errors
    /// If a slice has another size, nothing is written; or memory is lacking.
    pub fn multiply(&self, rows: &[T], to: &mut [T], threads: &dyn Threads) -> Result<(), Error> {
        let [inner, columns] = self.shape;
        let count = to.len().checked_div(columns).unwrap_or_default();
        check("the products", to.len(), &[count, columns])?;
        check("the rows", rows.len(), &[count, inner])?;
        let rows = Rows {
            elements: rows,
            count,
            stride: inner,
        };
        let of_block = block_units(columns);
        let worth = to.len().saturating_mul(inner) / OF_THREAD;
        let shares = match worth.min(columns / of_block) {
            most @ 2.. => most.min(threads.count()).max(1),
            _ => 1,
        };
        if shares > 1 {
            return self.multiply_shares(rows, to, (shares, threads));
        }
        to.fill(T::zero());
        // Vectors of the last block may reach beyond the columns.
        let whole = columns / of_block;
        let sums = Sums {
            elements: &mut *to,
            first: 0,
            width: columns,
            stride: columns,
        };
        self.panels.add_products(0..whole, rows, sums);
        if columns % of_block > 0 {
            let last = self.products(whole..whole + 1, rows)?;
            self.put(&last, whole, to);
        }
        Ok(())
    }

    /// Computes parts of the columns beside each other.
    fn multiply_shares(
        &self,
        rows: Rows<'_, T>,
        to: &mut [T],
        (shares, threads): (usize, &dyn Threads),
    ) -> Result<(), Error> {
        let blocks = self.shape[1].div_ceil(block_units(self.shape[1]));
        let first = |share: usize| share * blocks / shares;
        let made: Vec<Mutex<Result<Vec<T>, Error>>> =
            (0..shares).map(|_| Mutex::new(Ok(vec![]))).collect();
        let next = AtomicUsize::new(0);
        threads.run(shares, &|| {
            while let share = next.fetch_add(1, Ordering::Relaxed)
                && let Some(made) = made.get(share)
            {
                let products = self.products(first(share)..first(share + 1), rows);
                *made.lock().unwrap_or_else(PoisonError::into_inner) = products;
            }
        });
        for (share, made) in made.into_iter().enumerate() {
            let made = made.into_inner().unwrap_or_else(PoisonError::into_inner)?;
            self.put(&made, first(share), to);
        }
        Ok(())
    }

    /// The products of some blocks of columns: [rows, columns of whole blocks].
    fn products(&self, blocks: Range<usize>, rows: Rows<'_, T>) -> Result<Vec<T>, Error> {
        let width = blocks.len() * block_units(self.shape[1]);
        let mut made = memory::zeros(&[rows.count, width])?;
        let sums = Sums {
            elements: &mut made,
            first: 0,
            width,
            stride: width,
        };
        self.panels.add_products(blocks, rows, sums);
        Ok(made)
    }

    /// Copies the products of blocks from this one on.
    fn put(&self, products: &[T], block: usize, to: &mut [T]) {
        let [_, columns] = self.shape;
        let first = block * block_units(columns);
        let rows = to.chunks_exact_mut(columns);
        let width = products.len() / rows.len().max(1);
        let own = width.min(columns - first);
        for (to, from) in std::iter::zip(rows, products.chunks_exact(width.max(1))) {
            to[first..first + own].copy_from_slice(&from[..own]);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::threads::Serial;

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
            packed.multiply(given, &mut products, &Serial).unwrap();
            for (at, product) in products.iter().enumerate() {
                let (row, column) = (at / columns, at % columns);
                let terms =
                    (0..inner).map(|it| rows[row * inner + it] * matrix[it * columns + column]);
                assert_eq!(*product, terms.sum::<f32>());
            }
        }
    }

    /// Calls work for each thread, one after another.
    struct Many(AtomicUsize);

    impl Threads for Many {
        fn count(&self) -> usize {
            5
        }

        fn run(&self, workers: usize, work: &(dyn Fn() + Sync)) {
            self.0.fetch_max(workers, Ordering::Relaxed);
            (0..workers).for_each(|_| work());
        }
    }

    #[test]
    fn threads_change_no_bit() {
        for [count, inner, columns, workers] in [
            [1, 600, 3001, 3],
            [3, 1000, 700, 4],
            [9, 900, 513, 5],
            [2, 512, 600, 0],
        ] {
            let numbers = |len: usize| (0..len).map(|it| (it as f32).sin()).collect::<Vec<f32>>();
            let (matrix, rows) = (numbers(inner * columns), numbers(count * inner));
            let packed = PackedMatrix::pack(&matrix, [inner, columns]).unwrap();
            let mut products = [0, 1].map(|_| vec![f32::NAN; count * columns]);
            let many = Many(AtomicUsize::new(0));
            packed.multiply(&rows, &mut products[0], &Serial).unwrap();
            packed.multiply(&rows, &mut products[1], &many).unwrap();
            assert_eq!(products[0], products[1], "{count} {inner} {columns}");
            assert_eq!(many.0.into_inner(), workers, "{count} {inner} {columns}");
        }
    }

    #[test]
    fn other_sizes_are_errors() {
        assert!(PackedMatrix::pack(&[1.0_f32; 5], [2, 3]).is_err());
        let packed = PackedMatrix::pack(&[1.0_f32; 6], [2, 3]).unwrap();
        for (rows, products) in [(2, 4), (3, 3), (2, 6)] {
            let error = packed.multiply(&vec![1.0; rows], &mut vec![0.0; products], &Serial);
            assert!(error.is_err(), "{rows} {products}");
        }
    }
}
