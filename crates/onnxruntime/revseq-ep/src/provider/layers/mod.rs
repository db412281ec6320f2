//! Layers, by the crate recurrent-layers: LSTM, GRU, RNN and DynamicQuantizeLSTM, and the operators of linear
//! attention.

mod attention;
mod inputs;
mod kernel;
mod operands;
mod taken;

pub(super) use attention::AttentionKernel;
pub(super) use kernel::LayerKernel;
pub(super) use taken::{Taken, TakenLayers, is_known};
