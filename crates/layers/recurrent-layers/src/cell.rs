//! The cells of layers: their gates, and how these follow from each other.
//!
//! ```text
//! LSTM: i, o, f, c    GRU: z, r, h    RNN: h
//! ```

use crate::activation::Activation;

/// The cell of a layer.
///
/// Weights and biases hold the gates in ONNX's order: i, o, f, c of an LSTM; z, r, h of a GRU.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Cell {
    /// A long short-term memory, with the states h and c.
    Lstm {
        /// Whether the gate f is `1 - i`: ONNX's `input_forget`.
        couples_input_and_forget: bool,
    },
    /// A gated recurrent unit.
    Gru {
        /// Whether the state is reset after its product with the weights: ONNX's
        /// `linear_before_reset`.
        resets_after_product: bool,
    },
    /// A plain recurrent cell.
    Rnn,
}

impl Cell {
    /// ONNX's name of the layer.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Lstm { .. } => "LSTM",
            Self::Gru { .. } => "GRU",
            Self::Rnn => "RNN",
        }
    }

    /// The number of gates.
    #[must_use]
    pub fn gates(self) -> usize {
        match self {
            Self::Lstm { .. } => 4,
            Self::Gru { .. } => 3,
            Self::Rnn => 1,
        }
    }

    /// Whether the last gate's recurrent bias is added on its own, before the reset.
    pub(crate) fn has_recurrent_bias(self) -> bool {
        self == Self::Gru {
            resets_after_product: true,
        }
    }

    /// Whether a step has a second product, of the first one's result.
    pub(crate) fn resets_before_product(self) -> bool {
        self == Self::Gru {
            resets_after_product: false,
        }
    }

    /// ONNX's default activations, f, g and h, of which a GRU has two and an RNN one.
    #[must_use]
    pub fn default_activations(self) -> &'static [Activation] {
        match self {
            Self::Lstm { .. } => &[Activation::Sigmoid, Activation::Tanh, Activation::Tanh],
            Self::Gru { .. } => &[Activation::Sigmoid, Activation::Tanh],
            Self::Rnn => &[Activation::Tanh],
        }
    }
}
