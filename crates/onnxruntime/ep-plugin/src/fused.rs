//! A fused node, and the table through which the host calls it.

use std::ffi::c_void;
use std::ptr;

use ort_sys::{OrtKernelContext, OrtNode, OrtStatusPtr};

use super::abi::{
    API_VERSION, OrtEpGraphSupportInfo, OrtNodeComputeContext, OrtNodeComputeInfo,
    OrtNodeFusionOptions,
};
use super::error::{Error, Failure};
use super::fence;
use super::host::{Host, ort_try};
use super::tensor::Context;

/// What runs a fused node. Any number of runs may be in progress at once.
pub trait Fused: Send + Sync + Sized {
    /// Its error.
    type Failure: Failure;

    /// Runs the node.
    fn compute(&self, context: Context<'_>) -> Result<(), Self::Failure>;
}

/// A fused node with its table.
#[repr(C)]
struct Info<F> {
    /// The table, first so that a pointer to it is one to the whole.
    table: OrtNodeComputeInfo,
    host: Host,
    fused: F,
}

/// Makes the means to run a fused node, to be released with [`release`].
pub fn make<F: Fused>(host: Host, fused: F) -> *mut OrtNodeComputeInfo {
    let table = OrtNodeComputeInfo {
        ort_version_supported: API_VERSION,
        CreateState: create_state,
        Compute: compute::<F>,
        ReleaseState: release_state,
    };
    Box::into_raw(Box::new(Info { table, host, fused })).cast()
}

/// # Safety
/// `info` is one that [`make`] made for this `F`, released only once.
pub unsafe fn release<F: Fused>(info: *mut OrtNodeComputeInfo) {
    // SAFETY: the caller's.
    drop(unsafe { Box::from_raw(info.cast::<Info<F>>()) });
}

/// Has nodes of a graph fused. Constant initializers are no inputs of the fused node.
///
/// # Safety
/// `info` and the nodes are of the same graph.
pub unsafe fn fuse(
    host: Host,
    info: *mut OrtEpGraphSupportInfo,
    nodes: &[*const OrtNode],
) -> Result<(), Error> {
    let options = OrtNodeFusionOptions {
        ort_version_supported: API_VERSION,
        drop_constant_initializers: true,
    };
    // SAFETY: the caller's.
    unsafe {
        ort_try!(
            host,
            ep EpGraphSupportInfo_AddNodesToFuse(info, nodes.as_ptr(), nodes.len(), &raw const options)
        );
    }
    Ok(())
}

/// # Safety
/// `state` is a place for the result.
unsafe extern "system" fn create_state(
    _: *mut OrtNodeComputeInfo,
    _: *mut OrtNodeComputeContext,
    state: *mut *mut c_void,
) -> OrtStatusPtr {
    // All runs share what the table comes with.
    // SAFETY: the caller's.
    unsafe { *state = ptr::null_mut() };
    OrtStatusPtr::default()
}

unsafe extern "system" fn release_state(_: *mut OrtNodeComputeInfo, _: *mut c_void) {
    // There is none.
}

/// # Safety
/// `info` is one that [`make`] made for this `F`, `context` that of a run of the node.
unsafe extern "system" fn compute<F: Fused>(
    info: *mut OrtNodeComputeInfo,
    _: *mut c_void,
    context: *mut OrtKernelContext,
) -> OrtStatusPtr {
    // SAFETY: the caller's; the table is the first field. Runs share the rest.
    let info: &Info<F> = unsafe { &*info.cast_const().cast() };
    fence::status(info.host, || {
        fence::fault("fused");
        // SAFETY: the caller's; the run goes on until this returns.
        info.fused
            .compute(unsafe { Context::new(info.host, context) })
    })
}
