//! ONNX's recurrent layers: `LSTM`, `GRU` and `RNN`, ONNX Runtime's `DynamicQuantizeLSTM`, the masked
//! layers that revseq-rewrite makes of loops, and the operators of linear attention.
//!
//! tract-onnx 0.23 ignores `direction = reverse`, non-default activations and `clip`, refuses
//! lengths, and multiplies each step's input with the weights separately. This module supports
//! everything in ONNX. A layer is one operator, over the crate recurrent-layers.

pub(crate) mod activation;
pub(crate) mod attention;
mod checked;
mod exponential;
mod layer;
mod op;
mod quantized;
mod threads;
mod unwritten;
mod wire;

use recurrent_layers::{Attribute, Attributes, Recurrent};
use tract_onnx::model::{ParsingContext, optional_inputs, optional_outputs};
use tract_onnx::pb::NodeProto;
use tract_onnx::pb::attribute_proto::AttributeType;
use tract_onnx::tract_hir::internal::*;
use tract_onnx::tract_hir::ops::expandable::expand;

use crate::load::LoadOptions;
use crate::operator::{Parsed, Wiring};
use layer::{Inputs, Layer, Outputs};
use quantized::Quantized;
pub(crate) use threads::Executor;

/// Parses a layer.
pub(crate) fn parse(ctx: &ParsingContext<'_>, node: &NodeProto) -> Parsed {
    let layer = read(ctx, node).with_context(|| format!("{} {:?}", node.op_type, node.name))?;
    Ok((expand(layer), vec![]))
}

/// The attributes of a node.
struct OfNode<'a>(&'a NodeProto);

impl Attributes for OfNode<'_> {
    fn get(&self, name: &str) -> Option<Attribute<'_>> {
        let mut attributes = self.0.attribute.iter();
        let attribute = attributes.find(|it| it.name == name)?;
        Some(match attribute.r#type() {
            AttributeType::Int => Attribute::Integer(attribute.i),
            AttributeType::Float => Attribute::Float(attribute.f),
            AttributeType::Floats => Attribute::Floats(&attribute.floats),
            AttributeType::String => Attribute::String(&attribute.s),
            AttributeType::Strings => Attribute::Strings(&attribute.strings),
            _ => Attribute::Other,
        })
    }
}

fn read(ctx: &ParsingContext<'_>, node: &NodeProto) -> TractResult<Layer> {
    let form = Recurrent::of(&node.op_type, &OfNode(node))?;
    let mut inputs = optional_inputs(node).skip(3);
    let mut input = || inputs.next().flatten();
    let inputs = Inputs {
        bias: input(),
        lengths: input(),
        initial_h: input(),
        initial_c: input(),
        peepholes: input(),
    };
    let quantized = match form.layer.quantizes {
        true => Some(Quantized::read([input(), input(), input(), input()])?),
        false => None,
    };
    let mut outputs = optional_outputs(node);
    let mut output = || outputs.next().flatten();
    let outputs = Outputs {
        y: output(),
        y_h: output(),
        y_c: output(),
    };
    ensure!(
        form.mask.is_none() || inputs.lengths.is_some(),
        "it lacks a mask"
    );
    Ok(Layer {
        form,
        lengths: LoadOptions::of(ctx).lengths,
        inputs,
        outputs,
        quantized,
    })
}

/// Casts half floats to floats, for sums of many products; leaves other values as they are.
fn floats(to: &mut Wiring<'_>, value: OutletId) -> TractResult<Option<OutletId>> {
    rule_if!(to.fact(value)?.datum_type == f16::datum_type());
    to.cast("float", value, f32::datum_type()).map(Some)
}
