//! Sums of products: the arguments of gates.

use std::ops::Range;

use super::matrix::Matrix;
use super::step::{columns, joined, product, row_of_one, width};
use crate::constant::Floats;
use crate::passes::steps::body::{Body, MAXIMUM_STEPS, operands};

/// A value, or some of its columns.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Columns<'a> {
    pub(super) value: &'a str,
    pub(super) columns: Option<Range<usize>>,
}

impl<'a> Columns<'a> {
    /// A whole value.
    pub(super) fn all(value: &'a str) -> Self {
        let columns = None;
        Self { value, columns }
    }

    /// The same columns of another value.
    pub(super) fn of(&self, value: &'a str) -> Self {
        let columns = self.columns.clone();
        Self { value, columns }
    }

    /// Follows the value through operators that change nothing or take columns.
    pub(super) fn plain(mut self, body: &Body<'a>) -> Self {
        for _ in 0..MAXIMUM_STEPS {
            self.value = body.plain(self.value);
            let Some((value, start, length)) = columns(body, self.value) else {
                break;
            };
            let inner = self.columns.clone().unwrap_or(0..length);
            let end = start.checked_add(inner.end);
            let Some(end) = end.filter(|_| inner.end <= length) else {
                break;
            };
            let part = start + inner.start..end;
            let is_whole = part.start == 0 && width(body, value) == Some(part.end);
            self = Self {
                value,
                columns: (!is_whole).then_some(part),
            };
        }
        self
    }
}

/// A sum of products with constants.
#[derive(Clone, Debug)]
pub(super) struct Sum<'a> {
    /// Values times constant matrices.
    pub(super) products: Vec<(&'a str, Matrix)>,
    /// Values times constant vectors, elementwise.
    pub(super) scaled: Vec<(&'a str, Vec<f32>)>,
    /// All other terms.
    pub(super) rest: Vec<&'a str>,
    biases: Vec<Vec<f32>>,
    /// The number of terms that are rows without the batch axis, from a batch of one.
    squeezed: usize,
}

impl<'a> Sum<'a> {
    pub(super) fn of(body: &Body<'a>, value: Columns<'a>) -> Option<Self> {
        let mut sum = Self {
            products: Vec::new(),
            scaled: Vec::new(),
            rest: Vec::new(),
            biases: Vec::new(),
            squeezed: 0,
        };
        sum.add(body, value, MAXIMUM_STEPS)?;
        // A row without its batch axis gets it back only by broadcasting with a term that has one.
        (sum.squeezed == 0 || sum.squeezed < sum.terms()).then_some(sum)
    }

    /// The sum of all constants for each column; `Some(None)` without any, `None` if they do not
    /// fit.
    pub(super) fn bias(&self, width: usize) -> Option<Option<Vec<f32>>> {
        let mut total: Option<Vec<f32>> = None;
        for bias in &self.biases {
            let total = total.get_or_insert_with(|| vec![0.0; width]);
            match bias[..] {
                [bias] => total.iter_mut().for_each(|it| *it += bias),
                _ if bias.len() == width => {
                    for (total, more) in std::iter::zip(total, bias) {
                        *total += more;
                    }
                }
                _ => return None,
            }
        }
        Some(total)
    }

    /// The number of terms that depend on the step.
    fn terms(&self) -> usize {
        self.products.len() + self.scaled.len() + self.rest.len()
    }

    fn add(&mut self, body: &Body<'a>, value: Columns<'a>, depth: usize) -> Option<()> {
        let depth = depth.checked_sub(1)?;
        let part = value.plain(body);
        let (value, columns) = (part.value, part.columns.as_ref());
        if let Some(bias) = body.floats(value) {
            self.biases.push(vector(&bias, columns)?);
            return Some(());
        }
        if let Some((first, second)) = operands(body.inner, value, "Add") {
            self.add(body, part.of(first), depth / 2)?;
            return self.add(body, part.of(second), depth / 2);
        }
        if let Some(product) = product(body, value) {
            let weights = match columns {
                None => product.weights,
                Some(columns) => product.weights.part_of_columns(columns.clone())?,
            };
            self.multiply(body, product.factor, &weights)?;
            return match product.more {
                Some(more) => self.add(body, part.of(more), depth),
                None => Some(()),
            };
        }
        if let Some(row) = row_of_one(body, value) {
            let before = self.terms();
            self.add(body, part.of(row), depth)?;
            self.squeezed += self.terms() - before;
            return Some(());
        }
        // Nothing else is known of some columns.
        if columns.is_some() {
            return None;
        }
        if let Some((first, second)) = operands(body.inner, value, "Mul") {
            let constant = |value| vector(body.floats(value)?.as_ref(), None);
            let scaled = constant(second)
                .map(|by| (first, by))
                .or_else(|| constant(first).map(|by| (second, by)));
            if let Some((value, by)) = scaled {
                self.scaled.push((body.plain(value), by));
                return Some(());
            }
        }
        self.rest.push(value);
        Some(())
    }

    /// Adds a product; each joined value gets its own rows of the weights.
    fn multiply(&mut self, body: &Body<'a>, factor: &'a str, weights: &Matrix) -> Option<()> {
        let factor = body.plain(factor);
        let Some(parts) = joined(body, factor) else {
            self.products.push((factor, weights.clone()));
            return Some(());
        };
        let parts: Vec<(&str, Option<usize>)> = parts
            .into_iter()
            .map(|part| (body.plain(part), width(body, part)))
            .collect();
        // The single unknown part takes the remaining rows.
        let mut known = parts.iter().filter_map(|&(_, width)| width);
        let rest = known.try_fold(weights.rows(), usize::checked_sub)?;
        let unknown = parts.iter().filter(|(_, width)| width.is_none()).count();
        if unknown > 1 || unknown == 0 && rest != 0 {
            return None;
        }
        let mut start = 0;
        for (part, width) in parts {
            let end = start + width.unwrap_or(rest);
            let rows = weights.part_of_rows(start..end)?;
            self.products.push((part, rows));
            start = end;
        }
        Some(())
    }
}

/// The elements of some columns, if all rows are the same; a single number stands for all columns.
fn vector(constant: &Floats, columns: Option<&Range<usize>>) -> Option<Vec<f32>> {
    let range = match (constant.sizes.as_slice(), columns) {
        ([] | [1] | [1, 1], _) | ([_] | [1, _], None) => 0..constant.elements.len(),
        ([_] | [1, _], Some(columns)) => columns.clone(),
        _ => return None,
    };
    constant.elements.get(range).map(<[f32]>::to_vec)
}
