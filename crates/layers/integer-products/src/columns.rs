//! The columns of the matrix on the right.

use std::collections::TryReserveError;
use std::ops::Range;

use crate::kernel::{Kernel, LANES, Operands, QUAD, Sums, Tiles, WIDTH, interleave};
use crate::matrix::{Bytes, Form, Matrix};
use crate::product::{Correct, Sink, ZeroPoints};
use crate::rows::PackedRows;

/// The bytes of a cache line, which no vector of a panel may cross.
const LINE: usize = 64;

/// The columns of a matrix, in panels of quads: [panels, quads, columns of the panel, 4]. Those of the last
/// panel that there are not are 0.
#[derive(Clone, Debug)]
pub struct PackedColumns {
    quads: Vec<u8>,
    /// The place of the first quad, at a cache line.
    start: usize,
    /// The sum of each column, in the form of the kernel.
    sums: Vec<i32>,
    shape: [usize; 2],
    form: Form,
}

impl Default for PackedColumns {
    fn default() -> Self {
        Self {
            quads: vec![],
            start: 0,
            sums: vec![],
            shape: [0, 0],
            form: Form::Same,
        }
    }
}

impl PackedColumns {
    /// Packs a matrix.
    #[must_use]
    pub fn pack(matrix: Matrix<'_>) -> Self {
        let mut packed = Self::default();
        packed.set(matrix);
        packed
    }

    /// Makes room for a matrix of this shape, so that packing it takes no more memory but for one column.
    ///
    /// # Errors
    /// If there is not so much memory.
    pub fn try_reserve(&mut self, [inner, columns]: [usize; 2]) -> Result<(), TryReserveError> {
        let count = columns.div_ceil(WIDTH).saturating_mul(WIDTH);
        let len = inner
            .div_ceil(QUAD)
            .saturating_mul(QUAD)
            .saturating_mul(count);
        self.quads.clear();
        self.quads.try_reserve(len.saturating_add(LINE))?;
        self.sums.clear();
        self.sums.try_reserve(columns)
    }

    /// Packs a matrix in the place of this one.
    pub fn set(&mut self, matrix: Matrix<'_>) {
        self.set_by(matrix.elements, matrix.shape, |row, columns, to| {
            matrix.copy_row(row, columns.start, to);
        });
    }

    /// Packs a matrix of the type of some bytes, of which `copy` copies a part of a row.
    pub fn set_by(
        &mut self,
        bytes: Bytes<'_>,
        shape: [usize; 2],
        mut copy: impl FnMut(usize, Range<usize>, &mut [u8]),
    ) {
        let [inner, columns] = shape;
        let (flipped, panels) = self.room(bytes, shape);
        for (index, panel) in panels.enumerate() {
            let range = index * WIDTH..columns.min((index + 1) * WIDTH);
            for (quad, to) in panel.chunks_exact_mut(QUAD * WIDTH).enumerate() {
                let mut rows = [[flipped; WIDTH]; QUAD];
                for (row, to) in (quad * QUAD..inner).zip(&mut rows) {
                    copy(row, range.clone(), &mut to[..range.len()]);
                }
                let (parts, _) = to.as_chunks_mut();
                for (part, to) in parts.iter_mut().enumerate() {
                    interleave(
                        rows.each_ref().map(|row| &row.as_chunks().0[part]),
                        flipped,
                        to,
                    );
                }
            }
        }
        self.sum();
    }

    /// Packs a matrix of at most [`WIDTH`] columns, which lie in runs: the start of each, and its number of
    /// columns. A row has its elements from its place in `rows` on.
    ///
    /// # Panics
    /// If there are more columns, or elements that `bytes` has not.
    pub fn set_panel(&mut self, bytes: Bytes<'_>, rows: &[usize], runs: &[(usize, usize)]) {
        let columns = runs.iter().map(|(_, count)| count).sum();
        assert!(
            columns <= WIDTH,
            "{columns} columns, expected at most {WIDTH}"
        );
        let (flipped, panels) = self.room(bytes, [rows.len(), columns]);
        let (all, last) = (bytes.raw(), rows.iter().max().copied().unwrap_or_default());
        let none = [flipped; LANES];
        let quads = panels.flat_map(|panel| panel.chunks_exact_mut(QUAD * WIDTH));
        for (rows, mut to) in rows.chunks(QUAD).zip(quads) {
            let place = |row| rows.get(row).copied();
            let places: [Option<usize>; QUAD] = std::array::from_fn(place);
            for &(start, count) in runs {
                for at in (0..count).step_by(LANES) {
                    let (from, to) = (start + at, &mut to[QUAD * at..]);
                    if last + from + LANES > all.len() {
                        let quads = to.chunks_exact_mut(QUAD).take(count - at);
                        for (at, to) in quads.enumerate() {
                            let number = |row: usize| all[row + from + at] ^ flipped;
                            to.copy_from_slice(&places.map(|row| row.map_or(0, number)));
                        }
                        continue;
                    }
                    let some = |row: usize| all[row + from..].first_chunk().unwrap_or(&none);
                    let rows = places.map(|row| row.map_or(&none, some));
                    // What lies behind the run gives way to the next one.
                    match to.first_chunk_mut() {
                        Some(to) => interleave(rows, flipped, to),
                        None => {
                            let mut quads = [0; QUAD * LANES];
                            interleave(rows, flipped, &mut quads);
                            to.copy_from_slice(&quads[..to.len()]);
                        }
                    }
                }
                to = &mut to[QUAD * count..];
            }
            to.fill(0);
        }
        self.sum();
    }

    /// Makes room for a matrix; returns the bits of its elements that differ, and the panels.
    fn room(
        &mut self,
        bytes: Bytes<'_>,
        shape: [usize; 2],
    ) -> (u8, impl Iterator<Item = &mut [u8]>) {
        self.shape = shape;
        self.form = bytes.form(false);
        let of_panel = self.of_column() * WIDTH;
        let len = self.panels() * of_panel;
        self.quads.resize(len + LINE, 0);
        // `align_offset` may say that it cannot tell; vectors are loaded from any address.
        self.start = self.quads.as_ptr().align_offset(LINE).min(LINE);
        let panels = &mut self.quads[self.start..][..len];
        let flipped = self.form.flipped();
        (flipped, panels.chunks_exact_mut(of_panel.max(1)))
    }

    /// Sums the columns: their products with a row of ones.
    fn sum(&mut self) {
        struct Keep<'a>(&'a mut [i32]);
        impl Tiles for Keep<'_> {
            fn take(&mut self, panel: usize, _: usize, _: usize, sums: &mut Sums) {
                let to = &mut self.0[panel * WIDTH..];
                let count = to.len().min(WIDTH);
                to[..count].copy_from_slice(&sums[0][..count]);
            }
        }
        let mut sums = std::mem::take(&mut self.sums);
        sums.clear();
        sums.resize(self.shape[1], 0);
        let ones = vec![1; self.of_column()];
        Kernel::fastest().multiply(
            self.operands(&ones, 1, 0..self.panels()),
            &mut Keep(&mut sums),
        );
        self.sums = sums;
    }

    /// The bytes of a column.
    fn of_column(&self) -> usize {
        self.shape[0].next_multiple_of(QUAD)
    }

    /// The numbers of rows and columns.
    #[must_use]
    pub fn shape(&self) -> [usize; 2] {
        self.shape
    }

    /// The number of panels, of [`WIDTH`] columns each, which threads can share.
    #[must_use]
    pub fn panels(&self) -> usize {
        self.shape[1].div_ceil(WIDTH)
    }

    fn operands<'a>(&'a self, left: &'a [u8], rows: usize, panels: Range<usize>) -> Operands<'a> {
        let of_panel = self.of_column() * WIDTH;
        Operands {
            left,
            rows,
            panels: &self.quads[self.start..][panels.start * of_panel..panels.end * of_panel],
            quads: self.shape[0].div_ceil(QUAD),
        }
    }

    /// Multiplies rows with all columns.
    ///
    /// # Panics
    /// If a row has another number of elements than a column, or there are zero points of other numbers than
    /// 1 and those of rows and columns.
    pub fn multiply(
        &self,
        rows: &PackedRows,
        zeros: ZeroPoints<'_>,
        to: &mut (impl Sink + ?Sized),
    ) {
        self.multiply_panels(0..self.panels(), rows, zeros, to);
    }

    /// Multiplies rows with the columns of some panels.
    ///
    /// # Panics
    /// As [`multiply`](Self::multiply).
    pub fn multiply_panels(
        &self,
        panels: Range<usize>,
        rows: &PackedRows,
        zeros: ZeroPoints<'_>,
        to: &mut (impl Sink + ?Sized),
    ) {
        self.multiply_by(Kernel::fastest(), panels, rows, zeros, to);
    }

    pub(crate) fn multiply_by(
        &self,
        kernel: Kernel,
        panels: Range<usize>,
        rows: &PackedRows,
        zeros: ZeroPoints<'_>,
        to: &mut (impl Sink + ?Sized),
    ) {
        let [inner, columns] = self.shape;
        assert_eq!(rows.shape[1], inner, "the elements of a row and a column");
        if inner == 0 {
            // There are no panels to walk.
            for row in 0..rows.shape[0] {
                for start in (panels.start * WIDTH..columns.min(panels.end * WIDTH)).step_by(WIDTH)
                {
                    to.put(row, start, &[0; WIDTH][..WIDTH.min(columns - start)]);
                }
            }
            return;
        }
        let mut tiles = Correct::new(rows, &self.sums, inner, self.form, zeros, panels.start, to);
        kernel.multiply(
            self.operands(&rows.quads, rows.shape[0], panels),
            &mut tiles,
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::product::Dense;

    /// Numbers of a type, its least and most among them.
    fn numbers(len: usize, seed: usize) -> Vec<u8> {
        let number = |it: usize| match (it * 31 + seed) % 7 {
            0 => 0,
            1 => u8::MAX,
            2 => 1 << 7,
            3 => (1 << 7) - 1,
            _ => (it * 89 + seed * 13) as u8,
        };
        (0..len).map(number).collect()
    }

    fn typed(raw: &[u8], is_signed: bool) -> Bytes<'_> {
        match is_signed {
            true => Bytes::I8(bytemuck::cast_slice(raw)),
            false => Bytes::U8(raw),
        }
    }

    fn check(
        shape: [usize; 3],
        is_signed: [bool; 2],
        are_many: [bool; 2],
        is_transposed: [bool; 2],
    ) {
        let [rows, inner, columns] = shape;
        let (a, b) = (numbers(rows * inner, 1), numbers(inner * columns, 2));
        let (a, b) = (typed(&a, is_signed[0]), typed(&b, is_signed[1]));
        let matrix = |elements, [rows, columns]: [usize; 2], is_transposed| match is_transposed {
            true => Matrix::dense(elements, [columns, rows]).transposed(),
            false => Matrix::dense(elements, [rows, columns]),
        };
        let a = matrix(a, [rows, inner], is_transposed[0]);
        let b = matrix(b, [inner, columns], is_transposed[1]);
        let zeros = |count: usize, is_signed: bool, are_many: bool| -> Vec<i32> {
            let count = if are_many { count } else { 1 };
            let raw = numbers(count, 5);
            (0..count)
                .map(|it| typed(&raw, is_signed).get(it))
                .collect()
        };
        let of_rows = zeros(rows, is_signed[0], are_many[0]);
        let of_columns = zeros(columns, is_signed[1], are_many[1]);
        let element = |matrix: &Matrix<'_>, row: usize, column: usize| {
            let [of_row, of_column] = matrix.strides;
            matrix.elements.get(row * of_row + column * of_column)
        };
        let zero = |zeros: &[i32], at: usize| zeros[at % zeros.len()];
        let mut expected = vec![];
        for row in 0..rows {
            for column in 0..columns {
                let [za, zb] = [zero(&of_rows, row), zero(&of_columns, column)];
                let terms = (0..inner)
                    .map(|it| (element(&a, row, it) - za) * (element(&b, it, column) - zb));
                expected.push(terms.sum::<i32>());
            }
        }
        let (packed_rows, packed) = (PackedRows::pack(a), PackedColumns::pack(b));
        let zeros = ZeroPoints {
            rows: &of_rows,
            columns: &of_columns,
        };
        for kernel in Kernel::available() {
            let mut elements = vec![i32::MIN; rows * columns];
            let middle = packed.panels() / 2;
            for panels in [0..middle, middle..packed.panels()] {
                let mut to = Dense {
                    elements: &mut elements,
                    columns,
                };
                packed.multiply_by(kernel, panels, &packed_rows, zeros, &mut to);
            }
            assert_eq!(
                elements, expected,
                "{kernel:?} {shape:?} {is_signed:?} {are_many:?}"
            );
        }
    }

    #[test]
    fn products_of_all_types_are_exact() {
        let both = [false, true];
        for shape in [
            [1, 1, 1],
            [3, 5, 70],
            [13, 33, 64],
            [2, 130, 129],
            [7, 4, 3],
        ] {
            for a in both {
                for b in both {
                    for many in [[false, false], [true, false], [false, true], [true, true]] {
                        check(shape, [a, b], many, [a, b]);
                        check(shape, [a, b], many, [!a, b]);
                    }
                }
            }
        }
    }

    #[test]
    fn a_panel_of_runs_is_that_of_its_columns() {
        let raw = numbers(324, 3);
        let rows = [0, 41, 7, 100, 236, 90];
        for runs in [
            &[(0, 64)][..],
            &[(3, 28), (60, 28), (1, 8)],
            &[(5, 1), (0, 17), (63, 1)],
            &[],
        ] {
            for is_signed in [false, true] {
                let bytes = typed(&raw, is_signed);
                let places = runs.iter().flat_map(|(start, count)| *start..start + count);
                let places: Vec<usize> = places.collect();
                let elements = rows
                    .iter()
                    .flat_map(|row| places.iter().map(move |at| row + at));
                let elements: Vec<u8> = elements.map(|at| raw[at]).collect();
                let shape = [rows.len(), places.len()];
                let expected =
                    PackedColumns::pack(Matrix::dense(typed(&elements, is_signed), shape));
                // Another matrix was there.
                let mut found = PackedColumns::pack(Matrix::dense(bytes, [4, 70]));
                found.set_panel(bytes, &rows, runs);
                let quads = |it: &PackedColumns| {
                    let len = it.panels() * it.of_column() * WIDTH;
                    it.quads[it.start..][..len].to_vec()
                };
                assert_eq!(quads(&found), quads(&expected), "{runs:?}");
                assert_eq!(
                    (found.sums, found.shape),
                    (expected.sums, shape),
                    "{runs:?}"
                );
            }
        }
    }

    #[test]
    fn sums_of_the_largest_products_do_not_saturate() {
        for b in [i8::MIN, i8::MAX] {
            let (a, b_all) = (vec![u8::MAX; 8], vec![b; 8]);
            let rows = PackedRows::pack(Matrix::dense(Bytes::U8(&a), [1, 8]));
            let columns = PackedColumns::pack(Matrix::dense(Bytes::I8(&b_all), [8, 1]));
            for kernel in Kernel::available() {
                let mut elements = [0];
                let mut to = Dense {
                    elements: &mut elements,
                    columns: 1,
                };
                columns.multiply_by(kernel, 0..1, &rows, ZeroPoints::NONE, &mut to);
                assert_eq!(elements, [8 * 255 * i32::from(b)], "{kernel:?}");
            }
        }
    }

    #[test]
    fn tiles_have_any_number_of_rows() {
        for rows in 0..20 {
            check([rows, 9, 65], [false, true], [true, true], [false, false]);
        }
    }

    #[test]
    fn sizes_of_zero_have_sums_of_zero() {
        for shape in [[0, 3, 4], [3, 0, 70], [3, 4, 0]] {
            check(shape, [true, false], [false, false], [false, false]);
        }
    }
}
