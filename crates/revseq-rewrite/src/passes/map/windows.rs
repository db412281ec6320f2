//! Operators on `[batch, channels, ...]` of a body, over all steps.
//!
//! The steps and the batch become one axis before them, and two again behind them:
//!
//! ```text
//! [steps, batch, 3, 8, 8]  =>  [steps * batch, 3, 8, 8]  =>  Conv  =>  [steps, batch, 4, 6, 6]
//! ```

use crate::model::{NodeProto, int};

use super::refusal::refusal;
use super::values::{Value, Values, data_alone};

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

/// The opset in which Reshape may take a size of 0 as it is.
const ALLOW_ZERO: i64 = 14;

pub(super) fn write(
    values: &mut Values<'_, '_>,
    node: &NodeProto,
    inputs: &[Value],
) -> Result<(), String> {
    let first = data_alone(node, inputs)?;
    if node.outputs().count() > 1 || node.int("training_mode").or(0) != Some(0) {
        return Err(refusal(node, "has more than one output"));
    }
    let least = if node.is("BatchNormalization") { 2 } else { 3 };
    if first.rank < least {
        return Err(refusal(node, "has no axis of a batch and of channels"));
    }
    if values.emit.opset() < ALLOW_ZERO {
        return Err(refusal(
            node,
            "may have an empty batch, which Reshape takes since version 14",
        ));
    }
    let as_is = || vec![int("allowzero", 1)];
    let behind = first.rank as i64 + 1;
    let shape = values.emit.plain("Shape", &[&first.name]);
    let batches = values.emit.range(&shape, 0, 0, 2);
    let all = values.emit.product(&batches, true);
    let rest = values.emit.range(&shape, 0, 2, behind);
    let folded = values
        .emit
        .op("Concat", &[&all, &rest], vec![int("axis", 0)]);
    let folded = values.emit.op("Reshape", &[&first.name, &folded], as_is());
    let mut names: Vec<String> = inputs.iter().map(|it| it.name().to_owned()).collect();
    names[0] = folded;
    let result = values.copy(node, names, Vec::new()).remove(0);
    let shape = values.emit.plain("Shape", &[&result]);
    let rest = values.emit.range(&shape, 0, 1, behind - 1);
    let whole = values
        .emit
        .op("Concat", &[&batches, &rest], vec![int("axis", 0)]);
    let name = values.emit.op("Reshape", &[&result, &whole], as_is());
    values.set_stepped(&node.output[0], name, first.rank);
    Ok(())
}
