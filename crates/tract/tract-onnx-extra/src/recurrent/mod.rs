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

use recurrent_layers::Cell;
use tract_onnx::model::{ParsingContext, optional_inputs, optional_outputs};
use tract_onnx::pb::NodeProto;
use tract_onnx::tract_hir::internal::*;
use tract_onnx::tract_hir::ops::expandable::expand;

use crate::load;
use crate::operator::{Parsed, Wiring};
use layer::{Inputs, Layer, Mask, Outputs};
use quantized::Quantized;

/// The prefix of the names of layers with a mask.
const PREFIX: &str = "Masked";

/// Parses a layer.
pub(crate) fn parse(_ctx: &ParsingContext<'_>, node: &NodeProto) -> Parsed {
    let layer = read(node).with_context(|| format!("{} {:?}", node.op_type, node.name))?;
    Ok((expand(layer), vec![]))
}

fn read(node: &NodeProto) -> TractResult<Layer> {
    let is_quantized = node.op_type == quantized::OPERATOR;
    let of_mask = node.op_type.strip_prefix(PREFIX);
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
    let activations = activation::read(node, cell, directions.len())?;
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
    ensure!(
        of_mask.is_none() || inputs.lengths.is_some(),
        "it lacks a mask"
    );
    Ok(Layer {
        cell,
        directions: directions.into(),
        activations,
        clip: clip(node, cell)?,
        units: units(node)?,
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

/// Reads the bound of what activations take. One below 0 is none for an RNN, as in ONNX Runtime.
fn clip(node: &NodeProto, cell: Cell) -> TractResult<Option<f32>> {
    let clip: Option<f32> = node.get_attr_opt("clip")?;
    if cell == Cell::Rnn {
        return Ok(clip.filter(|clip| *clip >= 0.0));
    }
    if let Some(clip) = clip {
        ensure!(clip > 0.0, "its clip is {clip}, expected more than 0");
    }
    Ok(clip)
}

/// Reads the number of units.
fn units(node: &NodeProto) -> TractResult<Option<usize>> {
    let units: Option<i64> = node.get_attr_opt("hidden_size")?;
    let units = units.map(|units| {
        let known = usize::try_from(units).ok().filter(|units| *units > 0);
        known.with_context(|| format!("its hidden_size is {units}, expected 1 at least"))
    });
    units.transpose()
}

/// Casts half floats to floats, for sums of many products; leaves other values as they are.
fn floats(to: &mut Wiring<'_>, value: OutletId) -> TractResult<Option<OutletId>> {
    rule_if!(to.fact(value)?.datum_type == f16::datum_type());
    to.cast("float", value, f32::datum_type()).map(Some)
}
