//! The forms of LSTM, GRU, RNN and DynamicQuantizeLSTM.

use std::borrow::Cow;

use recurrent_layers::{Activation, Cell, Layer, Layout, activations};
use revseq_onnx::model::AttributeType;
use revseq_rewrite::masked;

use crate::plugin::node::{Node, type_name};

const QUANTIZED: &str = "DynamicQuantizeLSTM";

/// Whether an operator is a recurrent layer.
pub(super) fn is_known(domain: &str, op_type: &str) -> bool {
    match op_type {
        "LSTM" | "GRU" | "RNN" => domain.is_empty() || domain == "ai.onnx",
        QUANTIZED => domain == "com.microsoft",
        _ => domain == masked::DOMAIN && op_type.starts_with(masked::PREFIX),
    }
}

/// A node of a layer, without its weights.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Form {
    /// The layer. Its features follow from W, and its units from R if they are 0.
    pub(crate) layer: Layer,
    pub(crate) layout: Layout,
    /// What a mask in the place of the lengths does.
    pub(super) mask: Option<Mask>,
}

/// A mask of valid steps.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Mask {
    /// Whether states are sums of products with the mask.
    pub(super) blends: bool,
    /// Whether Y repeats the state at other steps.
    pub(super) repeats: bool,
}

impl Form {
    /// The name of the operator.
    pub(crate) fn name(&self) -> &'static str {
        match self.layer.quantizes {
            true => QUANTIZED,
            false => self.layer.cell.name(),
        }
    }

    /// Reads a node, or says why the layer is not one that is computed.
    pub(crate) fn of(node: &Node) -> Result<Self, String> {
        let find = |name: &str, kind: AttributeType| {
            let mut attributes = node.attributes.iter();
            match attributes.find(|it| it.name() == name) {
                Some(found) if found.r#type != Some(kind) => Err(format!(
                    "its attribute {name:?} is of type {}, expected {}",
                    type_name(found.r#type),
                    type_name(Some(kind))
                )),
                found => Ok(found),
            }
        };
        let integer = |name: &str| -> Result<i64, String> {
            let found = find(name, AttributeType::INT)?;
            Ok(found.and_then(|it| it.i).unwrap_or_default())
        };
        let floats = |name: &str| -> Result<&[f32], String> {
            Ok(find(name, AttributeType::FLOATS)?.map_or(&[], |it| &it.floats))
        };
        let is_quantized = node.op_type == QUANTIZED;
        let (op_type, mask) = match node.op_type.strip_prefix(masked::PREFIX) {
            None => (&*node.op_type, None),
            Some(op_type) => {
                let blends = integer("blends")? != 0;
                let repeats = integer("repeats")? != 0;
                (op_type, Some(Mask { blends, repeats }))
            }
        };
        let cell = match op_type {
            "LSTM" | QUANTIZED => Cell::Lstm {
                couples_input_and_forget: integer("input_forget")? != 0,
            },
            "GRU" => Cell::Gru {
                resets_after_product: integer("linear_before_reset")? != 0,
            },
            _ => Cell::Rnn,
        };
        let direction = find("direction", AttributeType::STRING)?;
        let direction = direction.map_or(&b"forward"[..], |it| it.s.as_deref().unwrap_or_default());
        let are_backward: &[bool] = match direction {
            b"forward" => &[false],
            b"reverse" => &[true],
            b"bidirectional" => &[false, true],
            _ => {
                return Err(format!(
                    "its direction is {:?}, expected forward, reverse or bidirectional",
                    String::from_utf8_lossy(direction)
                ));
            }
        };
        let units = usize::try_from(integer("hidden_size")?);
        let units = units.map_err(|_| "its hidden_size is below 0".to_owned())?;
        let mut layer = Layer::new(cell, 0, units, are_backward);
        layer.quantizes = is_quantized;
        layer.clip = match find("clip", AttributeType::FLOAT)? {
            None => None,
            Some(clip) => match clip.f.unwrap_or_default() {
                clip if clip > 0.0 => Some(clip),
                clip => return Err(format!("its clip is {clip}, expected more than 0")),
            },
        };
        if let Some(names) = find("activations", AttributeType::STRINGS)? {
            let names = names
                .strings
                .iter()
                .map(|name| String::from_utf8_lossy(name));
            let names: Vec<Cow<'_, str>> = names.collect();
            let (alphas, betas) = (floats("activation_alpha")?, floats("activation_beta")?);
            let names = names.iter().map(|name| &**name);
            let all = activations(names, alphas, betas).map_err(|error| error.to_string())?;
            spread(&mut layer, &all)?;
        }
        let layout = match integer("layout")? {
            0 => Layout::TimeFirst,
            _ => Layout::BatchFirst,
        };
        Ok(Self {
            layer,
            layout,
            mask,
        })
    }
}

/// Gives each direction its activations.
fn spread(layer: &mut Layer, all: &[Activation]) -> Result<(), String> {
    let of_direction = layer.cell.default_activations().len();
    let expected = of_direction * layer.directions.len();
    // The default of an RNN, which ONNX Runtime writes into the node, is that of two directions.
    let may_be_more = layer.cell == Cell::Rnn;
    if all.len() < expected || all.len() > expected && !may_be_more {
        return Err(format!(
            "it has {} activations, expected {expected}",
            all.len()
        ));
    }
    for (direction, own) in layer.directions.iter_mut().zip(all.chunks(of_direction)) {
        direction.activations = own.to_vec();
    }
    Ok(())
}
