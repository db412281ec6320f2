//! This plugin: its execution provider, its custom op, and the kernel of both.
//!
//! Runs are on the session's threads, in place where input and output are one buffer. `layers` has the
//! kernel of LSTM, GRU and RNN: forms are read while nodes are chosen, weights packed when ONNX Runtime
//! offers them. `loops` reads the graph as a message; `revseq-rewrite` says which nodes it replaces and by
//! what, and an inner session runs that for the fused node.

use std::ffi::CStr;

pub(crate) mod custom_op;
pub(crate) mod ep;
pub(crate) mod error;
mod kernel;
mod layers;
pub(crate) mod library;
mod loops;
mod node;
pub(crate) mod options;
mod plans;
pub(crate) mod report;
mod schemas;
mod threads;

/// The EP's name, as ONNX Runtime shows it.
const EP_NAME: &CStr = c"RevSeqExecutionProvider";
pub(crate) const EP_NAME_STR: &str = match EP_NAME.to_str() {
    Ok(name) => name,
    Err(_) => unreachable!(),
};
