//! Matrices in constants.

use std::ops::Range;
use std::rc::Rc;

use crate::constant::Floats;

/// A matrix in a constant: all of it, or some rows and columns.
#[derive(Clone, Debug)]
pub(crate) struct Matrix {
    constant: Rc<Floats>,
    first: usize,
    rows: usize,
    columns: usize,
    strides: [usize; 2],
    sign: f32,
}

/// Matrices are equal if all of their elements are, bit for bit.
impl PartialEq for Matrix {
    fn eq(&self, other: &Self) -> bool {
        let place = |constant: &Self| (constant.first, constant.strides, constant.sign.to_bits());
        let is_same = Rc::ptr_eq(&self.constant, &other.constant) && place(self) == place(other);
        (self.rows, self.columns) == (other.rows, other.columns)
            && (is_same || self.bits().eq(other.bits()))
    }
}

impl Matrix {
    /// A constant of two axes, those of rows and of columns.
    pub(super) fn new(constant: Rc<Floats>) -> Option<Self> {
        let &[rows, columns] = constant.sizes.as_slice() else {
            return None;
        };
        let is_whole = rows.checked_mul(columns) == Some(constant.elements.len());
        is_whole.then_some(Self {
            constant,
            first: 0,
            rows,
            columns,
            strides: [columns, 1],
            sign: 1.0,
        })
    }

    /// The number of rows.
    pub(crate) fn rows(&self) -> usize {
        self.rows
    }

    /// The number of columns.
    pub(crate) fn columns(&self) -> usize {
        self.columns
    }

    /// The matrix with rows and columns exchanged.
    pub(crate) fn transposed(&self) -> Self {
        let [of_rows, of_columns] = self.strides;
        Self {
            rows: self.columns,
            columns: self.rows,
            strides: [of_columns, of_rows],
            ..self.clone()
        }
    }

    /// Some of the rows; `None` if there are fewer.
    pub(crate) fn part_of_rows(&self, part: Range<usize>) -> Option<Self> {
        let is_within = part.start <= part.end && part.end <= self.rows;
        is_within.then(|| Self {
            first: self.first + part.start * self.strides[0],
            rows: part.len(),
            ..self.clone()
        })
    }

    /// Some of the columns; `None` if there are fewer.
    pub(crate) fn part_of_columns(&self, part: Range<usize>) -> Option<Self> {
        let part = self.transposed().part_of_rows(part)?;
        Some(part.transposed())
    }

    /// The elements, column by column, as ONNX's layers take weights.
    pub(crate) fn by_columns(&self) -> Vec<f32> {
        self.elements().collect()
    }

    fn bits(&self) -> impl Iterator<Item = u32> {
        self.elements().map(f32::to_bits)
    }

    fn elements(&self) -> impl Iterator<Item = f32> {
        let [of_rows, of_columns] = self.strides;
        let places = (0..self.columns).flat_map(move |column| {
            let first = self.first + column * of_columns;
            (0..self.rows).map(move |row| first + row * of_rows)
        });
        places.map(|place| self.sign * self.constant.elements[place])
    }

    /// The matrix with the opposite sign.
    pub(super) fn negated(self) -> Self {
        Self {
            sign: -self.sign,
            ..self
        }
    }
}
