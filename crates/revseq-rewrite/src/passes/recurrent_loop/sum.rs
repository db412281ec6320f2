//! Sums of products: the arguments of gates.

use crate::constant::{self, Floats};
use crate::sizes::{self, Size};

use super::body::{Body, MAXIMUM_STEPS, operands};

/// Larger than any sliced axis.
const ANY_SIZE: usize = i32::MAX as usize;

/// A range of columns: start and length.
pub(super) type Columns = Option<(usize, usize)>;

/// A value in the body, or some of its columns.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Part<'a> {
    pub(super) name: &'a str,
    pub(super) columns: Columns,
}

impl<'a> Part<'a> {
    /// A whole value.
    pub(super) fn all(name: &'a str) -> Self {
        let columns = None;
        Self { name, columns }
    }

    pub(super) fn of(self, name: &'a str) -> Self {
        Self { name, ..self }
    }

    /// Follows the value through Identity and column slices; `None` if the columns are not
    /// provable.
    pub(super) fn plain(self, body: &Body<'a>) -> Option<Self> {
        let mut part = self;
        loop {
            part.name = body.plain(part.name);
            let Some((scope, node, output)) = body.inner.producer(part.name) else {
                return Some(part);
            };
            if !std::ptr::eq(scope, body.inner) || !(node.is("Split") || node.is("Slice")) {
                return Some(part);
            }
            let base = node.input(0)?;
            let width = width(body, base, MAXIMUM_STEPS)?;
            let range = if node.is("Split") {
                if !matches!(node.int("axis").or(0)?, 1 | -1) {
                    return None;
                }
                constant::split_part(scope, node, output, width)?
            } else {
                let mut range = (0, width);
                for (axis, start, end) in constant::slice_ranges(scope, node, &[ANY_SIZE, width])? {
                    match axis {
                        1 => range = (start, end.checked_sub(start)?),
                        _ if (start, end) == (0, ANY_SIZE) => {}
                        _ => return None,
                    }
                }
                range
            };
            part = Self {
                name: base,
                columns: Some(within(range, part.columns)?),
            };
        }
    }
}

/// A range within another.
fn within((start, length): (usize, usize), inner: Columns) -> Option<(usize, usize)> {
    match inner {
        None => Some((start, length)),
        Some((more, shorter)) => (more + shorter <= length).then_some((start + more, shorter)),
    }
}

/// A constant's range of the last axis.
fn take(value: &Floats, columns: Columns) -> Option<Floats> {
    match columns {
        None => Some(value.clone()),
        Some((start, length)) => {
            let axis = value.sizes.len().checked_sub(1)?;
            constant::part(value, axis, start, length)
        }
    }
}

/// A sum of products with constants.
#[derive(Clone, Debug, Default)]
pub(super) struct Sum<'a> {
    /// Values times constant matrices `[rows, columns]`.
    pub(super) products: Vec<(&'a str, Floats)>,
    /// Values times constant vectors, elementwise.
    pub(super) scaled: Vec<(&'a str, Vec<f32>)>,
    /// All other terms.
    pub(super) rest: Vec<&'a str>,
    biases: Vec<Floats>,
    /// The number of terms that are rows without the batch axis, from a batch of one.
    squeezed: usize,
}

impl<'a> Sum<'a> {
    pub(super) fn of(body: &Body<'a>, value: Part<'a>) -> Option<Self> {
        let mut sum = Self::default();
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
            match bias.elements.len() {
                1 => total.iter_mut().for_each(|it| *it += bias.elements[0]),
                length if length == width => {
                    for (total, more) in std::iter::zip(total, &bias.elements) {
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

    fn add(&mut self, body: &Body<'a>, value: Part<'a>, steps: usize) -> Option<()> {
        let steps = steps.checked_sub(1)?;
        if let Some(bias) = body.floats(value.name) {
            self.biases.push(vector(&bias, value.columns)?);
            return Some(());
        }
        let value = value.plain(body)?;
        let Part { name, columns } = value;
        if let Some((first, second)) = operands(body.inner, name, "Add") {
            self.add(body, value.of(first), steps / 2)?;
            return self.add(body, value.of(second), steps / 2);
        }
        if let Some((factor, weights)) = operands(body.inner, name, "MatMul") {
            let weights = matrix(body, weights, false)?;
            return self.multiply(body, factor, &take(&weights, columns)?);
        }
        if let Some(node) = body.inner.first_output_of(name, "Gemm") {
            let is_one = |attribute| node.float(attribute).or(1.0) == Some(1.0);
            let transposed = node.int("transB").or(0)? != 0;
            if !is_one("alpha") || node.int("transA").or(0)? != 0 {
                return None;
            }
            let weights = matrix(body, node.input(1)?, transposed)?;
            self.multiply(body, node.input(0)?, &take(&weights, columns)?)?;
            return match node.input(2) {
                Some(_) if node.float("beta").or(1.0) == Some(0.0) => Some(()),
                Some(more) if is_one("beta") => self.add(body, value.of(more), steps),
                Some(_) => None,
                None => Some(()),
            };
        }
        if let Some(row) = row_of_one(body, name) {
            let before = self.terms();
            self.add(body, value.of(row), steps)?;
            self.squeezed += self.terms() - before;
            return Some(());
        }
        if let Some((first, second)) = operands(body.inner, name, "Mul") {
            let constant = |name| body.floats(name).and_then(|it| vector(&it, columns));
            let scaled = constant(second)
                .map(|by| (first, by))
                .or_else(|| constant(first).map(|by| (second, by)));
            match (scaled, columns) {
                (Some((value, by)), None) => {
                    self.scaled.push((body.plain(value), by.elements));
                    return Some(());
                }
                (Some(_), Some(_)) => return None,
                (None, _) => {}
            }
        }
        columns.is_none().then(|| self.rest.push(name))
    }

    /// Adds a product; each part of a Concat gets its own rows of the weights.
    fn multiply(&mut self, body: &Body<'a>, factor: &'a str, weights: &Floats) -> Option<()> {
        let factor = body.plain(factor);
        let Some(node) = body.inner.first_output_of(factor, "Concat") else {
            self.products.push((factor, weights.clone()));
            return Some(());
        };
        if !matches!(node.int("axis").value()?, 1 | -1) {
            return None;
        }
        let parts: Vec<(&'a str, Option<usize>)> = node
            .inputs()
            .map(|part| (body.plain(part), width(body, part, MAXIMUM_STEPS)))
            .collect();
        let rows = *weights.sizes.first()?;
        let known: usize = parts.iter().filter_map(|&(_, width)| width).sum();
        // The single unknown part takes the remaining rows.
        let rest = rows.checked_sub(known)?;
        let unknown = parts.iter().filter(|(_, width)| width.is_none()).count();
        if unknown > 1 || unknown == 0 && rest != 0 {
            return None;
        }
        let mut start = 0;
        for (part, width) in parts {
            let length = width.unwrap_or(rest);
            let rows = constant::part(weights, 0, start, length)?;
            self.products.push((part, rows));
            start += length;
        }
        Some(())
    }
}

/// The matrix before its batch axis of size 1 is removed; with more sequences the node would fail
/// or do nothing.
fn row_of_one<'a>(body: &Body<'a>, name: &str) -> Option<&'a str> {
    let width = |row| width(body, row, MAXIMUM_STEPS).filter(|&width| width > 1);
    if let Some((row, shape)) = operands(body.inner, name, "Reshape") {
        let shape = constant::ints(body.inner, shape)?;
        return (shape == [width(row)? as i64]).then_some(row);
    }
    let node = body.inner.first_output_of(name, "Squeeze")?;
    let axes = constant::axes(body.inner, node)?;
    let row = node.input(0)?;
    (axes.is_empty() || axes == [0]).then(|| width(row).map(|_| row))?
}

/// A constant matrix, transposed if requested.
fn matrix(body: &Body<'_>, name: &str, transposed: bool) -> Option<Floats> {
    let weights = body.floats(name)?;
    let &[rows, columns] = weights.sizes.as_slice() else {
        return None;
    };
    Some(if transposed {
        weights.transposed(rows, columns)
    } else {
        Floats::clone(&weights)
    })
}

/// A constant that is the same for all rows.
fn vector(value: &Floats, columns: Columns) -> Option<Floats> {
    match value.sizes.as_slice() {
        [] | [1] | [1, 1] => Some(value.clone()),
        [_] | [1, _] => take(value, columns),
        _ => None,
    }
}

/// The number of columns of a value in the body.
pub(super) fn width<'a>(body: &Body<'a>, name: &'a str, steps: usize) -> Option<usize> {
    let steps = steps.checked_sub(1)?;
    let name = body.plain(name);
    body.width(name, || width_of(body, name, steps))
}

fn width_of<'a>(body: &Body<'a>, name: &'a str, steps: usize) -> Option<usize> {
    let known = |size: Option<Size<'_>>| match size? {
        Size::Known(size) => usize::try_from(size).ok(),
        Size::Axis { .. } => None,
    };
    if let Some(state) = body.state(name) {
        return known(sizes::axis(body.outer, state.initial, 1));
    }
    if let Some(sequence) = body.sequence(name) {
        return known(sizes::axis(body.outer, sequence.value, 2));
    }
    if let Some(constant) = body.floats(name) {
        return constant.sizes.last().copied();
    }
    let (scope, node, output) = body.inner.producer(name)?;
    if !std::ptr::eq(scope, body.inner) || !node.domain().is_empty() {
        return None;
    }
    let of = |index: usize| width(body, node.input(index)?, steps);
    let matrix = |axis: usize| {
        let weights = body.floats(node.input(1)?)?;
        weights.sizes.get(axis).copied()
    };
    match node.op() {
        "MatMul" => matrix(1),
        "Gemm" => matrix(usize::from(node.int("transB").or(0)? == 0)),
        // A broadcast operand has one column.
        "Add" | "Sub" | "Mul" => of(0).max(of(1)),
        "Where" => of(1).max(of(2)),
        "Split" if matches!(node.int("axis").or(0)?, 1 | -1) => {
            Some(constant::split_part(scope, node, output, of(0)?)?.1)
        }
        "Sigmoid" | "Tanh" | "Relu" | "HardSigmoid" | "Softsign" | "Elu" | "Clip" => of(0),
        _ => None,
    }
}
