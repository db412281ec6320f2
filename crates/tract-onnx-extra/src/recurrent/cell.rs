//! The cells of layers: their gates, and how these follow from each other.
//!
//! ```text
//! LSTM: i, o, f, c    GRU: z, r, h    RNN: h
//! ```

use super::activation::Activation;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Cell {
    Lstm { couples_input_and_forget: bool },
    Gru { resets_after_product: bool },
    Rnn,
}

impl Cell {
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Lstm { .. } => "LSTM",
            Self::Gru { .. } => "GRU",
            Self::Rnn => "RNN",
        }
    }

    /// The number of gates.
    pub(super) fn gates(self) -> usize {
        match self {
            Self::Lstm { .. } => 4,
            Self::Gru { .. } => 3,
            Self::Rnn => 1,
        }
    }

    /// Whether the last gate's recurrent bias is added on its own, before the reset.
    pub(super) fn has_recurrent_bias(self) -> bool {
        self == Self::Gru {
            resets_after_product: true,
        }
    }

    /// Whether a step has a second product, of the first one's result.
    pub(super) fn resets_before_product(self) -> bool {
        self == Self::Gru {
            resets_after_product: false,
        }
    }

    pub(super) fn default_activations(self) -> &'static [Activation] {
        match self {
            Self::Lstm { .. } => &[Activation::Sigmoid, Activation::Tanh, Activation::Tanh],
            Self::Gru { .. } => &[Activation::Sigmoid, Activation::Tanh],
            Self::Rnn => &[Activation::Tanh],
        }
    }
}
