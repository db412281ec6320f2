//! Softmax along an axis that is not the last one, which tract takes element by element.
//!
//! ```text
//! Softmax<axis=1>(x: [N, 16, 4, 2100])   becomes   Softmax along the last axis, between two moves
//! ```

use tract_onnx::tract_core::ops::nn::Softmax;
use tract_onnx::tract_hir::internal::*;

/// The operator along the last axis.
pub(super) fn along_last_axis(
    model: &TypedModel,
    node: &TypedNode,
) -> TractResult<Option<TypedModelPatch>> {
    rule_if_some!(op = node.op_as::<Softmax>());
    rule_if_let!([axis] = *op.axes);
    let fact = model.outlet_fact(node.inputs[0])?;
    let last = fact.rank() - 1;
    rule_if!(fact.datum_type.is::<f32>() && axis < last);
    let mut patch = TypedModelPatch::default();
    let mut value = patch.tap_model(model, node.inputs[0])?;
    let ops: [(&str, Box<dyn TypedOp>); 3] = [
        (".moved", Box::new(AxisOp::Move(axis, last))),
        (
            ".last",
            Box::new(Softmax {
                axes: tvec!(last),
                ..op.clone()
            }),
        ),
        ("", Box::new(AxisOp::Move(last, axis))),
    ];
    for (suffix, op) in ops {
        value = patch.wire_node(format!("{}{suffix}", node.name), op, &[value])?[0];
    }
    patch.shunt_outside(model, node.id.into(), value)?;
    Ok(Some(patch))
}
