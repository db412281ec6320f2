//! Arithmetic with an operand that has one element for each channel, as batch normalisation has that
//! is written out.
//!
//! tract has a path for an operand whose first axes are those of the other, and whose last axes have
//! size 1. It takes all other broadcasts element by element. So the operand is repeated along the
//! first axes, which are few elements beside the images:
//!
//! ```text
//! Mul(x: [N, C, H, W], scale: [1, C, 1, 1])  becomes  Mul(x, scale repeated to [N, C, 1, 1])
//! ```

use tract_onnx::tract_core::ops::array::MultiBroadcastTo;
use tract_onnx::tract_core::ops::binary::TypedBinOp;
use tract_onnx::tract_hir::internal::*;

/// The operator on an operand that is repeated, which is the second one.
pub(super) fn repeated(
    model: &TypedModel,
    node: &TypedNode,
) -> TractResult<Option<TypedModelPatch>> {
    rule_if_some!(op = node.op_as::<TypedBinOp>());
    rule_if!(op.0.as_linalg_binop().is_some());
    let facts = model.node_input_facts(node.id)?;
    rule_if!(facts.len() == 2 && facts.iter().all(|fact| fact.datum_type.is::<f32>()));
    // tract exchanges operands only if it knows which one has more elements.
    let shape = |whole: usize| sizes(&facts[whole].shape, &facts[1 - whole].shape);
    let found = match shape(0) {
        Some(sizes) => Some((0, sizes)),
        None if op.0.is_commutative() => shape(1).map(|sizes| (1, sizes)),
        None => None,
    };
    rule_if_some!((whole, sizes) = found);
    let mut patch = TypedModelPatch::default();
    let taps = patch.taps(model, &node.inputs)?;
    let shape = sizes.into();
    let name = patch
        .unique_name(format!("{}.repeated", node.name))
        .into_owned();
    let operand = patch.wire_node(name, MultiBroadcastTo { shape }, &[taps[1 - whole]])?[0];
    let output = patch.wire_node(&node.name, op.clone(), &[taps[whole], operand])?[0];
    // tract may find the operands too small, and would drop what it does not use.
    rule_if!(op.codegen(&patch, patch.node(output.node))?.is_some());
    patch.shunt_outside(model, node.id.into(), output)?;
    Ok(Some(patch))
}

/// The sizes of a repeated operand; `None` if tract's path does not serve it.
fn sizes(whole: &ShapeFact, operand: &ShapeFact) -> Option<TVec<TDim>> {
    let one = 1.to_dim();
    let first = operand.iter().take_while(|size| **size == one).count();
    let last = (first..operand.rank())
        .rev()
        .take_while(|axis| operand[*axis] == one)
        .count();
    let last = operand.rank() - last;
    let is_served = whole[..first].iter().any(|size| *size != one)
        && first < last
        && operand[first..last] == whole[first..last]
        && whole[last..].iter().any(|size| *size != one);
    is_served.then(|| {
        let repeated = whole[..first].iter();
        repeated.chain(&operand[first..]).cloned().collect()
    })
}
