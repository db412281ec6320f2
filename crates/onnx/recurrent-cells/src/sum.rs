//! Sums of products: the arguments of gates.

use std::ops::Range;

use crate::{MAXIMUM_DEPTH, Matrix, Operator, Step};

/// A value, or some of its columns.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Part<V> {
    pub(crate) value: V,
    pub(crate) columns: Option<Range<usize>>,
}

impl<V: Copy + PartialEq> Part<V> {
    /// A whole value.
    pub(crate) fn all(value: V) -> Self {
        let columns = None;
        Self { value, columns }
    }

    /// The same columns of another value.
    pub(crate) fn of(&self, value: V) -> Self {
        let columns = self.columns.clone();
        Self { value, columns }
    }

    /// Follows the value through operators that change nothing or take columns.
    pub(crate) fn plain<S: Step<Value = V>>(mut self, step: &S) -> Self {
        for _ in 0..MAXIMUM_DEPTH {
            self.value = step.plain(self.value);
            let Some((value, start, length)) = step.columns(self.value) else {
                break;
            };
            let inner = self.columns.clone().unwrap_or(0..length);
            let end = start.checked_add(inner.end);
            let Some(end) = end.filter(|_| inner.end <= length) else {
                break;
            };
            let part = start + inner.start..end;
            let is_whole = part.start == 0 && step.width(value) == Some(part.end);
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
pub(crate) struct Sum<V> {
    /// Values times constant matrices.
    pub(crate) products: Vec<(V, Matrix)>,
    /// Values times constant vectors, elementwise.
    pub(crate) scaled: Vec<(V, Vec<f32>)>,
    /// All other terms.
    pub(crate) rest: Vec<V>,
    biases: Vec<Vec<f32>>,
    /// The number of terms that are rows without the batch axis, from a batch of one.
    squeezed: usize,
}

impl<V: Copy + PartialEq> Sum<V> {
    pub(crate) fn of<S: Step<Value = V>>(step: &S, value: Part<V>) -> Option<Self> {
        let mut sum = Self {
            products: Vec::new(),
            scaled: Vec::new(),
            rest: Vec::new(),
            biases: Vec::new(),
            squeezed: 0,
        };
        sum.add(step, value, MAXIMUM_DEPTH)?;
        // A row without its batch axis gets it back only by broadcasting with a term that has one.
        (sum.squeezed == 0 || sum.squeezed < sum.terms()).then_some(sum)
    }

    /// The sum of all constants for each column; `Some(None)` without any, `None` if they do not
    /// fit.
    pub(crate) fn bias(&self, width: usize) -> Option<Option<Vec<f32>>> {
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

    fn add<S: Step<Value = V>>(&mut self, step: &S, value: Part<V>, depth: usize) -> Option<()> {
        let depth = depth.checked_sub(1)?;
        let part = value.plain(step);
        let (value, columns) = (part.value, part.columns.as_ref());
        if let Some(bias) = step.constant(value) {
            self.biases.push(bias.vector(columns)?);
            return Some(());
        }
        if let Some([first, second]) = step.operands(value, Operator::Add) {
            self.add(step, part.of(first), depth / 2)?;
            return self.add(step, part.of(second), depth / 2);
        }
        if let Some(product) = step.product(value) {
            let weights = match columns {
                None => product.weights,
                Some(columns) => product.weights.part_of_columns(columns.clone())?,
            };
            self.multiply(step, product.factor, &weights)?;
            return match product.more {
                Some(more) => self.add(step, part.of(more), depth),
                None => Some(()),
            };
        }
        if let Some(row) = step.row_of_one(value) {
            let before = self.terms();
            self.add(step, part.of(row), depth)?;
            self.squeezed += self.terms() - before;
            return Some(());
        }
        // Nothing else is known of some columns.
        if columns.is_some() {
            return None;
        }
        if let Some([first, second]) = step.operands(value, Operator::Mul) {
            let constant = |value| step.constant(value)?.vector(None);
            let scaled = constant(second)
                .map(|by| (first, by))
                .or_else(|| constant(first).map(|by| (second, by)));
            if let Some((value, by)) = scaled {
                self.scaled.push((step.plain(value), by));
                return Some(());
            }
        }
        self.rest.push(value);
        Some(())
    }

    /// Adds a product; each joined value gets its own rows of the weights.
    fn multiply<S: Step<Value = V>>(
        &mut self,
        step: &S,
        factor: V,
        weights: &Matrix,
    ) -> Option<()> {
        let factor = step.plain(factor);
        let Some(parts) = step.joined(factor) else {
            self.products.push((factor, weights.clone()));
            return Some(());
        };
        let parts: Vec<(V, Option<usize>)> = parts
            .into_iter()
            .map(|part| (step.plain(part), step.width(part)))
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
