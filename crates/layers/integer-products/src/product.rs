//! Sums of products: their zero points, and what takes them.

use crate::kernel::{Sums, Tiles, WIDTH};
use crate::matrix::Form;
use crate::rows::PackedRows;

/// The integers that stand for 0: one of a matrix, or one of each row or column.
#[derive(Clone, Copy, Debug)]
pub struct ZeroPoints<'a> {
    /// Those of the rows on the left.
    pub rows: &'a [i32],
    /// Those of the columns on the right.
    pub columns: &'a [i32],
}

impl ZeroPoints<'_> {
    /// All are 0.
    pub const NONE: Self = Self {
        rows: &[0],
        columns: &[0],
    };
}

/// Takes sums of products, part of a row after part of a row.
pub trait Sink {
    /// Takes the sums of a row for some columns from the first one on, at most [`WIDTH`].
    fn put(&mut self, row: usize, first: usize, sums: &[i32]);
}

/// Takes sums for a matrix of one row, or of rows that lie one after another.
impl Sink for Dense<'_> {
    #[inline(always)]
    fn put(&mut self, row: usize, first: usize, sums: &[i32]) {
        self.elements[row * self.columns + first..][..sums.len()].copy_from_slice(sums);
    }
}

/// Sums whose rows lie one after another.
#[derive(Debug)]
pub struct Dense<'a> {
    /// [rows, columns].
    pub elements: &'a mut [i32],
    /// The number of columns.
    pub columns: usize,
}

/// Corrects sums by zero points, before a sink takes them:
///
/// ```text
/// sum of (a - za) (b - zb) = sum of a b - zb sum of a - za (sum of b - inner zb)
/// ```
pub(crate) struct Correct<'a, S: ?Sized> {
    of_rows: &'a [i32],
    of_columns: &'a [i32],
    inner: i32,
    forms: [Form; 2],
    zeros: ZeroPoints<'a>,
    first_panel: usize,
    /// The zero points of a panel's columns, if any is not 0, and their sums less these.
    columns: Option<[i32; WIDTH]>,
    rest: [i32; WIDTH],
    to: &'a mut S,
}

/// The one of all, or that at a place.
fn at(all: &[i32], place: usize) -> i32 {
    if all.len() == 1 { all[0] } else { all[place] }
}

impl<'a, S: Sink + ?Sized> Correct<'a, S> {
    pub(crate) fn new(
        rows: &'a PackedRows,
        of_columns: &'a [i32],
        inner: usize,
        form: Form,
        zeros: ZeroPoints<'a>,
        first_panel: usize,
        to: &'a mut S,
    ) -> Self {
        for (zeros, count) in [
            (zeros.rows, rows.sums.len()),
            (zeros.columns, of_columns.len()),
        ] {
            let is_right = zeros.len() == 1 || zeros.len() == count;
            assert!(
                is_right,
                "{} zero points, expected 1 or {count}",
                zeros.len()
            );
        }
        Self {
            of_rows: &rows.sums,
            of_columns,
            inner: inner as i32,
            forms: [rows.form, form],
            zeros,
            first_panel,
            columns: None,
            rest: [0; WIDTH],
            to,
        }
    }

    /// Prepares for the columns of a panel.
    #[inline(always)]
    fn start(&mut self, first: usize, count: usize) {
        self.rest[..count].copy_from_slice(&self.of_columns[first..][..count]);
        let mut zeros = [0; WIDTH];
        match self.zeros.columns {
            &[zero] => zeros.fill(self.forms[1].zero(zero)),
            all => {
                for (to, zero) in zeros.iter_mut().zip(&all[first..][..count]) {
                    *to = self.forms[1].zero(*zero);
                }
            }
        }
        let is_zero = zeros.iter().fold(0, |all, it| all | it) == 0;
        self.columns = (!is_zero).then_some(zeros);
        if !is_zero {
            for (rest, zero) in self.rest.iter_mut().zip(zeros) {
                *rest = rest.wrapping_sub(self.inner.wrapping_mul(zero));
            }
        }
    }
}

impl<S: Sink + ?Sized> Tiles for Correct<'_, S> {
    #[inline(always)]
    fn take(&mut self, panel: usize, first: usize, rows: usize, sums: &mut Sums) {
        let column = (self.first_panel + panel) * WIDTH;
        let count = WIDTH.min(self.of_columns.len() - column);
        if first == 0 {
            self.start(column, count);
        }
        for (row, sums) in (first..).zip(&mut sums[..rows]) {
            let zero = self.forms[0].zero(at(self.zeros.rows, row));
            if zero != 0 {
                for (sum, rest) in sums.iter_mut().zip(&self.rest) {
                    *sum = sum.wrapping_sub(zero.wrapping_mul(*rest));
                }
            }
            if let Some(zeros) = &self.columns {
                for (sum, zero) in sums.iter_mut().zip(zeros) {
                    *sum = sum.wrapping_sub(self.of_rows[row].wrapping_mul(*zero));
                }
            }
            self.to.put(row, column, &sums[..count]);
        }
    }
}
