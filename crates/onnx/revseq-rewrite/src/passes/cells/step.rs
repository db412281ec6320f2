//! What the values of a step are, each a matrix with a row for each sequence of the batch.
//!
//! Answers are certain: `None` if a value is something else, or may be.

use super::matrix::Matrix;
use crate::constant;
use crate::passes::steps::body::{Body, MAXIMUM_STEPS, operands};
use crate::sizes::{self, Size};

/// Larger than any sliced axis.
const ANY_SIZE: usize = i32::MAX as usize;

/// A value's rows times a constant matrix.
pub(super) struct Product<'a> {
    pub(super) factor: &'a str,
    /// The matrix: a row for each column of the factor.
    pub(super) weights: Matrix,
    /// A value that the same operator adds.
    pub(super) more: Option<&'a str>,
}

/// The value that one operator limits to bounds, the lower and the upper one.
pub(super) fn bounded<'a>(body: &Body<'a>, value: &'a str) -> Option<(&'a str, f32, f32)> {
    if let Some(node) = body.inner.first_output_of(value, "Relu") {
        return Some((node.input(0)?, 0.0, f32::INFINITY));
    }
    let node = body.inner.first_output_of(value, "Clip")?;
    // Bounds became inputs in opset 11.
    let bound = |input: usize, attribute: &str, default: f32| match node.input(input) {
        Some(name) => body.number(name),
        None => node.float(attribute).or(default),
    };
    let low = bound(1, "min", f32::NEG_INFINITY)?;
    let high = bound(2, "max", f32::INFINITY)?;
    Some((node.input(0)?, low, high))
}

/// The product that a value is.
pub(super) fn product<'a>(body: &Body<'a>, value: &'a str) -> Option<Product<'a>> {
    let weights = |name: &str| Matrix::new(body.floats(name)?);
    if let Some((factor, matrix)) = operands(body.inner, value, "MatMul") {
        return Some(Product {
            factor,
            weights: weights(matrix)?,
            more: None,
        });
    }
    let node = body.inner.first_output_of(value, "Gemm")?;
    let is_one = |attribute| node.float(attribute).or(1.0) == Some(1.0);
    if !is_one("alpha") || node.int("transA").or(0)? != 0 {
        return None;
    }
    let matrix = weights(node.input(1)?)?;
    let more = node
        .input(2)
        .filter(|_| node.float("beta").or(1.0) != Some(0.0));
    if more.is_some() && !is_one("beta") {
        return None;
    }
    Some(Product {
        factor: node.input(0)?,
        weights: match node.int("transB").or(0)? {
            0 => matrix,
            _ => matrix.transposed(),
        },
        more,
    })
}

/// The values whose columns are joined.
pub(super) fn joined<'a>(body: &Body<'a>, value: &'a str) -> Option<Vec<&'a str>> {
    let node = body.inner.first_output_of(value, "Concat")?;
    let is_of_columns = matches!(node.int("axis").value()?, 1 | -1);
    is_of_columns.then(|| node.inputs().collect())
}

/// The value of which another has some columns: the first one, and their number.
pub(super) fn columns<'a>(body: &Body<'a>, value: &'a str) -> Option<(&'a str, usize, usize)> {
    columns_within(body, value, MAXIMUM_STEPS)
}

fn columns_within<'a>(
    body: &Body<'a>,
    value: &'a str,
    steps: usize,
) -> Option<(&'a str, usize, usize)> {
    let scope = body.inner;
    let (_, node) = scope.maker(value)?;
    if !(node.is("Split") || node.is("Slice")) {
        return None;
    }
    let base = node.input(0)?;
    let width = width_within(body, base, steps)?;
    if node.is("Split") {
        if !matches!(node.int("axis").or(0)?, 1 | -1) {
            return None;
        }
        let output = node.output.iter().position(|it| it == value)?;
        let (start, length) = constant::split_part(scope, node, output, width)?;
        return Some((base, start, length));
    }
    let mut range = (0, width);
    for (axis, start, end) in sizes::slice_ranges(scope, node, &[ANY_SIZE, width])? {
        match axis {
            1 => range = (start, end.checked_sub(start)?),
            _ if (start, end) == (0, ANY_SIZE) => {}
            _ => return None,
        }
    }
    Some((base, range.0, range.1))
}

/// The matrix of one row that a value is without its axis of rows, which it gets back in a sum with a matrix. A
/// Reshape or Squeeze of more sequences would fail or do nothing.
pub(super) fn row_of_one<'a>(body: &Body<'a>, value: &'a str) -> Option<&'a str> {
    let width = |row| width(body, row).filter(|&width| width > 1);
    if let Some((row, shape)) = operands(body.inner, value, "Reshape") {
        let shape = constant::ints(body.inner, shape)?;
        return (shape == [width(row)? as i64]).then_some(row);
    }
    let node = body.inner.first_output_of(value, "Squeeze")?;
    let axes = constant::axes(body.inner, node)?;
    let row = node.input(0)?;
    (axes.is_empty() || axes == [0]).then(|| width(row).map(|_| row))?
}
/// The number of columns of a value in the body.
pub(crate) fn width<'a>(body: &Body<'a>, name: &'a str) -> Option<usize> {
    width_within(body, name, MAXIMUM_STEPS)
}

fn width_within<'a>(body: &Body<'a>, name: &'a str, steps: usize) -> Option<usize> {
    let steps = steps.checked_sub(1)?;
    let name = body.plain(name);
    body.width(name, || width_of(body, name, steps))
}

fn width_of<'a>(body: &Body<'a>, name: &'a str, steps: usize) -> Option<usize> {
    let known = |size: Option<Size<'_>>| usize::try_from(size?.number()?).ok();
    if let Some(state) = body.state(name) {
        return known(sizes::axis(body.outer, state.initial, 1));
    }
    if let Some(sequence) = body.sequence(name) {
        return known(sizes::axis(body.outer, sequence.value, 2));
    }
    if let Some(constant) = body.floats(name) {
        return constant.sizes.last().copied();
    }
    let (_, node) = body.inner.maker(name)?;
    if !node.domain().is_empty() {
        return None;
    }
    let of_input = |index: usize| width_within(body, node.input(index)?, steps);
    let matrix = |axis: usize| {
        let weights = body.floats(node.input(1)?)?;
        weights.sizes.get(axis).copied()
    };
    match node.op() {
        "MatMul" => matrix(1),
        "Gemm" => matrix(usize::from(node.int("transB").or(0)? == 0)),
        // A broadcast operand has one column.
        "Add" | "Sub" | "Mul" => of_input(0).max(of_input(1)),
        "Where" => of_input(1).max(of_input(2)),
        "Slice" | "Split" => Some(columns_within(body, name, steps)?.2),
        "Sigmoid" | "Tanh" | "Relu" | "HardSigmoid" | "Softsign" | "Elu" | "Clip" => of_input(0),
        _ => None,
    }
}
