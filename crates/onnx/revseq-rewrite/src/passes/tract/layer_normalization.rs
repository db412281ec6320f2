//! LayerNormalization that is written in parts, as models before opset 17 have it. ONNX Runtime and rten
//! join the parts when they load a model.
//!
//! ```text
//! d = x - ReduceMean(x)
//! y = d / Sqrt(ReduceMean(d ^ 2) + epsilon) * scale + bias   →   LayerNormalization(x, scale, bias)
//! ```

use crate::constant;
use crate::emit::Emit;
use crate::model::{FLOAT, NodeProto, float, int};
use crate::pass::{At, Other, Pass, Verdict};
use crate::passes::known_size;
use crate::scope::Scope;
use crate::{sizes, types};

pub(super) const PASS: Pass = Pass::rounding(
    "layer-normalization",
    "LayerNormalization in parts, to one node",
    find,
);

/// The operator with which the parts begin.
pub(super) const OPERATOR: &str = "ReduceMean";

/// The first opset with LayerNormalization. tract's reader takes it in any.
const SINCE: i64 = 17;

fn find(at: &At<'_>) -> Verdict {
    let &At { scope, node, .. } = at;
    let parts = node.is("Add").then(|| shifted(scope, node)).flatten();
    let Shifted { rows, scale, bias } = parts.ok_or(Other)?;
    let Normalized { x, axes, epsilon } = rows;
    if types::of(scope, x) != Some(FLOAT) {
        return Err("its input is not known to be float".into());
    }
    let mut operands = [scale, bias].into_iter();
    if let Some(operand) = operands.find(|it| !is_of_rows(scope, x, &axes, it)) {
        return Err(format!("{operand} does not provably have the sizes of its rows").into());
    }
    let is_written = at.context.options.runtime.is_some();
    let opset = if is_written { scope.opset } else { SINCE };
    let output = at.output()?;
    let emit = Emit::new(output, opset, at.names);
    let attributes = vec![int("axis", -(axes.len() as i64)), float("epsilon", epsilon)];
    let inputs = (x, scale, bias);
    emit.write(&[output], "LayerNormalization", inputs, attributes);
    emit.finish("LayerNormalization")
}

/// Rows that are normalised.
struct Normalized<'a> {
    x: &'a str,
    /// Their axes, counted from the end.
    axes: Vec<i64>,
    epsilon: f32,
}

/// Such rows times a scale, with a bias.
struct Shifted<'a> {
    rows: Normalized<'a>,
    scale: &'a str,
    bias: &'a str,
}

/// A fact about the inputs of a node in either order.
fn either<'a, T>(node: &'a NodeProto, of: impl Fn(&'a str, &'a str) -> Option<T>) -> Option<T> {
    let (one, other) = (node.input(0)?, node.input(1)?);
    of(one, other).or_else(|| of(other, one))
}

fn shifted<'a>(scope: &'a Scope<'a>, node: &'a NodeProto) -> Option<Shifted<'a>> {
    either(node, |scaled, bias| {
        either(scope.first_output_of(scaled, "Mul")?, |rows, scale| {
            let rows = normalised(scope, rows)?;
            Some(Shifted { rows, scale, bias })
        })
    })
}

/// Rows without their mean, by the root of their variance.
fn normalised<'a>(scope: &'a Scope<'a>, name: &str) -> Option<Normalized<'a>> {
    let (centered, root) = match scope.first_output_of(name, "Div") {
        Some(quotient) => (quotient.input(0)?, quotient.input(1)?),
        None => either(scope.first_output_of(name, "Mul")?, |centered, factor| {
            let reciprocal = scope.first_output_of(factor, "Reciprocal")?;
            Some((centered, reciprocal.input(0)?))
        })?,
    };
    let (x, axes) = without_mean(scope, centered)?;
    let sum = scope.first_output_of(scope.first_output_of(root, "Sqrt")?.input(0)?, "Add")?;
    either(sum, |variance, epsilon| {
        let &[epsilon] = &*constant::floats(scope, epsilon)?.elements else {
            return None;
        };
        let (squares, axes_of_variance) = mean(scope, variance)?;
        let deviation = square(scope, squares)?;
        let is_same = deviation == centered || without_mean(scope, deviation)? == (x, axes.clone());
        let axes = axes.clone();
        (is_same && axes == axes_of_variance).then_some(Normalized { x, axes, epsilon })
    })
}

/// The value of which a node subtracts the mean, and the axes of it.
fn without_mean<'a>(scope: &'a Scope<'a>, name: &str) -> Option<(&'a str, Vec<i64>)> {
    let difference = scope.first_output_of(name, "Sub")?;
    let (x, axes) = mean(scope, difference.input(1)?)?;
    (difference.input(0)? == x).then_some((x, axes))
}

/// The value of which a node is the mean along its last axes, counted from the end.
fn mean<'a>(scope: &'a Scope<'a>, name: &str) -> Option<(&'a str, Vec<i64>)> {
    let node = scope.first_output_of(name, OPERATOR)?;
    let x = node.input(0)?;
    let mut axes = constant::axes(scope, node)?;
    if axes.iter().any(|&axis| axis >= 0) {
        let rank = sizes::rank(scope, x)?;
        let from_end = axes.into_iter().map(|axis| {
            let axis = constant::normal_axis(axis, rank)? as i64;
            Some(axis - rank as i64)
        });
        axes = from_end.collect::<Option<_>>()?;
    }
    axes.sort_unstable();
    let are_last = !axes.is_empty() && axes.iter().copied().eq(-(axes.len() as i64)..0);
    (are_last && node.int("keepdims").or(1)? == 1).then_some((x, axes))
}

/// The value that a node squares.
fn square<'a>(scope: &'a Scope<'a>, name: &str) -> Option<&'a str> {
    if let Some(product) = scope.first_output_of(name, "Mul") {
        return product
            .input(0)
            .filter(|&one| product.input(1) == Some(one));
    }
    let power = scope.first_output_of(name, "Pow")?;
    let is_two = constant::whole_number(scope, power.input(1)?) == Some(2);
    power.input(0).filter(|_| is_two)
}

/// Whether a scale or a bias has no more axes than rows, each as long or of size 1.
fn is_of_rows(scope: &Scope<'_>, x: &str, axes: &[i64], operand: &str) -> bool {
    let ranks = sizes::rank(scope, x).zip(sizes::rank(scope, operand));
    ranks.is_some_and(|(rank, own)| {
        own <= axes.len()
            && (1..=own).all(|from_end| {
                let size = known_size(scope, operand, own - from_end);
                size.is_some_and(|size| {
                    size == 1 || known_size(scope, x, rank - from_end) == Some(size)
                })
            })
    })
}
