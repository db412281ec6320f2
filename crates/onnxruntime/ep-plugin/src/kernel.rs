//! The kernel of a node, and the table through which the host calls it.

use std::ffi::{c_int, c_void};

use ort_sys::{OrtAllocator, OrtKernelContext, OrtKernelInfo, OrtStatusPtr, OrtValue};

use super::abi::{
    API_VERSION, OrtKernelImpl, OrtSharedPrePackedWeightCache, PrePackWeight, UNUSED,
};
use super::error::{Error, Failure};
use super::fence;
use super::host::Host;
use super::info::KernelInfo;
use super::tensor::{Context, Tensor};

/// A node's kernel. Any number of runs may be in progress at once.
pub trait Kernel: Send + Sync + Sized {
    /// Its error.
    type Failure: Failure;

    /// Whether it [packs](Self::pack) constant inputs.
    const PACKS: bool = false;

    /// The kernel of a node that an EP of this library has taken.
    fn create(info: KernelInfo<'_>) -> Result<Self, Self::Failure>;

    /// Runs the node.
    fn compute(&self, context: Context<'_>) -> Result<(), Self::Failure>;

    /// Takes what it needs from a constant input, which it may read, before any run. Returns whether the host may
    /// release the input: runs do not read it.
    fn pack<'a>(
        &self,
        _input: usize,
        _read: impl FnOnce() -> Result<Tensor<'a>, Error>,
    ) -> Result<bool, Self::Failure> {
        Ok(false)
    }
}

/// A kernel with its table.
#[repr(C)]
struct EpKernel<K> {
    /// The table, first so that a pointer to it is one to the whole.
    table: OrtKernelImpl,
    host: Host,
    kernel: K,
}

/// An [`OrtKernelCreateFunc`](super::abi::OrtKernelCreateFunc).
///
/// # Safety
/// `api` is the table of a host, `info` one of it while a kernel is being
/// made, `out` a place for that.
pub unsafe extern "system" fn create<K: Kernel>(
    api: *mut c_void,
    info: *const OrtKernelInfo,
    out: *mut *mut OrtKernelImpl,
) -> OrtStatusPtr {
    // SAFETY: the caller's.
    unsafe {
        make(
            Host::from_api(api.cast_const().cast()),
            info,
            out,
            K::create,
        )
    }
}

/// Makes a kernel, for [`compute`] and [`release`].
///
/// # Safety
/// `info` is one of this host while a kernel is being made, `out` a place for that.
pub unsafe fn make<K: Kernel>(
    host: Host,
    info: *const OrtKernelInfo,
    out: *mut *mut OrtKernelImpl,
    create: impl FnOnce(KernelInfo<'_>) -> Result<K, K::Failure>,
) -> OrtStatusPtr {
    fence::status(host, || {
        fence::fault("create");
        // SAFETY: the caller's; the kernel is being made until this returns.
        let kernel = create(unsafe { KernelInfo::new(host, info) })?;
        let kernel = Box::new(EpKernel {
            table: OrtKernelImpl {
                ort_version_supported: API_VERSION,
                flags: 0,
                Compute: compute::<K>,
                Release: release::<K>,
                PrePackWeight: K::PACKS.then_some(pack::<K> as PrePackWeight),
                SetSharedPrePackedWeight: UNUSED,
            },
            host,
            kernel,
        });
        // SAFETY: the caller's; the host passes the kernel to `release`.
        unsafe { *out = Box::into_raw(kernel).cast() };
        Ok::<(), K::Failure>(())
    })
}

/// # Safety
/// `kernel` is one that [`make`] made, `context` that of a run of it.
pub unsafe extern "system" fn compute<K: Kernel>(
    kernel: *mut OrtKernelImpl,
    context: *mut OrtKernelContext,
) -> OrtStatusPtr {
    // SAFETY: the caller's; the table is the first field. Runs share the kernel.
    let kernel: &EpKernel<K> = unsafe { &*kernel.cast_const().cast() };
    fence::status(kernel.host, || {
        // SAFETY: the caller's; the run goes on until this returns.
        kernel
            .kernel
            .compute(unsafe { Context::new(kernel.host, context) })
    })
}

/// # Safety
/// `kernel` is one that [`make`] made, `tensor` one of its host, `is_packed` a place for the result.
unsafe extern "system" fn pack<K: Kernel>(
    kernel: *mut OrtKernelImpl,
    tensor: *const OrtValue,
    input: c_int,
    _allocator: *mut OrtAllocator,
    _cache: *mut OrtSharedPrePackedWeightCache,
    is_packed: *mut bool,
) -> OrtStatusPtr {
    // SAFETY: the caller's; the table is the first field.
    let kernel: &EpKernel<K> = unsafe { &*kernel.cast_const().cast() };
    fence::status(kernel.host, || {
        // SAFETY: the caller's.
        unsafe { *is_packed = false };
        let input = usize::try_from(input).unwrap_or(usize::MAX);
        // SAFETY: the caller's; the tensor lives until this returns.
        let read = || unsafe { Tensor::read(kernel.host, tensor.cast_mut()) };
        let packed = kernel.kernel.pack(input, read)?;
        // SAFETY: the caller's.
        unsafe { *is_packed = packed };
        Ok::<(), K::Failure>(())
    })
}

/// # Safety
/// `kernel` is one that [`make`] made, released only once.
pub unsafe extern "system" fn release<K: Kernel>(kernel: *mut OrtKernelImpl) {
    fence::value((), || {
        // SAFETY: the caller's.
        drop(unsafe { Box::from_raw(kernel.cast::<EpKernel<K>>()) });
    });
}
