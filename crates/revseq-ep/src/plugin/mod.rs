//! What any plugin for ONNX Runtime needs.

pub(crate) mod abi;
#[cfg(test)]
pub(crate) mod fake_host;
pub(crate) mod fence;
pub(crate) mod host;
pub(crate) mod info;
pub(crate) mod kernel;
pub(crate) mod log;
pub(crate) mod pin;
pub(crate) mod registry;
pub(crate) mod tensor;
