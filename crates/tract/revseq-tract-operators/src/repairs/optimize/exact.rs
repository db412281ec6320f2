//! tract's simplifications of single operators, without those that change results.
//!
//! tract takes floats for real numbers. Of these rewrites some overflow where the original does not,
//! some round once more, and some lose infinity, NaN or the sign of zero:
//!
//! ```text
//! (x · a) · b  →  x · (a · b)      sum(x · a)  →  sum(x) · a      x · 0  →  0      x + 0  →  x
//! sqrt(x)²  →  x      pow(x, 1/2)  →  sqrt(x)      sum(x²) · about 1/N  →  mean(x²)
//! ```
//!
//! It also multiplies by what was broadcast without that, for which the sizes of the product, and the
//! number of its summands, then lack a source:
//!
//! ```text
//! broadcast(x, [3, 4]) · y  →  x · y, with x of [3, 1] and y of [4, 5]
//! ```

use tract_onnx::tract_core::ops::array::{MultiBroadcastTo, Slice, TypedConcat};
use tract_onnx::tract_core::ops::binary::TypedBinOp;
use tract_onnx::tract_core::ops::cnn::{Conv, PaddingSpec};
use tract_onnx::tract_core::ops::downsample::Downsample;
use tract_onnx::tract_core::ops::einsum::EinSum;
use tract_onnx::tract_core::ops::element_wise::{ElementWiseMiniOp, ElementWiseOp};
use tract_onnx::tract_core::ops::math::{Add, Mul, Pow, Sqrt, Square, Sub, SubF};
use tract_onnx::tract_core::ops::nn::{Reduce, Reducer};
use tract_onnx::tract_core::optim::OptimizerSession;
use tract_onnx::tract_hir::internal::*;

use crate::dims::scalar;

/// The node as tract simplifies it.
pub(super) fn simplified(
    session: &mut OptimizerSession<'_>,
    model: &TypedModel,
    node: &TypedNode,
) -> TractResult<Option<TypedModelPatch>> {
    rule_if!(is_exact(model, node)?);
    // What cannot be simplified, such as a reshape of an axis that another operand has not, stays.
    let simplified = node.op.declutter_with_session(session, model, node);
    Ok(simplified.unwrap_or_default())
}

/// The node with what follows it, as one.
pub(super) fn fused(
    _session: &mut OptimizerSession<'_>,
    model: &TypedModel,
    node: &TypedNode,
) -> TractResult<Option<TypedModelPatch>> {
    Ok(node.op.fuse(model, node).unwrap_or_default())
}

/// The same beside a pass that merges the axes of products, which tract would take apart again, without
/// end, if their sizes are unknown.
pub(super) fn simplified_but_products(
    session: &mut OptimizerSession<'_>,
    model: &TypedModel,
    node: &TypedNode,
) -> TractResult<Option<TypedModelPatch>> {
    rule_if!(!node.op_is::<EinSum>());
    simplified(session, model, node)
}

/// Whether what tract makes of an operator has the same results.
fn is_exact(model: &TypedModel, node: &TypedNode) -> TractResult<bool> {
    if let Some(op) = node.op_as::<EinSum>() {
        return needs_no_broadcast(op, model, node);
    }
    if let Some(op) = node.op_as::<Downsample>() {
        let before = model.linear_prec(node.id)?;
        return Ok(before.is_none_or(|before| may_skip_before(op, before)));
    }
    if let Some(op) = node.op_as::<TypedConcat>() {
        return Ok(has_elements(op, &model.node_input_facts(node.id)?));
    }
    if node.op_is::<TypedBinOp>() && !has_numbers(model, node)? {
        return Ok(false);
    }
    let is_float = |output: &Outlet<TypedFact>| output.fact.datum_type.is_float();
    if !node.outputs.iter().all(is_float) {
        return Ok(true);
    }
    if let Some(op) = node.op_as::<TypedBinOp>() {
        is_exact_binary(op, model, node)
    } else if let Some(op) = node.op_as::<ElementWiseOp>() {
        let before = model.linear_prec(node.id)?;
        Ok(!(op.0.is::<Square>() && before.is_some_and(is_function::<Sqrt>)))
    } else if let Some(op) = node.op_as::<Reduce>() {
        is_exact_sum(op, model, node)
    } else {
        Ok(true)
    }
}

/// Whether an operator computes the elements that are kept from those that are kept of its inputs, as
/// tract takes for granted of all that keep an axis. A convolution begins with the first element, and
/// its padding may follow from its strides.
fn may_skip_before(op: &Downsample, before: &TypedNode) -> bool {
    if let Some(conv) = before.op_as::<Conv>() {
        let is_same = matches!(
            conv.pool_spec.padding,
            PaddingSpec::SameUpper | PaddingSpec::SameLower
        );
        return op.modulo == 0 && !is_same;
    }
    before.op_is::<ElementWiseOp>()
        || before.op_is::<TypedBinOp>()
        || before.op_is::<EinSum>()
        || before.op_is::<Slice>()
        || before.op_is::<AxisOp>()
}

/// Whether no value to join lacks elements for another axis than the one along which they are joined,
/// where tract would leave out its size.
fn has_elements(op: &TypedConcat, facts: &[&TypedFact]) -> bool {
    let is_zero = |size: &TDim| *size == TDim::Val(0);
    let mut shapes = facts.iter().map(|fact| &fact.shape);
    shapes.all(|shape| is_zero(&shape[op.axis]) || !shape.iter().any(is_zero))
}

/// Whether no operand is a constant without numbers, of which tract reads one.
fn has_numbers(model: &TypedModel, node: &TypedNode) -> TractResult<bool> {
    let is_empty = |number: &Option<Arc<Tensor>>| number.as_ref().is_some_and(|it| it.len() == 0);
    let facts = model.node_input_facts(node.id)?;
    Ok(!facts
        .iter()
        .any(|fact| is_empty(&fact.konst) || is_empty(&fact.uniform)))
}

/// Whether each size to which an operand was broadcast is one of another operand and of the product.
fn needs_no_broadcast(op: &EinSum, model: &TypedModel, node: &TypedNode) -> TractResult<bool> {
    let facts = model.node_input_facts(node.id)?;
    for (slot, input) in node.inputs.iter().enumerate() {
        let before = model.node(input.node);
        if !before.op_is::<MultiBroadcastTo>() {
            continue;
        }
        let from = &model.outlet_fact(before.inputs[0])?.shape;
        let to = &facts[slot].shape;
        if from.rank() != to.rank() {
            return Ok(false);
        }
        for axis in (0..to.rank()).filter(|axis| from[*axis] != to[*axis]) {
            let places = op.axes.axis((InOut::In(slot), axis))?;
            let others = std::iter::zip(&facts, &places.inputs).enumerate();
            let mut others = others.filter(|(other, _)| *other != slot);
            let has_size = others.any(|(_, (fact, places))| {
                let mut sizes = places.iter().map(|at| &fact.shape[*at]);
                sizes.any(|size| *size == to[axis])
            });
            if places.outputs[0].is_empty() || !from[axis].is_one() || !has_size {
                return Ok(false);
            }
        }
    }
    Ok(true)
}

fn is_function<T: ElementWiseMiniOp>(node: &TypedNode) -> bool {
    let op = node.op_as::<ElementWiseOp>();
    op.is_some_and(|op| op.0.is::<T>())
}

fn is_exact_binary(op: &TypedBinOp, model: &TypedModel, node: &TypedNode) -> TractResult<bool> {
    let facts = model.node_input_facts(node.id)?;
    // tract compares constants as floats of 32 bits.
    let number = |fact: &TypedFact| scalar::<f64>(fact.uniform.as_ref()?).ok();
    let numbers: TVec<Option<f64>> = facts.iter().map(|fact| number(fact)).collect();
    let is_known =
        facts.iter().any(|fact| fact.konst.is_some()) || numbers.iter().any(Option::is_some);
    // What has no number may be broadcast by one that has many.
    let output = &node.outputs[0].fact.shape;
    let mut others = std::iter::zip(&facts, &numbers).filter(|(_, number)| number.is_none());
    if numbers.iter().any(Option::is_some) && others.any(|(fact, _)| fact.shape != *output) {
        return Ok(false);
    }
    Ok(if op.0.is::<Mul>() {
        !is_known || numbers.contains(&Some(1.0))
    } else if op.0.is::<Add>() || op.0.is::<Sub>() || op.0.is::<SubF>() {
        !is_known
    } else if op.0.is::<Pow>() {
        match numbers[1] {
            Some(exponent) if facts[0].datum_type.is::<f64>() => exponent == 2.0,
            Some(exponent) => exponent != 0.5,
            None => true,
        }
    } else {
        true
    })
}

fn is_exact_sum(op: &Reduce, model: &TypedModel, node: &TypedNode) -> TractResult<bool> {
    let before = model.linear_prec(node.id)?;
    let Some(before) = before.filter(|_| op.reducer == Reducer::Sum) else {
        return Ok(true);
    };
    let binary = before.op_as::<TypedBinOp>();
    if binary.is_some_and(|op| op.0.is::<Mul>()) {
        let facts = model.node_input_facts(before.id)?;
        return Ok(facts.iter().all(|fact| fact.konst.is_none()));
    }
    if !is_function::<Square>(before) {
        return Ok(true);
    }
    // tract computes a mean of squares in floats of 32 bits, and takes a factor near 1/N for 1/N.
    let squares = &before.outputs[0].fact;
    let sizes = op.axes.iter().map(|axis| &squares.shape[*axis]);
    let count = sizes.product::<TDim>().to_i64().ok();
    let (Some(count), [reader]) = (count, &*node.outputs[0].successors) else {
        return Ok(true);
    };
    let reader = model.node(reader.node);
    for input in reader.inputs.iter().filter(|input| input.node != node.id) {
        let uniform = model.outlet_fact(*input)?.uniform.as_ref();
        let factor = uniform.and_then(|it| scalar::<f32>(it).ok());
        if factor.is_some_and(|factor| factor != (count as f32).recip()) {
            return Ok(false);
        }
    }
    Ok(!squares.datum_type.is::<f64>())
}
