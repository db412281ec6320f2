//! Nodes of recurrent layers: ONNX's, ONNX Runtime's, and those with a mask.
//!
//! A node is read as ONNX Runtime's kernels read it. These refuse three things that are read here: the layout of
//! batches first, a node without `hidden_size`, and the name of an RNN's activation in small letters.

use crate::activation::Activation;
use crate::attributes::{Attributes, wrong};
use crate::cell::Cell;
use crate::error::Error;
use crate::layer::Layer;
use crate::run::Layout;

const QUANTIZED: &str = "DynamicQuantizeLSTM";
/// The prefix of the names of layers with a mask.
const MASKED: &str = "Masked";

/// The operators with their domains: ONNX's have the empty one.
const OPERATORS: [(&str, &str); 7] = [
    ("", "LSTM"),
    ("", "GRU"),
    ("", "RNN"),
    ("com.microsoft", QUANTIZED),
    ("revseq", "MaskedLSTM"),
    ("revseq", "MaskedGRU"),
    ("revseq", "MaskedRNN"),
];

/// A node of a recurrent layer, without its weights.
#[derive(Clone, Debug, PartialEq)]
pub struct Recurrent {
    /// The layer. Its features follow from W, and its units from R if they are 0.
    pub layer: Layer,
    /// The order of the axes.
    pub layout: Layout,
    /// What a mask in the place of the lengths does, if there is one.
    pub mask: Option<Mask>,
}

/// A mask of valid steps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mask {
    /// Whether states are sums of products with the mask, so that infinity and NaN spread.
    pub blends: bool,
    /// Whether Y repeats the state at other steps; otherwise it is 0 there.
    pub repeats: bool,
}

impl Recurrent {
    /// Whether a domain has the operator: ONNX's own is `""` or `"ai.onnx"`.
    #[must_use]
    pub fn is_known(domain: &str, operator: &str) -> bool {
        let domain = if domain == "ai.onnx" { "" } else { domain };
        OPERATORS.contains(&(domain, operator))
    }

    /// Reads a node of an operator that [is known](Self::is_known).
    ///
    /// # Errors
    /// The operator is another one, or an attribute has a value that it cannot have.
    pub fn of(operator: &str, attributes: &dyn Attributes) -> Result<Self, Error> {
        let of_mask = operator.strip_prefix(MASKED);
        let cell = match of_mask.unwrap_or(operator) {
            "LSTM" | QUANTIZED => Cell::Lstm {
                couples_input_and_forget: attributes.is_set("input_forget")?,
            },
            "GRU" => Cell::Gru {
                resets_after_product: attributes.is_set("linear_before_reset")?,
            },
            "RNN" => Cell::Rnn,
            other => return wrong("operator", format!("{other:?}"), "LSTM, GRU or RNN"),
        };
        let direction = attributes.text("direction")?;
        let are_backward: &[bool] = match direction.as_deref().unwrap_or("forward") {
            "forward" => &[false],
            "reverse" => &[true],
            "bidirectional" => &[false, true],
            other => {
                let directions = "forward, reverse or bidirectional";
                return wrong("direction", format!("{other:?}"), directions);
            }
        };
        let units = attributes.count("hidden_size")?.unwrap_or_default();
        let mut layer = Layer::new(cell, 0, units, are_backward);
        layer.quantizes = operator == QUANTIZED;
        layer.clip = clip(attributes, cell)?;
        set_activations(&mut layer, attributes)?;
        let layout = match attributes.integer("layout")?.unwrap_or_default() {
            0 => Layout::TimeFirst,
            1 => Layout::BatchFirst,
            other => return wrong("layout", other, "0 or 1"),
        };
        let mask = match of_mask {
            Some(_) => Some(Mask {
                blends: attributes.is_set("blends")?,
                repeats: attributes.is_set("repeats")?,
            }),
            None => None,
        };
        Ok(Self {
            layer,
            layout,
            mask,
        })
    }

    /// The name of the operator, but for a mask.
    #[must_use]
    pub fn name(&self) -> &'static str {
        match self.layer.quantizes {
            true => QUANTIZED,
            false => self.layer.cell.name(),
        }
    }
}

/// The bound of what activations take. One that is not 0 or more is none for an RNN.
fn clip(attributes: &dyn Attributes, cell: Cell) -> Result<Option<f32>, Error> {
    match attributes.float("clip")? {
        Some(clip) if cell == Cell::Rnn => Ok(Some(clip).filter(|clip| *clip >= 0.0)),
        Some(clip) if clip > 0.0 => Ok(Some(clip)),
        Some(clip) => wrong("clip", clip, "more than 0"),
        None => Ok(None),
    }
}

/// Gives each direction its activations.
fn set_activations(layer: &mut Layer, attributes: &dyn Attributes) -> Result<(), Error> {
    let Some(mut names) = attributes.strings("activations")? else {
        return Ok(());
    };
    let of_direction = layer.cell.default_activations().len();
    let expected = of_direction * layer.directions.len();
    match (layer.cell, names.len()) {
        // ONNX's default, which ONNX Runtime writes into the node, is that of two directions.
        (Cell::Rnn, 2) => names = &names[..expected],
        (Cell::Lstm { .. } | Cell::Gru { .. }, 0) => return Ok(()),
        _ => {}
    }
    if names.len() != expected {
        return Err(Error::ActivationCount {
            actual: names.len(),
            expected,
        });
    }
    let mut alphas = attributes.floats("activation_alpha")?.iter().copied();
    let mut betas = attributes.floats("activation_beta")?.iter().copied();
    let names = names.iter().map(|name| String::from_utf8_lossy(name));
    let all = names.map(|name| Activation::of(&name, &mut alphas, &mut betas));
    let all = all.collect::<Result<Vec<_>, _>>()?;
    for (direction, own) in layer.directions.iter_mut().zip(all.chunks(of_direction)) {
        direction.activations = own.to_vec();
    }
    Ok(())
}
