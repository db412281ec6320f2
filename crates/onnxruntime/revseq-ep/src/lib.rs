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

use std::ffi::c_char;
use std::sync::{Mutex, PoisonError};

use ep_plugin as plugin;
use ort_sys::{OrtApiBase, OrtLogger, OrtSessionOptions, OrtStatusPtr};

use crate::plugin::abi::OrtEpFactory;
use crate::plugin::host::{Host, is_since, ort_try};
use crate::plugin::{fence, pin};
use crate::provider::custom_op::Domain;
use crate::provider::error::Error;
use crate::provider::factory::Factory;

/// This library, in messages.
const PLUGIN: plugin::Plugin = plugin::Plugin {
    name: env!("CARGO_PKG_NAME"),
    version: env!("CARGO_PKG_VERSION"),
};

/// The first minor version of ONNX Runtime in which the inputs of a fused node have what the graphs in
/// its nodes capture.
const FUSES_CAPTURED: u32 = 27;

/// Makes the library's only factory.
///
/// ONNX Runtime calls this in `RegisterExecutionProviderLibrary`.
///
/// # Safety
/// As onnxruntime_ep_c_api.h says of `CreateEpApiFactoriesFn`.
#[unsafe(no_mangle)]
unsafe extern "system" fn CreateEpFactories(
    _registered_name: *const c_char,
    base: *const OrtApiBase,
    _logger: *const OrtLogger,
    factories: *mut *mut OrtEpFactory,
    capacity: usize,
    count: *mut usize,
) -> OrtStatusPtr {
    // SAFETY: the caller's.
    let host = match unsafe { Host::new(base, PLUGIN) } {
        Ok(host) => host,
        Err(status) => return status,
    };
    fence::status(host, || {
        fence::fault("factories");
        if capacity == 0 {
            let problem = "max_factories is 0, expected at least 1";
            Err(plugin::error::Error::argument("CreateEpFactories", problem))?;
        }
        // SAFETY: the caller's.
        let fuses_captured = unsafe { is_since(base, FUSES_CAPTURED) };
        let factory = Factory::create(host, fuses_captured)?;
        // SAFETY: the caller's; the host passes the factory to `ReleaseEpFactory`.
        unsafe {
            *factories = factory;
            *count = 1;
        }
        Ok::<(), Error>(())
    })
}

/// Releases the library's factory. If a session still uses it, the factory stays until the
/// session ends.
///
/// # Safety
/// `factory` is null or comes from [`CreateEpFactories`], and is released only once.
#[unsafe(no_mangle)]
unsafe extern "system" fn ReleaseEpFactory(factory: *mut OrtEpFactory) -> OrtStatusPtr {
    if !factory.is_null() {
        // SAFETY: the caller's.
        fence::value((), || unsafe { Factory::leave(factory) });
    }
    OrtStatusPtr::default()
}

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
