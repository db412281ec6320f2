//! The parts that any plugin for ONNX Runtime needs: the C ABI's tables, statuses,
//! panics, logs, options, graphs, the registration and runs of kernels, fused nodes and inner sessions.
//!
//! This folder knows nothing of the kernels' work and uses nothing of the rest of
//! this crate; attributes and tensors are messages of ONNX. A plugin supplies its kernels, as a [`Kernel`](kernel::Kernel), and
//! its errors, as a [`Failure`](error::Failure).

pub(crate) mod abi;
pub(crate) mod error;
#[cfg(test)]
pub(crate) mod fake_host;
pub(crate) mod fence;
pub(crate) mod fused;
pub(crate) mod given;
pub(crate) mod graph;
pub(crate) mod host;
pub(crate) mod info;
mod inner;
pub(crate) mod kernel;
pub(crate) mod log;
pub(crate) mod node;
pub(crate) mod options;
pub(crate) mod pin;
pub(crate) mod registry;
pub(crate) mod runs;
pub(crate) mod session;
pub(crate) mod tensor;
pub(crate) mod workers;
