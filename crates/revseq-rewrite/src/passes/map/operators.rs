//! The operators of a body, over all steps.
//!
//! An axis of a step lies one place further behind over all steps, so most operators need another
//! axis, other axes or aligned operands only. Each either has such a form or is a reason to leave
//! the loop alone.

use crate::constant::{axes, normal_axis};
use crate::emit::{AXES_BY_INPUT, SOFTMAX_BY_ONE_AXIS};
use crate::model::{AttributeProto, NodeProto, int, ints};
use crate::operators::{BROADCAST, ELEMENTWISE, REDUCE};
use crate::passes::steps::body::{Count, Sequence};

use super::refusal::{SET_BY_CALLER, axis_behind, refusal};
use super::values::{Value, Values, data_alone};
use super::{products, shapes, windows};

/// Operators on each element of their first input, besides those of [`ELEMENTWISE`].
const MORE_ELEMENTWISE: &[&str] = &[
    "Acos",
    "Acosh",
    "Asin",
    "Asinh",
    "Atan",
    "Atanh",
    "BitwiseNot",
    "Celu",
    "Clip",
    "Cos",
    "Cosh",
    "Gelu",
    "HardSwish",
    "IsInf",
    "IsNaN",
    "Mish",
    "Shrink",
    "Sign",
    "Sin",
    "Sinh",
    "Tan",
];

/// Those of any number of inputs. ONNX lets these broadcast as others do, but runtimes expect inputs of
/// one number of axes: tract refuses a Mean whose first input has fewer.
const VARIADIC: &[&str] = &["Max", "Mean", "Min", "Sum"];

/// Operators that compute along one axis, and the axis by default.
const ALONG_AXIS: &[(&str, i64)] = &[
    ("ArgMax", 0),
    ("ArgMin", 0),
    ("Hardmax", -1),
    ("LayerNormalization", -1),
    ("LogSoftmax", -1),
    ("LpNormalization", -1),
    ("Softmax", -1),
    ("Split", 0),
    ("TopK", -1),
];

/// Operators that are written once if no input depends on the step, and have no form otherwise.
const FIXED_ONLY: &[&str] = &["Constant", "ConstantOfShape", "Range", "Size"];

/// The opset in which the axes of all reductions became an input.
const REDUCED_BY_INPUT: i64 = 18;

/// Writes a node of the body.
pub(super) fn write<'a>(values: &mut Values<'a, '_>, node: &'a NodeProto) -> Result<(), String> {
    let is_own = node.domain().is_empty() && node.graphs().next().is_none();
    if !is_own || !is_known(node.op()) {
        return Err(refusal(node, "has no form over all steps"));
    }
    if read_step(values, node)? {
        return Ok(());
    }
    let mut inputs = Vec::new();
    for name in &node.input {
        inputs.push(match name.as_str() {
            "" => Value::Fixed(String::new()),
            name => values.value(name)?,
        });
    }
    // It takes only the type of its second input.
    let depending = if node.is("CastLike") {
        &inputs[..1]
    } else {
        &inputs
    };
    if !depending.iter().any(Value::is_stepped) {
        let names = inputs.iter().map(|it| it.name().to_owned()).collect();
        let outputs = values.copy(node, names, Vec::new());
        for (name, output) in std::iter::zip(&node.output, outputs) {
            values.set(name, Value::Fixed(output));
        }
        return Ok(());
    }
    match node.op() {
        "Identity" => {
            values.set(&node.output[0], inputs[0].clone());
            Ok(())
        }
        op if is_elementwise(op) => elementwise(values, node, &inputs),
        op if BROADCAST.contains(&op) => broadcast(values, node, &inputs),
        op if REDUCE.contains(&op) => reduce(values, node, &inputs),
        op if ALONG_AXIS.iter().any(|(known, _)| *known == op) => along_axis(values, node, &inputs),
        "CastLike" => elementwise(values, node, &inputs),
        "Gather" => gather(values, node, &inputs),
        "MatMul" => products::matmul(values, node, &inputs),
        "Gemm" => products::gemm(values, node, &inputs),
        op if windows::OPERATORS.contains(&op) => windows::write(values, node, &inputs),
        op if shapes::OPERATORS.contains(&op) => shapes::write(values, node, &inputs),
        _ => Err(refusal(node, "depends on the step")),
    }
}

fn is_elementwise(op: &str) -> bool {
    ELEMENTWISE.contains(&op) || MORE_ELEMENTWISE.contains(&op)
}

fn is_known(op: &str) -> bool {
    let lists = [
        BROADCAST,
        REDUCE,
        FIXED_ONLY,
        windows::OPERATORS,
        shapes::OPERATORS,
    ];
    is_elementwise(op)
        || lists.iter().any(|list| list.contains(&op))
        || ALONG_AXIS.iter().any(|(known, _)| *known == op)
        || matches!(op, "CastLike" | "Gather" | "Gemm" | "MatMul")
}

/// Reads the step's own position of a sequence, if the node does so.
fn read_step<'a>(values: &mut Values<'a, '_>, node: &'a NodeProto) -> Result<bool, String> {
    let body = values.body;
    let step = node.input(1).filter(|_| node.is("Gather"));
    let Some(Count { ahead, rank }) = step.and_then(|step| body.counter(step)) else {
        return Ok(false);
    };
    let Some(name) = node.input(0).filter(|name| !body.inner.defines(name)) else {
        return Err(refusal(
            node,
            "reads a value of the body by the step's number",
        ));
    };
    if ahead != 0 {
        return Err(refusal(node, "reads another step than its own"));
    }
    let own_rank = values.rank(name)?;
    let axis = node
        .int("axis")
        .or(0)
        .and_then(|axis| normal_axis(axis, own_rank));
    let axis = axis.ok_or_else(|| refusal(node, "has an axis that is not known"))?;
    let sequence = Sequence {
        value: name,
        axis,
        backwards: false,
    };
    let step = values.sequence(sequence)?;
    let added: Vec<i64> = (0..rank).map(|place| (axis + 1 + place) as i64).collect();
    let mut all = step.name;
    if rank > 0 {
        all = values.emit.unsqueeze(&all, &added);
    }
    values.set_stepped(&node.output[0], all, step.rank + rank);
    Ok(true)
}

fn elementwise(
    values: &mut Values<'_, '_>,
    node: &NodeProto,
    inputs: &[Value],
) -> Result<(), String> {
    // Of the second one CastLike takes the type alone.
    let read = match node.is("CastLike") {
        true => &inputs[..1],
        false => inputs,
    };
    let first = data_alone(node, read)?;
    let rank = first.rank;
    copy_all(values, node, inputs, Vec::new(), rank);
    Ok(())
}

/// Writes a node over the values of all steps, whose outputs all have one rank.
fn copy_all(
    values: &mut Values<'_, '_>,
    node: &NodeProto,
    inputs: &[Value],
    attributes: Vec<AttributeProto>,
    rank: usize,
) {
    let names = inputs.iter().map(|it| it.name().to_owned()).collect();
    let outputs = values.copy(node, names, attributes);
    for (name, output) in std::iter::zip(&node.output, outputs) {
        values.set_stepped(name, output, rank);
    }
}

fn broadcast(
    values: &mut Values<'_, '_>,
    node: &NodeProto,
    inputs: &[Value],
) -> Result<(), String> {
    let mut ranks = Vec::new();
    for name in node.inputs() {
        ranks.push(values.rank(name)?);
    }
    let rank = ranks.iter().copied().max().unwrap_or(0);
    // Its first operand does not grow.
    if node.is("PRelu") && (ranks[0] < rank || !inputs[0].is_stepped()) {
        return Err(refusal(node, "broadcasts its first input"));
    }
    let mut names: Vec<String> = inputs.iter().map(|it| values.aligned(it, rank)).collect();
    if VARIADIC.contains(&node.op()) {
        // An operand without steps has fewer axes than they, even if all had as many in the body.
        for (place, name) in names.iter_mut().enumerate() {
            if !inputs[place].is_stepped() {
                let added: Vec<i64> = (0..=(rank - ranks[place]) as i64).collect();
                *name = values.emit.unsqueeze(name, &added);
            }
        }
    }
    let outputs = values.copy(node, names, Vec::new());
    values.set_stepped(&node.output[0], outputs[0].clone(), rank);
    Ok(())
}

fn along_axis(
    values: &mut Values<'_, '_>,
    node: &NodeProto,
    inputs: &[Value],
) -> Result<(), String> {
    let first = data_alone(node, inputs)?;
    if node.is("LayerNormalization") && node.outputs().count() > 1 {
        return Err(refusal(node, "outputs means or deviations"));
    }
    let op = node.op();
    let mut default = ALONG_AXIS
        .iter()
        .find(|(known, _)| *known == op)
        .map_or(0, |it| it.1);
    // It took all axes behind this one together.
    if matches!(op, "Softmax" | "LogSoftmax" | "Hardmax")
        && values.emit.opset() < SOFTMAX_BY_ONE_AXIS
    {
        default = 1;
    }
    let axis = node
        .int("axis")
        .or(default)
        .ok_or_else(|| refusal(node, SET_BY_CALLER))?;
    let axis = axis_behind(node, axis, first.rank)?;
    let is_arg = matches!(op, "ArgMax" | "ArgMin");
    let keeps = node
        .int("keepdims")
        .or(1)
        .ok_or_else(|| refusal(node, SET_BY_CALLER))?;
    let rank = first.rank - usize::from(is_arg && keeps == 0);
    copy_all(values, node, inputs, vec![int("axis", axis)], rank);
    Ok(())
}

fn reduce(values: &mut Values<'_, '_>, node: &NodeProto, inputs: &[Value]) -> Result<(), String> {
    let Value::Stepped(first) = &inputs[0] else {
        return Err(refusal(node, "has axes that depend on the step"));
    };
    let listed = axes(values.body.inner, node)
        .ok_or_else(|| refusal(node, "has axes that are not constant"))?;
    let is_same = node.int("noop_with_empty_axes").or(0) != Some(0);
    if listed.is_empty() && (is_same || first.rank == 0) {
        return Err(refusal(node, "lists no axes"));
    }
    let mut moved = Vec::new();
    for &axis in &listed {
        let axis = axis_behind(node, axis, first.rank)?;
        if !moved.contains(&axis) {
            moved.push(axis);
        }
    }
    if moved.len() < listed.len() {
        return Err(refusal(node, "lists an axis twice"));
    }
    if listed.is_empty() {
        moved = (1..=first.rank as i64).collect();
    }
    let keeps = node
        .int("keepdims")
        .or(1)
        .ok_or_else(|| refusal(node, SET_BY_CALLER))?;
    let rank = if keeps == 0 {
        first.rank - moved.len()
    } else {
        first.rank
    };
    let since = if node.is("ReduceSum") {
        AXES_BY_INPUT
    } else {
        REDUCED_BY_INPUT
    };
    let mut names = vec![first.name.clone()];
    let mut attributes = Vec::new();
    if values.emit.opset() >= since {
        names.push(values.emit.ints(&moved));
    } else {
        attributes.push(ints("axes", &moved));
    }
    let outputs = values.copy(node, names, attributes);
    values.set_stepped(&node.output[0], outputs[0].clone(), rank);
    Ok(())
}

/// Rows of a table by the step's indices, or of the step's value by constant ones.
fn gather(values: &mut Values<'_, '_>, node: &NodeProto, inputs: &[Value]) -> Result<(), String> {
    let axis = node
        .int("axis")
        .or(0)
        .ok_or_else(|| refusal(node, SET_BY_CALLER))?;
    let (name, indices) = (&node.input[0], &node.input[1]);
    let [rank, indices] = [values.rank(name)?, values.rank(indices)?];
    let axis = axis_behind(node, axis, rank)?;
    let all = (rank + indices).saturating_sub(1);
    match (&inputs[0], &inputs[1]) {
        (Value::Stepped(_), Value::Fixed(_)) => {
            copy_all(values, node, inputs, vec![int("axis", axis)], all);
            Ok(())
        }
        (Value::Fixed(_), Value::Stepped(_)) if axis == 1 => {
            copy_all(values, node, inputs, Vec::new(), all);
            Ok(())
        }
        (Value::Fixed(_), _) => Err(refusal(
            node,
            "reads a table along another axis than the first",
        )),
        _ => Err(refusal(
            node,
            "reads the step's value at places that depend on the step",
        )),
    }
}
