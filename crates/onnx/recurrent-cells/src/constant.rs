//! Constants, and the matrices in them.

use std::ops::Range;
use std::sync::Arc;

/// A tensor of floats that is the same in every run. Clones share the elements.
#[derive(Clone, Debug, PartialEq)]
pub struct Constant {
    sizes: Vec<usize>,
    elements: Arc<Vec<f32>>,
}

impl Constant {
    /// Makes a constant of these sizes, none for a scalar, and elements in row-major order; `None`
    /// if their numbers differ.
    #[must_use]
    pub fn new(sizes: Vec<usize>, elements: Vec<f32>) -> Option<Self> {
        (count(&sizes)? == elements.len()).then(|| Self {
            sizes,
            elements: Arc::new(elements),
        })
    }

    /// The same elements in other sizes; `None` if their numbers differ.
    #[must_use]
    pub fn reshaped(&self, sizes: Vec<usize>) -> Option<Self> {
        let is_of = count(&sizes)? == self.elements.len();
        let elements = self.elements.clone();
        is_of.then_some(Self { sizes, elements })
    }

    /// The size of each axis.
    #[must_use]
    pub fn sizes(&self) -> &[usize] {
        &self.sizes
    }

    /// The elements in row-major order.
    #[must_use]
    pub fn elements(&self) -> &[f32] {
        &self.elements
    }

    /// The elements of some columns, if all rows are the same; a single number stands for all
    /// columns.
    pub(crate) fn vector(&self, columns: Option<&Range<usize>>) -> Option<Vec<f32>> {
        let range = match (self.sizes.as_slice(), columns) {
            ([] | [1] | [1, 1], _) | ([_] | [1, _], None) => 0..self.elements.len(),
            ([_] | [1, _], Some(columns)) => columns.clone(),
            _ => return None,
        };
        self.elements.get(range).map(<[f32]>::to_vec)
    }
}

/// The number of elements.
fn count(sizes: &[usize]) -> Option<usize> {
    let mut sizes = sizes.iter();
    sizes.try_fold(1_usize, |count, &size| count.checked_mul(size))
}

/// A matrix in a [`Constant`]: all of it, or some rows and columns.
#[derive(Clone, Debug)]
pub struct Matrix {
    elements: Arc<Vec<f32>>,
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
        let is_same = Arc::ptr_eq(&self.elements, &other.elements) && place(self) == place(other);
        (self.rows, self.columns) == (other.rows, other.columns)
            && (is_same || self.bits().eq(other.bits()))
    }
}

impl Matrix {
    /// A constant of two axes, those of rows and of columns.
    #[must_use]
    pub fn new(constant: &Constant) -> Option<Self> {
        let &[rows, columns] = constant.sizes() else {
            return None;
        };
        Some(Self {
            elements: constant.elements.clone(),
            first: 0,
            rows,
            columns,
            strides: [columns, 1],
            sign: 1.0,
        })
    }

    /// The number of rows.
    #[must_use]
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// The number of columns.
    #[must_use]
    pub fn columns(&self) -> usize {
        self.columns
    }

    /// The matrix with rows and columns exchanged.
    #[must_use]
    pub fn transposed(&self) -> Self {
        let [of_rows, of_columns] = self.strides;
        Self {
            rows: self.columns,
            columns: self.rows,
            strides: [of_columns, of_rows],
            ..self.clone()
        }
    }

    /// Some of the rows; `None` if there are fewer.
    #[must_use]
    pub fn part_of_rows(&self, part: Range<usize>) -> Option<Self> {
        let is_within = part.start <= part.end && part.end <= self.rows;
        is_within.then(|| Self {
            first: self.first + part.start * self.strides[0],
            rows: part.len(),
            ..self.clone()
        })
    }

    /// Some of the columns; `None` if there are fewer.
    #[must_use]
    pub fn part_of_columns(&self, part: Range<usize>) -> Option<Self> {
        let part = self.transposed().part_of_rows(part)?;
        Some(part.transposed())
    }

    /// The elements, column by column, as ONNX's layers take weights.
    #[must_use]
    pub fn by_columns(&self) -> Vec<f32> {
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
        places.map(|place| self.sign * self.elements[place])
    }

    /// The matrix with the opposite sign.
    pub(crate) fn negated(self) -> Self {
        Self {
            sign: -self.sign,
            ..self
        }
    }
}
