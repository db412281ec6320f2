//! DynamicQuantizeLinear.

use recurrent_layers::Quantization;
use tract_onnx::model::ParsingContext;
use tract_onnx::pb::NodeProto;
use tract_onnx::tract_hir::internal::*;

use super::linear::bytes;
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

/// Quantises floats to uint8 by their [`Quantization`].
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
        let Quantization { scale, zero_point } = Quantization::of(data.as_slice::<f32>()?);
        let quantized = bytes(&inputs[0], scale, zero_point)?;
        Ok(tvec![
            quantized.into_tvalue(),
            tensor0(scale).into_tvalue(),
            tensor0(zero_point).into_tvalue(),
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
