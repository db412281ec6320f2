//! The rows of the matrix on the left.

use std::collections::TryReserveError;

use crate::kernel::{Kernel, Operands, QUAD};
use crate::matrix::{Form, Matrix};

/// The rows of a matrix, in tiles of quads: [tiles, quads, rows of the tile, 4].
#[derive(Clone, Debug)]
pub struct PackedRows {
    pub(crate) quads: Vec<u8>,
    /// The sum of each row, in the form of the kernel.
    pub(crate) sums: Vec<i32>,
    pub(crate) shape: [usize; 2],
    pub(crate) form: Form,
    /// A row before it is in quads.
    row: Vec<u8>,
}

impl Default for PackedRows {
    fn default() -> Self {
        Self {
            quads: vec![],
            sums: vec![],
            shape: [0, 0],
            form: Form::Same,
            row: vec![],
        }
    }
}

impl PackedRows {
    /// Packs a matrix.
    #[must_use]
    pub fn pack(matrix: Matrix<'_>) -> Self {
        let mut packed = Self::default();
        packed.set(matrix);
        packed
    }

    /// Makes room for a matrix of this shape, so that packing it takes no more memory.
    ///
    /// # Errors
    /// If there is not so much memory.
    pub fn try_reserve(&mut self, [rows, inner]: [usize; 2]) -> Result<(), TryReserveError> {
        let of_row = inner.saturating_add(QUAD);
        self.quads.clear();
        self.quads.try_reserve(rows.saturating_mul(of_row))?;
        self.row.clear();
        self.row.try_reserve(of_row)?;
        self.sums.clear();
        self.sums.try_reserve(rows)
    }

    /// Packs a matrix in the place of this one.
    pub fn set(&mut self, matrix: Matrix<'_>) {
        let is_unsigned = Kernel::fastest().has_unsigned_rows();
        self.shape = matrix.shape;
        self.form = matrix.elements.form(is_unsigned);
        let flipped = self.form.flipped();
        let to_unsigned = if is_unsigned { 0 } else { 1 << 7 };
        let [rows, inner] = matrix.shape;
        let of_row = inner.next_multiple_of(QUAD);
        self.sums.clear();
        self.quads.resize(rows * of_row, 0);
        self.row.clear();
        self.row.resize(of_row, 0);
        for (first, count) in Operands::tiles(rows) {
            let tile = &mut self.quads[first * of_row..][..count * of_row];
            for at in 0..count {
                let row = &mut self.row[..inner];
                matrix.copy_row(first + at, 0, row);
                row.iter_mut().for_each(|it| *it ^= flipped ^ to_unsigned);
                self.sums
                    .push(sum(row) - i32::from(to_unsigned) * inner as i32);
                row.iter_mut().for_each(|it| *it ^= to_unsigned);
                let to = tile.chunks_exact_mut(count * QUAD);
                for (to, from) in to.zip(self.row.chunks_exact(QUAD)) {
                    to[at * QUAD..][..QUAD].copy_from_slice(from);
                }
            }
        }
    }

    /// The numbers of rows and columns.
    #[must_use]
    pub fn shape(&self) -> [usize; 2] {
        self.shape
    }
}

/// Sums unsigned numbers, in 16 bits as long as those hold them.
fn sum(row: &[u8]) -> i32 {
    const LANES: usize = 16;
    let mut sum = 0;
    for part in row.chunks(LANES << 8) {
        let mut lanes = [0_u16; LANES];
        let chunks = part.chunks_exact(LANES);
        let rest = chunks.remainder().iter().map(|it| i32::from(*it));
        for chunk in chunks {
            for (lane, it) in lanes.iter_mut().zip(chunk) {
                *lane += u16::from(*it);
            }
        }
        sum += lanes
            .iter()
            .map(|it| i32::from(*it))
            .chain(rest)
            .sum::<i32>();
    }
    sum
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::matrix::Bytes;

    #[test]
    fn memory_of_other_rows_is_used_again() {
        let mut packed = PackedRows::pack(Matrix::dense(Bytes::U8(&[7; 35]), [5, 7]));
        packed.set(Matrix::dense(Bytes::U8(&[1, 2, 3, 4, 5]), [1, 5]));
        assert_eq!(packed.shape(), [1, 5]);
        assert_eq!(packed.quads.len(), 8);
        assert_eq!(packed.quads[5..], [0; 3]);
        assert_eq!(packed.sums.len(), 1);
    }
}
