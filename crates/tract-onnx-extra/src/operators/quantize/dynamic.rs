//! DynamicQuantizeLinear.

use tract_onnx::model::ParsingContext;
use tract_onnx::pb::NodeProto;
use tract_onnx::tract_hir::internal::*;

use super::linear::{Real, bytes};
use crate::data_sizes::{CustomNode, CustomOp};
use crate::node::check_domain;

/// Parses a DynamicQuantizeLinear.
pub(super) fn parse(
    _ctx: &ParsingContext<'_>,
    node: &NodeProto,
) -> TractResult<(Box<dyn InferenceOp>, Vec<String>)> {
    check_domain(node)?;
    Ok((Box::new(CustomOp(Dynamic)), vec![]))
}

/// Returns the scale and the zero point of the range of floats, which includes 0.
fn parameters(data: &[f32]) -> (f32, u8) {
    let (least, most) = data.iter().fold((0_f32, 0_f32), |(least, most), &it| {
        (least.min(it), most.max(it))
    });
    let scale = if least == most {
        1.0
    } else {
        (most - least) / f32::from(u8::MAX)
    };
    let zero = (0.0 - least / scale).clamp(0.0, u8::MAX.into());
    (scale, zero.round_ties_even() as u8)
}

/// Quantises floats like [`Dynamic`], and dequantises them. NaN stays NaN.
pub(crate) fn fake_quantize(data: &mut [f32]) {
    let (scale, zero) = parameters(data);
    for it in data.iter_mut().filter(|it| !it.is_nan()) {
        let quantized = it.quantized(scale, zero.into(), 0, u8::MAX.into());
        *it = scale.times_small(quantized - i32::from(zero));
    }
}

/// Quantises floats to uint8 by [`parameters`].
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Dynamic;

impl CustomNode for Dynamic {
    type Typed = Self;

    fn name(&self) -> StaticName {
        "DynamicQuantizeLinear".into()
    }

    fn arity(&self) -> (usize, usize) {
        (1, 3)
    }

    fn typed(&self, _inputs: &[&TypedFact]) -> TractResult<Self> {
        Ok(self.clone())
    }
}

impl Op for Dynamic {
    fn name(&self) -> StaticName {
        "DynamicQuantizeLinear".into()
    }

    op_as_typed_op!();
}

impl EvalOp for Dynamic {
    op_out_of_plan!();

    fn eval(&self, _ctx: &EvalContext<'_>, inputs: TVec<TValue>) -> TractResult<TVec<TValue>> {
        let data = inputs[0].try_as_plain_ram()?;
        let (scale, zero) = parameters(data.as_slice::<f32>()?);
        let quantized = bytes(&inputs[0], scale, zero)?;
        Ok(tvec![
            quantized.into_tvalue(),
            tensor0(scale).into_tvalue(),
            tensor0(zero).into_tvalue(),
        ])
    }
}

impl TypedOp for Dynamic {
    fn output_facts(&self, inputs: &[&TypedFact]) -> TractResult<TVec<TypedFact>> {
        let datum_type = inputs[0].datum_type;
        ensure!(
            datum_type == f32::datum_type(),
            "its data is {datum_type:?}, expected floats"
        );
        let quantized = u8::fact(inputs[0].shape.clone());
        Ok(tvec![quantized, f32::scalar_fact(), u8::scalar_fact()])
    }

    as_op!();
}
