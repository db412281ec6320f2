//! The description of a layer.

use crate::activation::Activation;

use crate::cell::Cell;
use crate::error::Error;

/// A recurrent layer, without its weights.
#[derive(Clone, Debug, PartialEq)]
pub struct Layer {
    /// The cell.
    pub cell: Cell,
    /// The number of features of the input.
    pub features: usize,
    /// The number of units: ONNX's `hidden_size`.
    pub units: usize,
    /// The directions, one or more, in the order of their weights and outputs.
    pub directions: Vec<Direction>,
    /// The bound of what activations take, ONNX's `clip`: beyond -clip or clip they take that. The
    /// function h of an LSTM takes the state c as it is.
    pub clip: Option<f32>,
    /// Whether the input and the state h are quantised to uint8 before they are multiplied, as in
    /// `DynamicQuantizeLSTM`; its weights are [quantised](Self::pack_quantized_input), too. Only a layer of
    /// `f32` can be.
    pub quantizes: bool,
}

/// One direction of a layer.
#[derive(Clone, Debug, PartialEq)]
pub struct Direction {
    /// Whether the last step is computed first.
    pub is_backward: bool,
    /// The activations: f, g and h of an LSTM, f and g of a GRU, f of an RNN.
    pub activations: Vec<Activation>,
}

impl Layer {
    /// A layer of these directions, each of which runs backwards or not, with ONNX's default
    /// activations: `[false]`, `[true]`, or `[false, true]` for a bidirectional one.
    #[must_use]
    pub fn new(cell: Cell, features: usize, units: usize, are_backward: &[bool]) -> Self {
        let directions = are_backward.iter().map(|&is_backward| Direction {
            is_backward,
            activations: cell.default_activations().to_vec(),
        });
        Self {
            cell,
            features,
            units,
            directions: directions.collect(),
            clip: None,
            quantizes: false,
        }
    }

    /// Checks the number of directions, and that of their activations.
    pub(crate) fn check(&self) -> Result<(), Error> {
        let expected = self.cell.default_activations().len();
        if self.directions.is_empty() {
            return Err(Error::NoDirections);
        }
        for direction in &self.directions {
            if direction.activations.len() != expected {
                return Err(Error::ActivationCount {
                    actual: direction.activations.len(),
                    expected,
                });
            }
        }
        Ok(())
    }

    /// The shape of W.
    pub(crate) fn shape_of_w(&self) -> [usize; 3] {
        let rows = self.cell.gates().saturating_mul(self.units);
        [self.directions.len(), rows, self.features]
    }

    /// The shape of R.
    pub(crate) fn shape_of_r(&self) -> [usize; 3] {
        let [directions, rows, _] = self.shape_of_w();
        [directions, rows, self.units]
    }
}

/// The valid steps of each sequence; at others, states do not change.
#[derive(Clone, Copy, Debug, Default)]
pub enum ValidSteps<'a> {
    /// All.
    #[default]
    All,
    /// The first steps of each sequence, in each direction: ONNX's `sequence_lens`. At others, Y is
    /// 0, and so are the last states of a sequence without steps.
    Lengths(&'a [usize]),
    /// The steps that are true in a mask, as in Keras.
    Mask {
        /// [steps, batch], in either layout.
        mask: &'a [bool],
        /// Whether states are sums of products with the mask, so that infinity and NaN spread.
        blends: bool,
        /// Whether Y repeats the state at other steps; otherwise it is 0 there.
        repeats: bool,
    },
}
