//! The kernel of a node as the EP hands it to ONNX Runtime.

use std::ffi::c_void;

use ort_sys::{OrtKernelContext, OrtKernelInfo, OrtStatusPtr};

use crate::plugin::abi::{API_VERSION, OrtKernelImpl, UNUSED};
use crate::plugin::fence;
use crate::plugin::host::Host;
use crate::plugin::info::KernelInfo;
use crate::plugin::tensor::Context;
use crate::provider::ep::Ep;
use crate::provider::factory::Factory;
use crate::provider::kernel::Kernel;

/// A kernel with the table through which the host calls it.
#[repr(C)]
struct EpKernel {
    /// First, so that a pointer to it is one to the whole.
    table: OrtKernelImpl,
    host: Host,
    kernel: Kernel,
}

/// An [`OrtKernelCreateFunc`](crate::plugin::abi::OrtKernelCreateFunc).
///
/// # Safety
/// `factory` is the [`Factory`] whose registry this stands in, `info` one of
/// its host while a kernel is being made, `out` a place for that.
pub(crate) unsafe extern "system" fn create(
    factory: *mut c_void,
    info: *const OrtKernelInfo,
    out: *mut *mut OrtKernelImpl,
) -> OrtStatusPtr {
    // SAFETY: the caller's.
    let factory: &Factory = unsafe { &*factory.cast_const().cast() };
    let host = factory.host();
    fence::status(host, || {
        fence::fault("create");
        // SAFETY: the caller's.
        let info = unsafe { KernelInfo::new(host, info) };
        let kernel = info.with_name(|name| {
            // SAFETY: the registry is that of this library's EPs, so the node's EP
            // is one of them, and it outlives its kernels.
            let ep = unsafe { Ep::from_table(info.ep()?) };
            let plans = info.plans(name, ep.gpu().cloned())?;
            let policy = ep.options().lengths_policy(plans.operator());
            Ok(Kernel::new(plans, policy, ep.log().is_verbose()))
        })?;
        let kernel = Box::new(EpKernel {
            table: OrtKernelImpl {
                ort_version_supported: API_VERSION,
                flags: 0,
                Compute: compute,
                Release: release,
                PrePackWeight: UNUSED,
                SetSharedPrePackedWeight: UNUSED,
            },
            host,
            kernel,
        });
        // SAFETY: the caller's; the host gives the kernel back to `release`.
        unsafe { *out = Box::into_raw(kernel).cast() };
        Ok(())
    })
}

/// # Safety
/// `kernel` is one that [`create`] made, `context` that of a run of it.
unsafe extern "system" fn compute(
    kernel: *mut OrtKernelImpl,
    context: *mut OrtKernelContext,
) -> OrtStatusPtr {
    // SAFETY: the caller's; the table is the first field. Runs share the kernel.
    let kernel: &EpKernel = unsafe { &*kernel.cast_const().cast() };
    fence::status(kernel.host, || {
        // SAFETY: the caller's; the run goes on until this returns.
        kernel
            .kernel
            .compute(unsafe { Context::new(kernel.host, context) })
    })
}

/// # Safety
/// `kernel` is one that [`create`] made, released only once.
unsafe extern "system" fn release(kernel: *mut OrtKernelImpl) {
    fence::value((), || {
        // SAFETY: the caller's.
        drop(unsafe { Box::from_raw(kernel.cast::<EpKernel>()) });
    });
}
