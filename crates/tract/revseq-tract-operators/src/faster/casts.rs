//! Casts between half floats and floats by vectors.
//!
//! tract casts one number after another. A model that computes half floats in floats casts each of its
//! inputs and outputs, and rounds wherever it has casts itself: there, two casts become one operator.
//!
//! ```text
//! Cast(Cast(x, f16), f32)   becomes   HalfCast(x, rounded)
//! ```

use half::slice::HalfFloatSliceExt;
use tract_onnx::tract_core::ops::cast::Cast;
use tract_onnx::tract_hir::internal::*;

use crate::typed_op::{Stateless, Typed};

/// The numbers that are rounded together: their half floats stay in the nearest cache.
const ROUNDED_TOGETHER: usize = 1024;

/// A cast of half floats by vectors. One to half floats and back is one operator.
pub(crate) fn by_vectors(
    model: &TypedModel,
    node: &TypedNode,
) -> TractResult<Option<TypedModelPatch>> {
    rule_if_some!(cast = half_cast(model, node)?);
    let narrowed = model.linear_prec(node.id)?.filter(|before| {
        let before = before.op_as::<Typed<HalfCast>>();
        cast == HalfCast::Widened && before == Some(&Typed(HalfCast::Narrowed))
    });
    let (inputs, cast) = match narrowed {
        Some(before) => (&before.inputs, HalfCast::Rounded),
        None => (&node.inputs, cast),
    };
    TypedModelPatch::replace_single_op(model, node, inputs, Typed(cast)).map(Some)
}

/// What a Cast does, if it is from half floats to floats or back.
fn half_cast(model: &TypedModel, node: &TypedNode) -> TractResult<Option<HalfCast>> {
    rule_if_some!(cast = node.op_as::<Cast>());
    let from = model.outlet_fact(node.inputs[0])?.datum_type;
    Ok(match (from, cast.to) {
        (DatumType::F16, DatumType::F32) => Some(HalfCast::Widened),
        (DatumType::F32, DatumType::F16) => Some(HalfCast::Narrowed),
        _ => None,
    })
}

/// A cast between half floats and floats.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum HalfCast {
    /// From half floats to floats.
    Widened,
    /// From floats to half floats.
    Narrowed,
    /// From floats to half floats, and back.
    Rounded,
}

impl Stateless for HalfCast {
    const NAME: &str = "HalfCast";

    fn info(&self) -> TractResult<Vec<String>> {
        Ok(vec![format!("{self:?}").to_lowercase()])
    }

    fn eval(&self, _ctx: &EvalContext<'_>, inputs: TVec<TValue>) -> TractResult<TVec<TValue>> {
        let input = args_1!(inputs);
        let output = match self {
            Self::Widened => {
                let mut floats = Tensor::zero::<f32>(input.shape())?;
                let halves = input.try_as_plain_ram()?;
                let mut plain = floats.try_as_plain_ram_mut()?;
                let halves = halves.as_slice::<f16>()?;
                halves.convert_to_f32_slice(plain.as_slice_mut::<f32>()?);
                floats
            }
            Self::Narrowed => {
                let mut halves = Tensor::zero::<f16>(input.shape())?;
                let floats = input.try_as_plain_ram()?;
                let mut plain = halves.try_as_plain_ram_mut()?;
                let halves_of = plain.as_slice_mut::<f16>()?;
                halves_of.convert_from_f32_slice(floats.as_slice::<f32>()?);
                halves
            }
            Self::Rounded => {
                let mut floats = input.into_tensor();
                let mut plain = floats.try_as_plain_ram_mut()?;
                let mut halves = [f16::ZERO; ROUNDED_TOGETHER];
                for floats in plain.as_slice_mut::<f32>()?.chunks_mut(ROUNDED_TOGETHER) {
                    let halves = &mut halves[..floats.len()];
                    halves.convert_from_f32_slice(floats);
                    halves.convert_to_f32_slice(floats);
                }
                floats
            }
        };
        Ok(tvec!(output.into()))
    }

    fn output_facts(&self, inputs: &[&TypedFact]) -> TractResult<TVec<TypedFact>> {
        let to = match self {
            Self::Widened | Self::Rounded => f32::datum_type(),
            Self::Narrowed => f16::datum_type(),
        };
        Ok(tvec!(to.fact(inputs[0].shape.clone())))
    }
}
