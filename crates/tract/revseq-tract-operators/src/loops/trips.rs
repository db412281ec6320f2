//! Proves that a loop with a condition runs its whole trip count, whatever its value.
//!
//! The trip count is a symbol, so the loop cannot be followed (`induction.rs`). Conditions are
//! compared with it instead, for the largest number that each may see. The proof is of form alone:
//! it knows counters, sizes, comparisons and conjunctions, in any type that holds step numbers.
//!
//! ```text
//! trip count N, condition `step + 1 < N`  →  N steps
//! ```

use tract_onnx::tract_core::ops::binary::TypedBinOp;
use tract_onnx::tract_core::ops::cast::Cast;
use tract_onnx::tract_core::ops::change_axes::AxisOp;
use tract_onnx::tract_core::ops::identity::Identity;
use tract_onnx::tract_core::ops::konst::Const;
use tract_onnx::tract_core::ops::logic::{And, CompGT, CompGTE, CompLT, CompLTE};
use tract_onnx::tract_core::ops::math::Add;
use tract_onnx::tract_hir::internal::*;

use crate::cast_to_sizes::CastToSizes;
use crate::data_sizes::Next;
use crate::dims::scalar;
use crate::loops::induction::constant;
use crate::loops::spec::{Feed, Spec, one};
use crate::operators::compare::Comparison;
use crate::typed_op::Typed;

/// Whether the body outputs a condition that holds after every step but the last of `trip_count`.
///
/// Exporters write it for each Keras layer: `step + 1 < size` besides a trip count of `size`. Step
/// numbers are taken as exact in any type, although float32 is exact only up to 16,777,216.
pub(crate) fn holds_until(spec: &Spec, inputs: &[TypedFact], trip_count: &TDim) -> bool {
    let largest = |number: OutletId| {
        // The last step before another has number `trip_count - 2`.
        Some(trip_count.clone() - 2 + offset(spec, inputs, number)?)
    };
    spec.gives_condition && holds(&spec.body, spec.body.outputs[0], &largest)
}

/// The constant difference between a number in the body and the iteration number.
fn offset(spec: &Spec, inputs: &[TypedFact], outlet: OutletId) -> Option<i64> {
    let (base, offset) = counted(spec, outlet)?;
    match base {
        Base::Step => Some(offset),
        Base::State(state) => offset.checked_add(counter(spec, inputs, state)?),
    }
}

/// The initial value of a state that grows by 1 at each step.
fn counter(spec: &Spec, inputs: &[TypedFact], state: usize) -> Option<i64> {
    let after = spec.body.outputs[spec.state_output(state)];
    let is_counter = counted(spec, after)? == (Base::State(state), 1);
    let first = constant(&inputs[spec.states[state]]).filter(|_| is_counter)?;
    one(&first, "counter").ok()
}

/// The types that preserve step numbers.
const NUMBERS: [DatumType; 5] = [
    DatumType::I32,
    DatumType::I64,
    DatumType::F32,
    DatumType::F64,
    DatumType::TDim,
];

/// The base that a number counts from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Base {
    /// The iteration number.
    Step,
    /// A state before the step.
    State(usize),
}

/// Whether a condition holds for all numbers up to `largest`.
fn holds(
    model: &TypedModel,
    condition: OutletId,
    largest: &dyn Fn(OutletId) -> Option<TDim>,
) -> bool {
    let node = model.node(condition.node);
    if let Some(constant) = node.op_as::<Const>() {
        return scalar(constant.val()).unwrap_or(false);
    }
    if let Some(inner) = through(node) {
        return holds(model, inner, largest);
    }
    let [left, right] = &*node.inputs else {
        return false;
    };
    // Whether `number < size + more`.
    let is_less = |number: &OutletId, limit: &OutletId, more: i64| {
        let (Some(number), Some(limit)) = (largest(*number), size(model, *limit)) else {
            return false;
        };
        (limit + more - 1 - number).prove_positive_or_zero()
    };
    if let Some(Typed(comparison)) = node.op_as::<Typed<Comparison>>() {
        return match comparison {
            Comparison::Less => is_less(left, right, 0),
            Comparison::LessOrEqual => is_less(left, right, 1),
            Comparison::Greater => is_less(right, left, 0),
            Comparison::GreaterOrEqual => is_less(right, left, 1),
            Comparison::Equal => false,
        };
    }
    let Some(TypedBinOp(op, _)) = node.op_as::<TypedBinOp>() else {
        return false;
    };
    match () {
        () if op.is::<And>() => holds(model, *left, largest) && holds(model, *right, largest),
        () if op.is::<CompLT>() => is_less(left, right, 0),
        () if op.is::<CompLTE>() => is_less(left, right, 1),
        () if op.is::<CompGT>() => is_less(right, left, 0),
        () if op.is::<CompGTE>() => is_less(right, left, 1),
        () => false,
    }
}

/// A number in the body as a base plus an offset.
fn counted(spec: &Spec, outlet: OutletId) -> Option<(Base, i64)> {
    let body = &spec.body;
    if let Some(input) = body.inputs.iter().position(|it| *it == outlet) {
        return match spec.feeds[input] {
            Feed::Step => Some((Base::Step, 0)),
            Feed::State(state) => Some((Base::State(state), 0)),
            Feed::Outer(_) | Feed::Slice { .. } => None,
        };
    }
    let node = body.node(outlet.node);
    if let Some(inner) = through(node) {
        return counted(spec, inner);
    }
    let (TypedBinOp(op, _), [left, right]) = (node.op_as::<TypedBinOp>()?, &*node.inputs) else {
        return None;
    };
    let sum = |number: &OutletId, constant: &OutletId| {
        let (base, offset) = counted(spec, *number)?;
        let more = size(body, *constant)?.to_i64().ok()?;
        Some((base, offset.checked_add(more)?))
    };
    let is_sum = op.is::<Add>();
    is_sum.then(|| sum(left, right).or_else(|| sum(right, left)))?
}

/// A constant number, usually a size.
fn size(model: &TypedModel, outlet: OutletId) -> Option<TDim> {
    let node = model.node(outlet.node);
    if let Some(inner) = through(node) {
        return size(model, inner);
    }
    let value = node.op_as::<Const>()?.val();
    if value.len() != 1 {
        return None;
    }
    if value.datum_type() == TDim::datum_type() {
        let value = value.to_plain_array_view::<TDim>().ok()?;
        return value.iter().next().cloned();
    }
    let number: f64 = scalar(value).ok()?;
    let whole = number as i64;
    (whole as f64 == number).then(|| whole.to_dim())
}

/// The only input of a node that preserves numbers.
fn through(node: &TypedNode) -> Option<OutletId> {
    let keeps = node.op_is::<AxisOp>()
        || node.op_is::<Identity>()
        || node.op_is::<Typed<Next>>()
        || node.op_is::<Typed<CastToSizes>>()
        || node
            .op_as::<Cast>()
            .is_some_and(|cast| NUMBERS.contains(&cast.to));
    match *node.inputs {
        [input] if keeps => Some(input),
        _ => None,
    }
}
