//! The steps of sequences that are shorter than others.

use tract_onnx::tract_core::ops::array::Range as Count;
use tract_onnx::tract_core::ops::binary::TypedBinOp;
use tract_onnx::tract_core::ops::cast::cast;
use tract_onnx::tract_core::ops::change_axes::AxisOp;
use tract_onnx::tract_core::ops::logic::comp_lt;
use tract_onnx::tract_hir::internal::*;

use super::Wiring;
use super::layer::Layer;

/// Masks from the lengths of sequences.
pub(super) struct Lengths {
    /// Whether a step is within the sequence: [time, batch, 1].
    pub(super) goes_on: OutletId,
    /// Whether there is any step: [1, batch, 1].
    pub(super) is_any: OutletId,
}

impl Layer {
    /// Whether a step is within a sequence, if there are lengths and not all cover the sequence.
    pub(super) fn wire_lengths(
        &self,
        to: &mut Wiring<'_>,
        x: OutletId,
        inputs: &[OutletId],
    ) -> TractResult<Option<Lengths>> {
        rule_if_some!(lengths = self.inputs.lengths);
        let lengths = inputs[lengths];
        let time = to.fact(x)?.shape[0].clone();
        let known = to.fact(lengths)?.konst.as_ref();
        let known = known.and_then(|lengths| lengths.as_uniform());
        if let (Some(known), Ok(time)) = (known, time.to_i64()) {
            rule_if!(time == 0 || known.cast_to_scalar::<i64>()? != time);
        }
        let bound = |to: &mut Wiring<'_>, value: TDim| to.constant("steps", tensor0(value));
        let range = [
            bound(to, 0.to_dim())?,
            bound(to, time.clone())?,
            bound(to, 1.to_dim())?,
        ];
        let steps = to.op("steps", Count::new(time), &range)?;
        let steps = to.op("steps", cast(i64::datum_type()), &[steps])?;
        let steps = to.op("steps", AxisOp::Add(1), &[steps])?;
        let steps = to.op("steps", AxisOp::Add(2), &[steps])?;
        let lengths = to.op("lengths", AxisOp::Add(0), &[lengths])?;
        let lengths = to.op("lengths", AxisOp::Add(2), &[lengths])?;
        let less = || TypedBinOp(comp_lt(), None);
        let none = to.constant("none", tensor0(0i64))?;
        Ok(Some(Lengths {
            goes_on: to.op("goes_on", less(), &[steps, lengths])?,
            is_any: to.math("is_any", less(), &[none, lengths])?,
        }))
    }
}
