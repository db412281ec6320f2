//! The operator on a GPU: software adapters, and wgpu's validation without any.
#![cfg(feature = "wgpu")]

mod adapters;
#[path = "../common/mod.rs"]
mod common;
mod errors;
mod kernels;
#[cfg(feature = "gpu-validation")]
mod noop;
