//! The parts that any plugin for ONNX Runtime needs: the C ABI's tables, statuses, panics, logs, options,
//! graphs, the registration and runs of kernels, fused nodes and inner sessions.
//!
//! A plugin supplies its kernels, as a [`Kernel`](kernel::Kernel), what runs fused nodes, as a
//! [`Fused`](fused::Fused), and its errors, as a [`Failure`](error::Failure). Every callback that the host may
//! make is behind a [`fence`], so that no panic crosses the ABI; every call of the host's is checked by the
//! macros of [`host`]. Attributes and tensors are messages of ONNX.

#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;

pub mod abi;
pub mod error;
#[cfg(any(test, feature = "fake-host"))]
pub mod fake_host;
pub mod fence;
pub mod fused;
pub mod given;
pub mod graph;
pub mod host;
pub mod info;
mod inner;
pub mod kernel;
pub mod load;
pub mod log;
pub mod node;
pub mod options;
pub mod pin;
pub mod provider;
pub mod registry;
pub mod runs;
pub mod session;
pub mod tensor;
pub mod workers;

pub use ort_sys;

use std::sync::OnceLock;

/// The name and the version of a plugin, for messages.
#[derive(Clone, Copy, Debug)]
pub struct Plugin {
    /// Its name.
    pub name: &'static str,
    /// Its version.
    pub version: &'static str,
}

/// The plugin that this library is, once it has been loaded.
static PLUGIN: OnceLock<Plugin> = OnceLock::new();

fn plugin() -> Plugin {
    let unknown = Plugin {
        name: "a plugin",
        version: "",
    };
    PLUGIN.get().copied().unwrap_or(unknown)
}
