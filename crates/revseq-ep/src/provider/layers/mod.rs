//! Recurrent layers, by the crate recurrent-layers: LSTM, GRU, RNN and DynamicQuantizeLSTM.

mod form;
mod inputs;
mod kernel;
mod operands;
mod threads;

pub(crate) use form::Form;
pub(super) use form::{Forms, Taken, is_known};
pub(super) use kernel::LayerKernel;
pub(super) use threads::OfCaller;
