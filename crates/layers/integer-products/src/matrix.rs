//! Matrices of bytes.

/// Integers of one of two types.
#[derive(Clone, Copy, Debug)]
pub enum Bytes<'a> {
    /// Signed ones.
    I8(&'a [i8]),
    /// Unsigned ones.
    U8(&'a [u8]),
}

impl<'a> Bytes<'a> {
    /// The number of integers.
    #[must_use]
    pub fn len(&self) -> usize {
        self.raw().len()
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The integer at a place.
    #[must_use]
    pub fn get(&self, at: usize) -> i32 {
        match self {
            Self::I8(all) => all[at].into(),
            Self::U8(all) => all[at].into(),
        }
    }

    /// The integers from a place on.
    #[must_use]
    pub fn from(self, start: usize) -> Self {
        match self {
            Self::I8(all) => Self::I8(&all[start..]),
            Self::U8(all) => Self::U8(&all[start..]),
        }
    }

    /// Copies the bits of the integers from a place on.
    pub fn copy(self, start: usize, to: &mut [u8]) {
        to.copy_from_slice(&self.raw()[start..][..to.len()]);
    }

    pub(crate) fn raw(self) -> &'a [u8] {
        match self {
            Self::I8(all) => bytemuck::cast_slice(all),
            Self::U8(all) => all,
        }
    }

    /// How a kernel reads them that takes signed or unsigned numbers.
    pub(crate) fn form(self, is_unsigned: bool) -> Form {
        match (self, is_unsigned) {
            (Self::I8(_), true) => Form::Shifted(1 << 7),
            (Self::U8(_), false) => Form::Shifted(-(1 << 7)),
            _ => Form::Same,
        }
    }
}

/// The form in which a kernel reads integers.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Form {
    /// As they are.
    Same,
    /// Plus a number, so that they have the other type.
    Shifted(i32),
}

impl Form {
    /// The bits that differ from those of the integers.
    pub(crate) fn flipped(self) -> u8 {
        match self {
            Self::Same => 0,
            Self::Shifted(_) => 1 << 7,
        }
    }

    /// A zero point in this form.
    pub(crate) fn zero(self, zero: i32) -> i32 {
        match self {
            Self::Same => zero,
            Self::Shifted(by) => zero.wrapping_add(by),
        }
    }
}

/// A matrix in memory.
#[derive(Clone, Copy, Debug)]
pub struct Matrix<'a> {
    /// The elements, of which the first is that of the first row and column.
    pub elements: Bytes<'a>,
    /// The numbers of rows and columns.
    pub shape: [usize; 2],
    /// The elements from one row to the next, and from one column to the next.
    pub strides: [usize; 2],
}

impl<'a> Matrix<'a> {
    /// A matrix whose rows lie one after another.
    #[must_use]
    pub fn dense(elements: Bytes<'a>, shape: [usize; 2]) -> Self {
        let strides = [shape[1], 1];
        Self {
            elements,
            shape,
            strides,
        }
    }

    /// The same with rows for columns.
    #[must_use]
    pub fn transposed(self) -> Self {
        let ([rows, columns], [of_row, of_column]) = (self.shape, self.strides);
        Self {
            shape: [columns, rows],
            strides: [of_column, of_row],
            ..self
        }
    }

    /// Copies a part of a row.
    pub(crate) fn copy_row(&self, row: usize, from: usize, to: &mut [u8]) {
        let [of_row, of_column] = self.strides;
        if to.is_empty() {
            return;
        }
        let elements = &self.elements.raw()[row * of_row + from * of_column..];
        if of_column == 1 {
            to.copy_from_slice(&elements[..to.len()]);
        } else {
            for (to, from) in to.iter_mut().zip(elements.iter().step_by(of_column.max(1))) {
                *to = *from;
            }
        }
    }
}
