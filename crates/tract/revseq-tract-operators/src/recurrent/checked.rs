//! Checks of a layer's inputs: when it is wired, and of sizes and lengths that are not known by
//! then, when it runs.
//!
//! Every size follows from X and R. Different numbers are an error at once; sizes that may be equal
//! are compared at run time, by an operator that passes the input on. Lengths leave here as int64,
//! each within the number of steps, and all that comes after relies on it.

use tract_onnx::tract_hir::internal::*;

use super::layer::{Axes, ExpectedInput, Layer};
use crate::LengthsPolicy;
use crate::operator::Wiring;
use crate::typed_op::{Stateless, Typed};

/// Wires the checks of all inputs: lengths become int64.
pub(super) fn wire(
    to: &mut Wiring<'_>,
    layer: &Layer,
    inputs: &[OutletId],
) -> TractResult<TVec<OutletId>> {
    let mut checked: TVec<OutletId> = inputs.into();
    let (x, r) = (inputs[0], inputs[2]);
    let axes = layer.axes();
    for (input, expected) in layer.expected() {
        let (of_x, of_r) = (to.fact(x)?, to.fact(r)?);
        let sizes = expected.of(&of_x.shape, &of_r.shape, &axes);
        let shape = &to.fact(inputs[input])?.shape;
        let differs = |(size, expected): (&TDim, &TDim)| match (size.to_i64(), expected.to_i64()) {
            (Ok(size), Ok(expected)) => size != expected,
            _ => false,
        };
        if std::iter::zip(shape.iter(), &sizes).any(differs) {
            return Err(expected.wrong(shape, &sizes));
        }
        let name = expected.name;
        let counts = Some(input) == layer.inputs.lengths && layer.form.mask.is_none();
        let has_sizes = **shape == *sizes;
        let op = Checked {
            expected,
            axes,
            lengths: counts.then_some(layer.lengths),
        };
        if counts {
            checked[input] = wire_lengths(to, op, inputs[input], [x, r])?;
        } else if !has_sizes {
            checked[input] = to.op(name, Typed(op), &[inputs[input], x, r])?;
        }
    }
    Ok(checked)
}

/// Wires the check of lengths; known ones of a known number of steps become constants.
fn wire_lengths(
    to: &mut Wiring<'_>,
    op: Checked,
    lengths: OutletId,
    [x, r]: [OutletId; 2],
) -> TractResult<OutletId> {
    let datum_type = to.fact(lengths)?.datum_type;
    let types = [i32::datum_type(), i64::datum_type(), TDim::datum_type()];
    ensure!(
        types.contains(&datum_type),
        "its sequence_lens is {datum_type:?}, expected I32"
    );
    let lengths = to.cast("lengths", lengths, i64::datum_type())?;
    if let (Some(known), Some(policy)) = (to.fact(lengths)?.konst.clone(), op.lengths) {
        let steps = &to.fact(x)?.shape[op.axes.time];
        let within = within(known.into_tensor(), steps, policy)?;
        if steps.to_i64().is_ok() {
            return to.constant("lengths", within);
        }
    }
    to.op("lengths", Typed(op), &[lengths, x, r])
}

/// Passes on its first input once it has the sizes that it has to have, and as lengths, int64, numbers of
/// steps. The others are X and R.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Checked {
    expected: ExpectedInput,
    axes: Axes,
    /// What becomes of lengths out of range.
    lengths: Option<LengthsPolicy>,
}

impl Stateless for Checked {
    const NAME: &str = "CheckedInput";

    fn eval(&self, _ctx: &EvalContext<'_>, inputs: TVec<TValue>) -> TractResult<TVec<TValue>> {
        let [shape, x, r] = [0, 1, 2].map(|input| {
            let sizes = inputs[input].shape().iter();
            sizes.map(|size| size.to_dim()).collect::<TVec<TDim>>()
        });
        let sizes = self.expected.of(&x, &r, &self.axes);
        if shape != sizes {
            return Err(self.expected.wrong(&shape, &sizes));
        }
        let input = inputs.into_iter().next().context("it has an input")?;
        Ok(tvec![match self.lengths {
            Some(policy) => within(input.into_tensor(), &x[self.axes.time], policy)?.into_tvalue(),
            None => input,
        }])
    }

    fn output_facts(&self, inputs: &[&TypedFact]) -> TractResult<TVec<TypedFact>> {
        let (x, r) = (&inputs[1].shape, &inputs[2].shape);
        let sizes = self.expected.of(x, r, &self.axes);
        Ok(tvec![inputs[0].datum_type.fact(sizes)])
    }
}

/// Checks lengths, or clamps them: each is then 0 to the number of steps. One that is not known exceeds all
/// lengths.
fn within(mut lengths: Tensor, steps: &TDim, policy: LengthsPolicy) -> TractResult<Tensor> {
    let most = steps.to_i64().unwrap_or(i64::MAX);
    let mut plain = lengths.try_as_plain_ram_mut()?;
    for (index, length) in plain.as_slice_mut::<i64>()?.iter_mut().enumerate() {
        match policy {
            LengthsPolicy::Clamp => *length = (*length).clamp(0, most),
            LengthsPolicy::Reject => ensure!(
                (0..=most).contains(length),
                "sequence length {length} at index {index} is out of range: expected 0 to {steps}"
            ),
        }
    }
    Ok(lengths)
}
