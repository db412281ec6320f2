//! The values of a body, in which cells are recognised.

use recurrent_cells::{Activation, Constant, Matrix, Operator, Product, Step};

use crate::constant;
use crate::sizes::{self, Size};

use super::body::{Body, MAXIMUM_STEPS, operands};

/// Larger than any sliced axis.
const ANY_SIZE: usize = i32::MAX as usize;

impl<'a> Step for Body<'a> {
    type Value = &'a str;

    fn plain(&self, value: &'a str) -> &'a str {
        self.plain(value)
    }

    fn state(&self, value: &'a str) -> Option<&'a str> {
        self.state(value).map(|state| state.carried)
    }

    fn states_begin_alike(&self) -> bool {
        self.is_written_out()
    }

    fn constant(&self, value: &'a str) -> Option<Constant> {
        self.floats(value)
    }

    fn number(&self, value: &'a str) -> Option<f32> {
        self.number(value)
    }

    fn operands(&self, value: &'a str, operator: Operator) -> Option<[&'a str; 2]> {
        let operator = match operator {
            Operator::Add => "Add",
            Operator::Sub => "Sub",
            Operator::Mul => "Mul",
            Operator::Div => "Div",
            Operator::Max => "Max",
            Operator::Min => "Min",
        };
        operands(self.inner, value, operator).map(Into::into)
    }

    fn activation(&self, value: &'a str) -> Option<(Activation, &'a str)> {
        let (scope, node, _) = self.inner.producer(value)?;
        if !std::ptr::eq(scope, self.inner) || !node.domain().is_empty() {
            return None;
        }
        let alpha = |default: f32| node.float("alpha").or(default);
        let function = match node.op() {
            "Elu" => Activation::Elu { alpha: alpha(1.0)? },
            "HardSigmoid" => Activation::HardSigmoid {
                alpha: alpha(0.2)?,
                beta: node.float("beta").or(0.5)?,
            },
            "LeakyRelu" => Activation::LeakyRelu {
                alpha: alpha(0.01)?,
            },
            "Relu" => Activation::Relu,
            "Sigmoid" => Activation::Sigmoid,
            "Softplus" => Activation::Softplus,
            "Softsign" => Activation::Softsign,
            "Tanh" => Activation::Tanh,
            "ThresholdedRelu" => Activation::ThresholdedRelu { alpha: alpha(1.0)? },
            _ => return None,
        };
        Some((function, node.input(0)?))
    }

    fn bounded(&self, value: &'a str) -> Option<(&'a str, f32, f32)> {
        if let Some(node) = self.inner.first_output_of(value, "Relu") {
            return Some((node.input(0)?, 0.0, f32::INFINITY));
        }
        let node = self.inner.first_output_of(value, "Clip")?;
        // Bounds became inputs in opset 11.
        let bound = |input: usize, attribute: &str, default: f32| match node.input(input) {
            Some(name) => self.number(name),
            None => node.float(attribute).or(default),
        };
        let low = bound(1, "min", f32::NEG_INFINITY)?;
        let high = bound(2, "max", f32::INFINITY)?;
        Some((node.input(0)?, low, high))
    }

    fn product(&self, value: &'a str) -> Option<Product<&'a str>> {
        let weights = |name: &str| Matrix::new(&self.floats(name)?);
        if let Some((factor, matrix)) = operands(self.inner, value, "MatMul") {
            return Some(Product {
                factor,
                weights: weights(matrix)?,
                more: None,
            });
        }
        let node = self.inner.first_output_of(value, "Gemm")?;
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

    fn joined(&self, value: &'a str) -> Option<Vec<&'a str>> {
        let node = self.inner.first_output_of(value, "Concat")?;
        let is_of_columns = matches!(node.int("axis").value()?, 1 | -1);
        is_of_columns.then(|| node.inputs().collect())
    }

    fn columns(&self, value: &'a str) -> Option<(&'a str, usize, usize)> {
        let (scope, node, output) = self.inner.producer(value)?;
        if !std::ptr::eq(scope, self.inner) || !(node.is("Split") || node.is("Slice")) {
            return None;
        }
        let base = node.input(0)?;
        let width = width(self, base, MAXIMUM_STEPS)?;
        if node.is("Split") {
            if !matches!(node.int("axis").or(0)?, 1 | -1) {
                return None;
            }
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

    fn width(&self, value: &'a str) -> Option<usize> {
        width(self, value, MAXIMUM_STEPS)
    }

    /// A Reshape or Expand of more sequences would fail or do nothing.
    fn row_of_one(&self, value: &'a str) -> Option<&'a str> {
        let width = |row| width(self, row, MAXIMUM_STEPS).filter(|&width| width > 1);
        if let Some((row, shape)) = operands(self.inner, value, "Reshape") {
            let shape = constant::ints(self.inner, shape)?;
            return (shape == [width(row)? as i64]).then_some(row);
        }
        let node = self.inner.first_output_of(value, "Squeeze")?;
        let axes = constant::axes(self.inner, node)?;
        let row = node.input(0)?;
        (axes.is_empty() || axes == [0]).then(|| width(row).map(|_| row))?
    }
}

/// The number of columns of a value in the body.
pub(super) fn width<'a>(body: &Body<'a>, name: &'a str, steps: usize) -> Option<usize> {
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
        return constant.sizes().last().copied();
    }
    let (scope, node, output) = body.inner.producer(name)?;
    if !std::ptr::eq(scope, body.inner) || !node.domain().is_empty() {
        return None;
    }
    let of_input = |index: usize| width(body, node.input(index)?, steps);
    let matrix = |axis: usize| {
        let weights = body.floats(node.input(1)?)?;
        weights.sizes().get(axis).copied()
    };
    match node.op() {
        "MatMul" => matrix(1),
        "Gemm" => matrix(usize::from(node.int("transB").or(0)? == 0)),
        // A broadcast operand has one column.
        "Add" | "Sub" | "Mul" => of_input(0).max(of_input(1)),
        "Where" => of_input(1).max(of_input(2)),
        "Split" if matches!(node.int("axis").or(0)?, 1 | -1) => {
            Some(constant::split_part(scope, node, output, of_input(0)?)?.1)
        }
        "Sigmoid" | "Tanh" | "Relu" | "HardSigmoid" | "Softsign" | "Elu" | "Clip" => of_input(0),
        _ => None,
    }
}
