//! ONNX's recurrent layers: `LSTM`, `GRU` and `RNN`, ONNX Runtime's `DynamicQuantizeLSTM`, and the masked
//! layers that revseq-rewrite makes of loops.
//!
//! tract-onnx 0.23 ignores `direction = reverse`, non-default activations and `clip`, refuses
//! lengths, and multiplies each step's input with the weights separately. This module supports
//! everything in ONNX. A layer is one operator, over the crate recurrent-layers.

pub(crate) mod activation;
mod checked;
mod layer;
mod op;
mod quantized;
mod threads;

use recurrent_layers::Cell;
use tract_onnx::model::{ParsingContext, optional_inputs, optional_outputs};
use tract_onnx::pb::NodeProto;
use tract_onnx::tract_core::ops::cast::cast;
use tract_onnx::tract_hir::internal::*;
use tract_onnx::tract_hir::ops::expandable::expand;

use crate::load;
use crate::node::check_domain;
use layer::{Inputs, Layer, Mask, Outputs};
use quantized::Quantized;

/// Registers the layers with a tract ONNX loader.
pub(crate) fn register(onnx: &mut tract_onnx::Onnx) {
    for operator in ["LSTM", "GRU", "RNN", quantized::OPERATOR] {
        onnx.op_register.insert(operator, parse);
    }
    for operator in MASKED {
        onnx.op_register.insert(operator, parse);
    }
}

/// The layers with a mask, of the domain `revseq`, and the prefix of their names.
const MASKED: [&str; 3] = ["MaskedLSTM", "MaskedGRU", "MaskedRNN"];
const PREFIX: &str = "Masked";

fn parse(
    _ctx: &ParsingContext<'_>,
    node: &NodeProto,
) -> TractResult<(Box<dyn InferenceOp>, Vec<String>)> {
    let layer = read(node).with_context(|| format!("{} {:?}", node.op_type, node.name))?;
    Ok((expand(layer), vec![]))
}

fn read(node: &NodeProto) -> TractResult<Layer> {
    let is_quantized = node.op_type == quantized::OPERATOR;
    let of_mask = node.op_type.strip_prefix(PREFIX);
    let domain = match (is_quantized, of_mask) {
        (true, _) => "com.microsoft",
        (_, Some(_)) => "revseq",
        _ => "",
    };
    match domain {
        "" => check_domain(node)?,
        domain => ensure!(
            node.domain == domain,
            "it is of domain {:?}, expected {domain:?}",
            node.domain
        ),
    }
    let direction: Option<&str> = node.get_attr_opt("direction")?;
    // Whether each direction runs backwards.
    let directions: &[bool] = match direction {
        None | Some("forward") => &[false],
        Some("reverse") => &[true],
        Some("bidirectional") => &[false, true],
        Some(other) => {
            bail!("its direction is {other:?}, expected forward, reverse or bidirectional")
        }
    };
    let is_set = |name: &str| -> TractResult<bool> {
        Ok(node.get_attr_opt::<i64>(name)?.is_some_and(|it| it != 0))
    };
    let cell = match of_mask.unwrap_or(&node.op_type) {
        "LSTM" | quantized::OPERATOR => Cell::Lstm {
            couples_input_and_forget: is_set("input_forget")?,
        },
        "GRU" => Cell::Gru {
            resets_after_product: is_set("linear_before_reset")?,
        },
        _ => Cell::Rnn,
    };
    let activations = activation::read(node, cell.default_activations(), directions.len())?;
    let mut inputs = optional_inputs(node).skip(3);
    let mut input = || inputs.next().flatten();
    let inputs = Inputs {
        bias: input(),
        lengths: input(),
        initial_h: input(),
        initial_c: input(),
        peepholes: input(),
    };
    let quantized = match is_quantized {
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
    ensure!(outputs.count() > 0, "it has no outputs");
    ensure!(
        of_mask.is_none() || inputs.lengths.is_some(),
        "it lacks a mask"
    );
    Ok(Layer {
        cell,
        directions: directions.into(),
        activations,
        clip: node.get_attr_opt("clip")?,
        is_batch_first: is_set("layout")?,
        lengths: load::lengths_of_nodes_read(),
        mask: match of_mask {
            Some(_) => Some(Mask {
                blends: is_set("blends")?,
                repeats: is_set("repeats")?,
            }),
            None => None,
        },
        inputs,
        outputs,
        quantized,
    })
}

/// Wires operators into a model, with a common prefix of names.
struct Wiring<'a> {
    model: &'a mut TypedModel,
    prefix: String,
}

impl Wiring<'_> {
    fn op(
        &mut self,
        name: &str,
        op: impl Into<Box<dyn TypedOp>>,
        inputs: &[OutletId],
    ) -> TractResult<OutletId> {
        let name = self.name(name);
        Ok(self.model.wire_node(name, op, inputs)?[0])
    }

    fn constant(&mut self, name: &str, value: Tensor) -> TractResult<OutletId> {
        let name = self.name(name);
        self.model.add_const(name, value)
    }

    /// Casts half floats to floats, for sums of many products; leaves other values as they are.
    fn floats(&mut self, values: &[OutletId]) -> TractResult<TVec<OutletId>> {
        let values = values.iter().map(|value| {
            let fact = self.fact(*value)?;
            if fact.datum_type != f16::datum_type() {
                return Ok(*value);
            }
            match &fact.konst {
                Some(known) => {
                    let known = known.cast_to::<f32>()?.into_owned();
                    self.constant("float", known)
                }
                None => self.op("float", cast(f32::datum_type()), &[*value]),
            }
        });
        values.collect()
    }

    fn fact(&self, outlet: OutletId) -> TractResult<&TypedFact> {
        self.model.outlet_fact(outlet)
    }

    fn name(&self, name: &str) -> String {
        let name = format!("{}.{name}", self.prefix);
        self.model.unique_name(name).into_owned()
    }
}
