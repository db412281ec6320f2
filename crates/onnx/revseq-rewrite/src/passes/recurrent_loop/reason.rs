//! Explains why a body is not a cell, where a single operator or value shows it.

use std::collections::HashSet;

use crate::model::NodeProto;

use super::body::Body;

/// The reason if every operator may occur in a cell.
pub(super) const OTHER_FORMULA: &str = "its operators are those of one, but not put together so; \
    a function that these lack in ONNX (such as Swish or Relu6), a clipped state and a projected \
    output are of this kind";

/// The most values that are visited.
const MAXIMUM_VALUES: usize = 1024;

/// The first operator that occurs in no cell, or the first weights that are not constant.
pub(super) fn not_of_cell<'a>(body: &Body<'a>, value: &'a str) -> Option<String> {
    let mut seen = HashSet::new();
    let mut todo = vec![value];
    while let Some(name) = todo.pop()
        && seen.len() < MAXIMUM_VALUES
    {
        let is_known = body.state(name).is_some() || body.sequence(name).is_some();
        if !seen.insert(name) || is_known {
            continue;
        }
        let Some((_, node)) = body.inner.maker(name) else {
            continue;
        };
        if let Some(why) = foreign(node, name) {
            return Some(why);
        }
        if let Some(weights) = node
            .input(1)
            .filter(|_| node.is("MatMul") || node.is("Gemm"))
            && body.floats(weights).is_none()
        {
            return Some(format!(
                "the weights {weights} are not a float32 constant in the model's own file"
            ));
        }
        todo.extend(node.inputs());
    }
    None
}

/// The reason if an operator, which makes a value, occurs in no cell.
fn foreign(node: &NodeProto, value: &str) -> Option<String> {
    let name = node.name.as_deref().filter(|it| !it.is_empty());
    let label = name.unwrap_or(value);
    match node.op() {
        // Activation functions of frameworks that ONNX's layers lack.
        op @ ("Celu" | "Erf" | "Erfc" | "Exp" | "Gelu" | "HardSwish" | "Mish" | "PRelu"
        | "Selu" | "Shrink" | "Sin" | "Swish") => Some(format!(
            "{op} ({label}) is not an activation of these layers in ONNX"
        )),
        // The operators and the activation functions of cells.
        "Add" | "Cast" | "Clip" | "Concat" | "Constant" | "Div" | "Elu" | "Expand" | "Gather"
        | "Gemm" | "HardSigmoid" | "Identity" | "LeakyRelu" | "MatMul" | "Max" | "Min" | "Mul"
        | "Not" | "Relu" | "Reshape" | "Sigmoid" | "Slice" | "Softplus" | "Softsign" | "Split"
        | "Squeeze" | "Sub" | "Tanh" | "ThresholdedRelu" | "Transpose" | "Unsqueeze" | "Where"
            if node.domain().is_empty() =>
        {
            None
        }
        op => Some(format!("{op} has no place in one ({label})")),
    }
}
