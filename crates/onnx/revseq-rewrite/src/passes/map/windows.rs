//! Operators on `[batch, channels, ...]` of a body, over all steps.
//!
//! The steps and the batch become one axis before them, and two again behind them:
//!
//! ```text
//! [steps, batch, 3, 8, 8]  =>  [steps * batch, 3, 8, 8]  =>  Conv  =>  [steps, batch, 4, 6, 6]
//! ```

use crate::emit::ALLOW_ZERO;
use crate::model::NodeProto;

use super::refusal::refusal;
use super::values::{Stepped, Value, Values, data_alone};

pub(super) const OPERATORS: &[&str] = &[
    "AveragePool",
    "BatchNormalization",
    "Conv",
    "ConvTranspose",
    "DepthToSpace",
    "GlobalAveragePool",
    "GlobalMaxPool",
    "InstanceNormalization",
    "LRN",
    "MaxPool",
    "SpaceToDepth",
];

pub(super) fn write(
    values: &mut Values<'_, '_>,
    node: &NodeProto,
    inputs: &[Value],
) -> Result<Stepped, String> {
    let emit = values.emit;
    let first = data_alone(node, inputs)?;
    if node.outputs().count() > 1 || node.int("training_mode").or(0) != Some(0) {
        return Err(refusal(node, "has more than one output"));
    }
    if is_ambiguous(node).unwrap_or(true) {
        let why = "rounds its size up, of which ONNX's own inference may be wrong";
        return Err(refusal(node, why));
    }
    let least = if node.is("BatchNormalization") { 2 } else { 3 };
    if first.rank < least {
        return Err(refusal(node, "has no axis of a batch and of channels"));
    }
    if emit.opset() < ALLOW_ZERO {
        let why = "may have an empty batch, which Reshape takes since version 14";
        return Err(refusal(node, why));
    }
    let behind = first.rank as i64 + 1;
    let batches = emit.sizes(&first.name, 0, 2);
    let all = emit.product(&batches, true);
    let folded = emit.concat((all, emit.sizes(&first.name, 2, behind)), 0);
    let mut names: Vec<String> = inputs.iter().map(|it| it.name().to_owned()).collect();
    names[0] = emit.reshape(&first.name, folded);
    let result = emit.one_again(node, names, Vec::new());
    let whole = emit.concat((batches, emit.sizes(&result, 1, behind - 1)), 0);
    Ok(Stepped::new(emit.reshape(&result, whole), first.rank))
}

/// Whether a window of a pool that rounds its size up may begin behind the input and what is before it.
/// ONNX's inference counts such a window, and runtimes do not compute it, but fold the inferred shape.
/// `None` if a function's caller says.
fn is_ambiguous(node: &NodeProto) -> Option<bool> {
    if node.int("ceil_mode").or(0)? == 0 {
        return Some(false);
    }
    let listed = |attribute| node.ints(attribute).or(&[]);
    let (strides, dilations, pads) = (listed("strides")?, listed("dilations")?, listed("pads")?);
    let kernel = listed("kernel_shape")?;
    let at = |list: &[i64], place: usize, default| list.get(place).copied().unwrap_or(default);
    let mut axes = 0..kernel.len();
    Some(axes.any(|axis| {
        let covered = (kernel[axis].saturating_sub(1))
            .saturating_mul(at(dilations, axis, 1))
            .saturating_add(1);
        let behind = at(pads, kernel.len() + axis, 0);
        behind.saturating_add(at(strides, axis, 1)) > covered
    }))
}
