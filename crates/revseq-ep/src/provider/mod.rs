//! This plugin: its execution provider, its custom op, and the kernel of both.

use std::ffi::CStr;

pub(crate) mod custom_op;
mod ep;
pub(crate) mod error;
pub(crate) mod factory;
mod gpu;
mod kernel;
pub(crate) mod layers;
mod loops;
mod node;
pub(crate) mod options;
mod plans;
mod schemas;

/// The EP's name, as ONNX Runtime shows it.
const EP_NAME: &CStr = c"RevSeqExecutionProvider";
pub(crate) const EP_NAME_STR: &str = match EP_NAME.to_str() {
    Ok(name) => name,
    Err(_) => unreachable!(),
};
