//! Loops that end by their trip count, whatever it is, though they have a condition, too.

use tract_onnx::tract_core::ops::binary::TypedBinOp;
use tract_onnx::tract_core::ops::cast::Cast;
use tract_onnx::tract_core::ops::change_axes::AxisOp;
use tract_onnx::tract_core::ops::identity::Identity;
use tract_onnx::tract_core::ops::konst::Const;
use tract_onnx::tract_core::ops::logic::{And, CompGT, CompGTE, CompLT, CompLTE};
use tract_onnx::tract_core::ops::math::Add;
use tract_onnx::tract_hir::internal::*;

use crate::induction::known;
use crate::op::{Feed, Spec};
use crate::run::one;

/// Whether the body gives a condition, and it holds after every step but the last of so many.
///
/// Exporters write it so for each layer of Keras: `step + 1 < size` beside a trip count of
/// `size`. Numbers of steps count as exact in any type, which float32 is not for more than
/// 16,777,216 of them, and the condition before the first step is not looked at: a loop that
/// runs has to check that it did run as often.
pub(crate) fn holds_until(spec: &Spec, inputs: &[TypedFact], trip_count: &TDim) -> bool {
    let body = Body { spec, inputs };
    spec.gives_condition && body.holds(spec.body.outputs[0], trip_count)
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

struct Body<'a> {
    spec: &'a Spec,
    /// Those of the loop.
    inputs: &'a [TypedFact],
}

impl Body<'_> {
    fn holds(&self, outlet: OutletId, trip_count: &TDim) -> bool {
        let node = self.spec.body.node(outlet.node);
        if let Some(constant) = node.op_as::<Const>() {
            let value = constant.val().cast_to_scalar::<bool>();
            return value.unwrap_or(false);
        }
        let [left, right] = *node.inputs else {
            let through = self.through(node);
            return through.is_some_and(|inner| self.holds(inner, trip_count));
        };
        let Some(TypedBinOp(op, _)) = node.op_as::<TypedBinOp>() else {
            return false;
        };
        match () {
            () if op.is::<And>() => self.holds(left, trip_count) && self.holds(right, trip_count),
            () if op.is::<CompLT>() => self.is_less(left, right, 0, trip_count),
            () if op.is::<CompLTE>() => self.is_less(left, right, 1, trip_count),
            () if op.is::<CompGT>() => self.is_less(right, left, 0, trip_count),
            () if op.is::<CompGTE>() => self.is_less(right, left, 1, trip_count),
            () => false,
        }
    }

    /// Whether `number < size + more` at every step but the last.
    fn is_less(&self, number: OutletId, size: OutletId, more: i64, trip_count: &TDim) -> bool {
        let (Some(offset), Some(size)) = (self.after_the_step(number), self.size(size)) else {
            return false;
        };
        // The last step that another one follows has the number `trip_count - 2`.
        let largest = trip_count.clone() - 2 + offset;
        (size + more - 1 - largest).prove_positive_or_zero()
    }

    /// What a number is more than that of the step, at each.
    fn after_the_step(&self, outlet: OutletId) -> Option<i64> {
        let (base, offset) = self.counted(outlet)?;
        let Base::State(state) = base else {
            return Some(offset);
        };
        let after = self.spec.body.outputs[self.spec.state_output(state)];
        let is_counter = self.counted(after)? == (base, 1);
        let first = known(&self.inputs[self.spec.states[state]])?;
        let first: i64 = one(&first, "counter").ok()?;
        is_counter.then(|| offset.checked_add(first)).flatten()
    }

    fn counted(&self, outlet: OutletId) -> Option<(Base, i64)> {
        let body = &self.spec.body;
        if let Some(input) = body.inputs.iter().position(|it| *it == outlet) {
            return match self.spec.feeds[input] {
                Feed::Step => Some((Base::Step, 0)),
                Feed::State(state) => Some((Base::State(state), 0)),
                Feed::Outer(_) => None,
            };
        }
        let node = body.node(outlet.node);
        if let Some(inner) = self.through(node) {
            return self.counted(inner);
        }
        let [left, right] = *node.inputs else {
            return None;
        };
        let TypedBinOp(op, _) = node.op_as::<TypedBinOp>()?;
        if !op.is::<Add>() {
            return None;
        }
        let sum = |number: OutletId, constant: OutletId| {
            let (base, offset) = self.counted(number)?;
            let more = self.size(constant)?.to_i64().ok()?;
            Some((base, offset.checked_add(more)?))
        };
        sum(left, right).or_else(|| sum(right, left))
    }

    /// A constant number, a size most of the time.
    fn size(&self, outlet: OutletId) -> Option<TDim> {
        let node = self.spec.body.node(outlet.node);
        if let Some(inner) = self.through(node) {
            return self.size(inner);
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
    fn through(&self, node: &TypedNode) -> Option<OutletId> {
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
}
