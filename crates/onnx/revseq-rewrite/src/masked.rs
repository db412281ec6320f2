//! Masked layers: recurrent layers in which a mask says which steps are valid.
//!
//! ONNX has lengths only, so that a loop of Keras with a mask becomes a layer and a dozen nodes that
//! sort its steps. For a host that computes masks, [`Options::masked_layers`](crate::Options) asks
//! the pass `recurrent-loop` for one of the operators here instead. They are an interface between
//! two parts of a program: no file should have them.
//!
//! `MaskedLSTM`, `MaskedGRU` and `MaskedRNN` of the domain [`DOMAIN`] are `LSTM`, `GRU` and `RNN` of
//! ONNX (version 14, `layout` 0) with the same inputs, outputs and attributes, of float32, but for
//!
//! - input 4, a bool tensor `[steps, batch]` instead of `sequence_lens`. Where it is false, h and c
//!   keep their values; the last states are those after all steps, whatever the mask;
//! - the attribute `repeats` (int, 0 by default): where the mask is false, Y is 0, or h if this is 1;
//! - the attribute `blends` (int, 0 by default): if 1, values are chosen by products, `mask · new +
//!   (1 - mask) · old`, so that infinity and NaN of the value that is not chosen become NaN, and Y is
//!   `0 · h` where it is 0.
//!
//! One direction is computed, forwards or, by `direction`, in reverse: the mask lies in the order of
//! the sequence, as X does. W, R, B and P are constants. Loops of several layers become several
//! nodes. Beside them the pass writes only what their inputs and outputs need: `Transpose` of
//! batch-major sequences, `Cast`, `Squeeze`, `Slice` and `Expand` of masks and `Expand` and
//! `Unsqueeze` of initial states that are not known to fit, `Squeeze` of the axis of directions.
//! Initial states that are 0 are absent. A loop without a mask becomes a plain layer in the same way.
//!
//! Left alone are loops whose outputs and states are not all chosen in one of both ways, stacks whose
//! states blend, and outputs that repeat 0 before the first valid step while the state begins
//! with another value.

/// The domain of the operators.
pub const DOMAIN: &str = "revseq";
/// The prefix of the operators' names, before the layer's.
pub const PREFIX: &str = "Masked";
