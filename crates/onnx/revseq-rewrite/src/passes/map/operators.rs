//! The operators of a body, over all steps.
//!
//! An axis of a step lies one place further behind over all steps, so most operators need another
//! axis, other axes or aligned operands only. Each either has such a form or is a reason to leave
//! the loop alone.

use crate::constant::{axes, normal_axis};
use crate::emit::{AXES_BY_INPUT, SOFTMAX_BY_ONE_AXIS};
use crate::model::{self, AttributeProto, NodeProto};
use crate::operators::{self, broadcasts, reduces};
use crate::passes::steps::body::{Count, Sequence};

use super::refusal::{axes_behind, axis_behind, int, refusal};
use super::values::{Stepped, Value, Values, data_alone};
use super::{products, shapes, windows};

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

/// Operators of two inputs at least.
const OF_TWO: &[&str] = &["Expand", "Gather", "Gemm", "MatMul", "Reshape"];

/// The opset in which the axes of all reductions became an input.
const REDUCED_BY_INPUT: i64 = 18;

/// Writes a node of the body.
pub(super) fn write<'a>(values: &mut Values<'a, '_>, node: &'a NodeProto) -> Result<(), String> {
    let is_own = node.domain().is_empty() && node.graphs().next().is_none();
    let is_whole =
        node.outputs().next().is_some() && (node.input.len() >= 2 || !OF_TWO.contains(&node.op()));
    if !is_own || !is_whole || !is_known(node.op()) {
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
    if !depending(node, &inputs).iter().any(Value::is_stepped) {
        let names: Vec<&str> = inputs.iter().map(Value::name).collect();
        let outputs = values.emit.again(node, names, Vec::new());
        for (name, output) in std::iter::zip(&node.output, outputs) {
            values.set(name, Value::Fixed(output));
        }
        return Ok(());
    }
    let written = match node.op() {
        "Identity" => inputs[0].clone(),
        "Shape" => shapes::shape(values, node, &inputs)?,
        op => Value::Stepped(match op {
            "CastLike" => elementwise(values, node, &inputs)?,
            "Gather" => gather(values, node, &inputs)?,
            "MatMul" => products::matmul(values, node, &inputs)?,
            "Gemm" => products::gemm(values, node, &inputs)?,
            op if is_elementwise(op) => elementwise(values, node, &inputs)?,
            op if broadcasts(op) => broadcast(values, node, &inputs)?,
            op if reduces(op) => reduce(values, node, &inputs)?,
            op if along(op).is_some() => along_axis(values, node, &inputs)?,
            op if windows::OPERATORS.contains(&op) => windows::write(values, node, &inputs)?,
            op if shapes::OPERATORS.contains(&op) => shapes::write(values, node, &inputs)?,
            _ => return Err(refusal(node, "depends on the step")),
        }),
    };
    values.set(&node.output[0], written);
    Ok(())
}

/// The inputs of a node of which more than the type is read.
fn depending<'v>(node: &NodeProto, inputs: &'v [Value]) -> &'v [Value] {
    match node.is("CastLike") {
        true => &inputs[..1],
        false => inputs,
    }
}

/// Whether an operator is one on each element of its first input.
fn is_elementwise(op: &str) -> bool {
    operators::is_elementwise(op) || op == "Clip"
}

/// The axis along which an operator computes by default.
fn along(op: &str) -> Option<i64> {
    let known = ALONG_AXIS.iter().find(|(known, _)| *known == op);
    known.map(|(_, axis)| *axis)
}

fn is_known(op: &str) -> bool {
    let lists = [FIXED_ONLY, windows::OPERATORS, shapes::OPERATORS];
    is_elementwise(op)
        || broadcasts(op)
        || reduces(op)
        || lists.iter().any(|list| list.contains(&op))
        || along(op).is_some()
        || matches!(op, "CastLike" | "Gather" | "Gemm" | "MatMul" | "Shape")
}

/// Reads the step's own position of a sequence, if the node does so.
fn read_step<'a>(values: &mut Values<'a, '_>, node: &'a NodeProto) -> Result<bool, String> {
    let body = values.body;
    let step = node.input(1).filter(|_| node.is("Gather"));
    let Some(Count { ahead, rank }) = step.and_then(|step| body.counter(step)) else {
        return Ok(false);
    };
    let table = node.input(0).filter(|name| !body.inner.defines(name));
    let name =
        table.ok_or_else(|| refusal(node, "reads a value of the body by the step's number"))?;
    if ahead != 0 {
        return Err(refusal(node, "reads another step than its own"));
    }
    let own_rank = values.rank(name)?;
    let axis = node.int("axis").or(0);
    let axis = axis.and_then(|axis| normal_axis(axis, own_rank));
    let axis = axis.ok_or_else(|| refusal(node, "has an axis that is not known"))?;
    let sequence = Sequence {
        value: name,
        axis,
        backwards: false,
    };
    let step = values.sequence(sequence)?;
    let added: Vec<i64> = (0..rank).map(|place| (axis + 1 + place) as i64).collect();
    let all = values.emit.unsqueeze(&step.name, &added);
    let written = Stepped::new(all, step.rank + rank);
    values.set(&node.output[0], Value::Stepped(written));
    Ok(true)
}

fn elementwise(
    values: &mut Values<'_, '_>,
    node: &NodeProto,
    inputs: &[Value],
) -> Result<Stepped, String> {
    let rank = data_alone(node, depending(node, inputs))?.rank;
    Ok(copy_all(values, node, inputs, Vec::new(), rank))
}

/// Writes a node over the values of all steps, whose outputs all have one rank. Returns the first.
fn copy_all(
    values: &mut Values<'_, '_>,
    node: &NodeProto,
    inputs: &[Value],
    attributes: Vec<AttributeProto>,
    rank: usize,
) -> Stepped {
    let names: Vec<&str> = inputs.iter().map(Value::name).collect();
    let outputs = values.emit.again(node, names, attributes);
    let mut outputs = outputs.into_iter().map(|it| Stepped::new(it, rank));
    let first = outputs.next().unwrap_or_default();
    for (name, output) in std::iter::zip(&node.output[1..], outputs) {
        values.set(name, Value::Stepped(output));
    }
    first
}

fn broadcast(
    values: &mut Values<'_, '_>,
    node: &NodeProto,
    inputs: &[Value],
) -> Result<Stepped, String> {
    let ranks = node.inputs().map(|name| values.rank(name));
    let ranks: Vec<usize> = ranks.collect::<Result<_, _>>()?;
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
    let name = values.emit.one_again(node, names, Vec::new());
    Ok(Stepped::new(name, rank))
}

fn along_axis(
    values: &mut Values<'_, '_>,
    node: &NodeProto,
    inputs: &[Value],
) -> Result<Stepped, String> {
    let first = data_alone(node, inputs)?;
    if node.is("LayerNormalization") && node.outputs().count() > 1 {
        return Err(refusal(node, "outputs means or deviations"));
    }
    let op = node.op();
    // It took all axes behind this one together.
    let took_all = matches!(op, "Softmax" | "LogSoftmax" | "Hardmax")
        && values.emit.opset() < SOFTMAX_BY_ONE_AXIS;
    let default = if took_all { 1 } else { along(op).unwrap_or(0) };
    let axis = axis_behind(node, int(node, "axis", default)?, first.rank)?;
    let is_arg = matches!(op, "ArgMax" | "ArgMin");
    let keeps = int(node, "keepdims", 1)? != 0;
    let rank = first.rank - usize::from(is_arg && !keeps);
    let attributes = vec![model::int("axis", axis)];
    Ok(copy_all(values, node, inputs, attributes, rank))
}

fn reduce(
    values: &mut Values<'_, '_>,
    node: &NodeProto,
    inputs: &[Value],
) -> Result<Stepped, String> {
    let Value::Stepped(first) = &inputs[0] else {
        return Err(refusal(node, "has axes that depend on the step"));
    };
    let listed = axes(values.body.inner, node)
        .ok_or_else(|| refusal(node, "has axes that are not constant"))?;
    let is_same = node.int("noop_with_empty_axes").or(0) != Some(0);
    if listed.is_empty() && (is_same || first.rank == 0) {
        return Err(refusal(node, "lists no axes"));
    }
    let moved = match listed.is_empty() {
        true => (1..=first.rank as i64).collect(),
        false => axes_behind(node, &listed, first.rank)?,
    };
    let rank = match int(node, "keepdims", 1)? {
        0 => first.rank - moved.len(),
        _ => first.rank,
    };
    let since = match node.is("ReduceSum") {
        true => AXES_BY_INPUT,
        false => REDUCED_BY_INPUT,
    };
    let mut names = vec![first.name.clone()];
    let mut attributes = Vec::new();
    if values.emit.opset() >= since {
        names.push(values.emit.ints(&moved));
    } else {
        attributes.push(model::ints("axes", &moved));
    }
    let name = values.emit.one_again(node, names, attributes);
    Ok(Stepped::new(name, rank))
}

/// Rows of a table by the step's indices, or of the step's value by constant ones.
fn gather(
    values: &mut Values<'_, '_>,
    node: &NodeProto,
    inputs: &[Value],
) -> Result<Stepped, String> {
    let axis = int(node, "axis", 0)?;
    let [rank, indices] = [values.rank(&node.input[0])?, values.rank(&node.input[1])?];
    let axis = axis_behind(node, axis, rank)?;
    let all = (rank + indices).saturating_sub(1);
    let attributes = match (&inputs[0], &inputs[1]) {
        (Value::Stepped(_), Value::Fixed(_)) => vec![model::int("axis", axis)],
        (Value::Fixed(_), Value::Stepped(_)) if axis == 1 => Vec::new(),
        (Value::Fixed(_), _) => {
            let why = "reads a table along another axis than the first";
            return Err(refusal(node, why));
        }
        _ => {
            let why = "reads the step's value at places that depend on the step";
            return Err(refusal(node, why));
        }
    };
    Ok(copy_all(values, node, inputs, attributes, all))
}
