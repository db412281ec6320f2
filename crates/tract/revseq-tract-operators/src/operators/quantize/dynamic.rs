//! DynamicQuantizeLinear.

use recurrent_layers::Quantization;
use tract_onnx::model::ParsingContext;
use tract_onnx::pb::NodeProto;
use tract_onnx::tract_hir::internal::*;

use crate::operator::{Parsed, Wiring, own};
use crate::typed_op::{Stateless, Typed};

/// Parses a DynamicQuantizeLinear.
pub(crate) fn parse(_ctx: &ParsingContext<'_>, node: &NodeProto) -> Parsed {
    own(node, [1, 3], |node: &mut Wiring<'_>| {
        node.whole(Typed(Dynamic))
    })
}

/// Quantises floats to uint8 by their [`Quantization`].
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Dynamic;

impl Stateless for Dynamic {
    const NAME: &str = "DynamicQuantizeLinear";

    fn eval(&self, _ctx: &EvalContext<'_>, inputs: TVec<TValue>) -> TractResult<TVec<TValue>> {
        let data = inputs[0].try_as_plain_ram()?;
        let floats = data.as_slice::<f32>()?;
        let by = Quantization::of(floats);
        let Quantization { scale, zero_point } = by;
        let mut quantized = Vec::with_capacity(floats.len());
        by.quantize(floats, &mut quantized);
        let quantized = Tensor::from_shape(inputs[0].shape(), &quantized)?;
        Ok(tvec![
            quantized.into_tvalue(),
            tensor0(scale).into_tvalue(),
            tensor0(zero_point).into_tvalue(),
        ])
    }

    fn output_facts(&self, inputs: &[&TypedFact]) -> TractResult<TVec<TypedFact>> {
        let datum_type = inputs[0].datum_type;
        ensure!(
            datum_type == f32::datum_type(),
            "its data is {datum_type:?}, expected floats"
        );
        let quantized = u8::fact(inputs[0].shape.clone());
        Ok(tvec![quantized, f32::scalar_fact(), u8::scalar_fact()])
    }
}
