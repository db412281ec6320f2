//! A library for ONNX Runtime, loaded at run time by any version from 1.24 on.
//!
//! It has two uses. As a plugin execution provider, `RevSeqExecutionProvider`,
//! it runs the `ReverseSequence` nodes of a model, with any two axes and any
//! type of a fixed size, and registers the operator
//! `revseq::ReverseSubsequences`. As a custom-op library it registers only
//! that operator, to run on the CPU EP.
//!
//! It exports the three functions below, `RevSeqRewrite`, which rewrites a
//! model before a session loads it, and `RevSeqSessionReport`, which says
//! what became of a session's loops. revseq-kernels has the kernels,
//! revseq-graph reads the nodes, and only this crate knows ONNX Runtime.
//!
//! # Sessions without it
//!
//! The `SessionBuilder` of the crate `ort` (2.0.0-rc.15) sets an automatic selection policy for
//! every session, by which ONNX Runtime assigns nodes to any provider that is registered in the
//! process, this one included. To exclude it, pass the session's devices explicitly, such as those
//! of `CPUExecutionProvider`:
//!
//! ```no_run
//! # fn main() -> ort::Result<()> {
//! # let environment = ort::init().build()?;
//! use ort::session::Session;
//!
//! let cpu = environment
//!     .devices()
//!     .filter(|device| device.ep().is_ok_and(|ep| ep == "CPUExecutionProvider"));
//! let session = Session::builder(&environment)?
//!     .with_devices(cpu, None)?
//!     .commit_from_file("model.onnx")?;
//! # Ok(())
//! # }
//! ```
//!
//! In Python a session has a provider only if it names it.

mod answer;
#[doc(hidden)]
pub mod fuzzing;
mod provider;
mod report;
mod rewrite;

use std::sync::{Mutex, PoisonError};

use ep_plugin as plugin;
use ort_sys::{OrtApiBase, OrtSessionOptions, OrtStatusPtr};

use crate::plugin::host::{Host, ort_try};
use crate::plugin::{fence, pin};
use crate::provider::custom_op::Domain;
use crate::provider::ep::Ep;
use crate::provider::error::Error;
use crate::provider::library::Library;

/// This library, in messages.
const PLUGIN: plugin::Plugin = plugin::Plugin {
    name: env!("CARGO_PKG_NAME"),
    version: env!("CARGO_PKG_VERSION"),
};

/// The first minor version of ONNX Runtime in which the inputs of a fused node have what the graphs in
/// its nodes capture.
const FUSES_CAPTURED: u32 = 27;

ep_plugin::export!(Ep, |loading| Ok(Library {
    domain: Domain::new(loading.host())?,
    fuses_captured: loading.is_since(FUSES_CAPTURED),
}));

/// The domains of [`RegisterCustomOps`], one for each host: sessions keep
/// pointing to them as long as the library is loaded.
static DOMAINS: Mutex<Vec<Domain>> = Mutex::new(Vec::new());

/// Adds the domain `revseq` to a session, without the EP.
///
/// ONNX Runtime calls this in `RegisterCustomOpsLibrary`.
///
/// # Safety
/// As onnxruntime_c_api.h says of the function of that name: `options` are of
/// the ONNX Runtime that `base` is of.
#[unsafe(no_mangle)]
unsafe extern "system" fn RegisterCustomOps(
    options: *mut OrtSessionOptions,
    base: *const OrtApiBase,
) -> OrtStatusPtr {
    // SAFETY: the caller's.
    let host = match unsafe { Host::new(base, PLUGIN) } {
        Ok(host) => host,
        Err(status) => return status,
    };
    fence::status(host, || {
        fence::fault("custom_ops");
        let mut domains = DOMAINS.lock().unwrap_or_else(PoisonError::into_inner);
        let known = domains.iter().position(|domain| domain.host() == host);
        let index = match known {
            Some(index) => index,
            None => {
                // Loaded and unloaded with every session, the library would
                // leave a domain behind each time.
                pin::library();
                domains.push(Domain::new(host)?);
                domains.len() - 1
            }
        };
        // SAFETY: the caller's; the domain is never released.
        unsafe { ort_try!(host, AddCustomOpDomain(options, domains[index].as_ptr())) };
        Ok::<(), Error>(())
    })
}
