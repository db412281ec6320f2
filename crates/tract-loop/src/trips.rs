//! Loops that last for their trip count, whatever it is, though they have a condition, too.

use tract_onnx::tract_core::ops::binary::TypedBinOp;
use tract_onnx::tract_core::ops::cast::Cast;
use tract_onnx::tract_core::ops::change_axes::AxisOp;
use tract_onnx::tract_core::ops::identity::Identity;
use tract_onnx::tract_core::ops::konst::Const;
use tract_onnx::tract_core::ops::logic::{And, CompGT, CompGTE, CompLT, CompLTE};
use tract_onnx::tract_core::ops::math::Add;
use tract_onnx::tract_hir::internal::*;

use crate::induction::known;
use crate::spec::{Feed, Spec, one};

/// Whether the body gives a condition, and it holds after every step but the last of so many.
///
/// Exporters write it so for each layer of Keras: `step + 1 < size` beside a trip count of
/// `size`. Numbers of steps count as exact in any type, which float32 is not for more than
/// 16,777,216 of them.
pub(crate) fn holds_until(spec: &Spec, inputs: &[TypedFact], trip_count: &TDim) -> bool {
    let largest = |number: OutletId| {
        // The last step that another one follows has the number `trip_count - 2`.
        Some(trip_count.clone() - 2 + offset(spec, inputs, number)?)
    };
    spec.gives_condition && holds(&spec.body, spec.body.outputs[0], &largest)
}

/// Whether a condition around the loop holds if there is a step at all.
pub(crate) fn holds_at_first(model: &TypedModel, condition: OutletId, trip_count: &TDim) -> bool {
    let largest = |number: OutletId| {
        let number = size(model, number)?.to_i64().ok()?;
        // As much as a trip count of at least 1 allows.
        Some(trip_count.clone() - 1 + number)
    };
    holds(model, condition, &largest)
}

/// What a number in the body is more than that of the step, at each.
pub(crate) fn offset(spec: &Spec, inputs: &[TypedFact], outlet: OutletId) -> Option<i64> {
    let (base, offset) = counted(spec, outlet)?;
    match base {
        Base::Step => Some(offset),
        Base::State(state) => offset.checked_add(counter(spec, inputs, state)?),
    }
}

/// What a state starts with that is one more after each step.
pub(crate) fn counter(spec: &Spec, inputs: &[TypedFact], state: usize) -> Option<i64> {
    let after = spec.body.outputs[spec.state_output(state)];
    let is_counter = counted(spec, after)? == (Base::State(state), 1);
    let first = known(&inputs[spec.states[state]]).filter(|_| is_counter)?;
    one(&first, "counter").ok()
}

/// The types that numbers of steps keep their values in.
const NUMBERS: [DatumType; 5] = [
    DatumType::I32,
    DatumType::I64,
    DatumType::F32,
    DatumType::F64,
    DatumType::TDim,
];

/// What a number at each step is counted from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Base {
    /// The number of the step.
    Step,
    /// A state before the step.
    State(usize),
}

/// Whether a condition holds for numbers that are at most `largest`.
fn holds(
    model: &TypedModel,
    condition: OutletId,
    largest: &dyn Fn(OutletId) -> Option<TDim>,
) -> bool {
    let node = model.node(condition.node);
    if let Some(constant) = node.op_as::<Const>() {
        return constant.val().cast_to_scalar().unwrap_or(false);
    }
    if let Some(inner) = through(node) {
        return holds(model, inner, largest);
    }
    let (Some(TypedBinOp(op, _)), [left, right]) = (node.op_as::<TypedBinOp>(), &*node.inputs)
    else {
        return false;
    };
    // Whether `number < size + more`.
    let is_less = |number: &OutletId, limit: &OutletId, more: i64| {
        let (Some(number), Some(limit)) = (largest(*number), size(model, *limit)) else {
            return false;
        };
        (limit + more - 1 - number).prove_positive_or_zero()
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

/// A number in the body as one that counts steps, and what is added.
fn counted(spec: &Spec, outlet: OutletId) -> Option<(Base, i64)> {
    let body = &spec.body;
    if let Some(input) = body.inputs.iter().position(|it| *it == outlet) {
        return match spec.feeds[input] {
            Feed::Step => Some((Base::Step, 0)),
            Feed::State(state) => Some((Base::State(state), 0)),
            Feed::Outer(_) => None,
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

/// A constant number, a size most of the time.
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
    let number: f64 = value.cast_to_scalar().ok()?;
    let whole = number as i64;
    (whole as f64 == number).then(|| whole.to_dim())
}

/// The one input of a node that leaves numbers as they are.
fn through(node: &TypedNode) -> Option<OutletId> {
    let keeps = node.op_is::<AxisOp>()
        || node.op_is::<Identity>()
        || node
            .op_as::<Cast>()
            .is_some_and(|cast| NUMBERS.contains(&cast.to));
    match *node.inputs {
        [input] if keeps => Some(input),
        _ => None,
    }
}
