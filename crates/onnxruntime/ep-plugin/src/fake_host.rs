//! A fake host, for behaviour that ONNX Runtime never shows: a test decides
//! which of its calls fails, and counts the objects that were not released.

use std::cell::Cell;
use std::ffi::{c_char, c_int, c_void};
use std::mem::MaybeUninit;
use std::ptr;

use ort_sys::{
    OrtApi, OrtCustomOp, OrtCustomOpDomain, OrtEpDevice, OrtErrorCode, OrtHardwareDevice,
    OrtHardwareDeviceType, OrtKernelInfo, OrtKeyValuePairs, OrtStatus, OrtStatusPtr,
};

use super::abi::{
    OrtDataType, OrtEpApi, OrtEpFactory, OrtKernelCreateFunc, OrtKernelDef, OrtKernelDefBuilder,
    OrtKernelRegistry,
};
use super::host::Host;

thread_local! {
    /// Number of calls that succeed before one fails; the largest number if none is to fail.
    static CALLS_LEFT: Cell<usize> = const { Cell::new(usize::MAX) };
    /// The number of the host's objects that have not been released.
    static ALIVE: Cell<isize> = const { Cell::new(0) };
    /// The second table of the host that was made last.
    static EP_API: Cell<*const ort_sys::OrtEpApi> = const { Cell::new(ptr::null()) };
    /// The function that makes the EP's kernels, and its state.
    static KERNEL: Cell<Option<(OrtKernelCreateFunc, *mut c_void)>> = const { Cell::new(None) };
}

/// Makes the call after this many others fail, and no other.
pub fn fail_after(calls: usize) {
    CALLS_LEFT.set(calls);
}

/// Whether the call that is to fail is yet to come.
pub fn has_not_failed() -> bool {
    CALLS_LEFT.get() != usize::MAX
}

/// Returns the number of objects that are neither released nor the host's own again.
pub fn alive() -> isize {
    ALIVE.get()
}

/// The function that makes the EP's kernels, and its state.
pub fn kernel() -> (OrtKernelCreateFunc, *mut c_void) {
    KERNEL.get().expect("a kernel is registered")
}

/// A device of the machine's.
pub fn cpu() -> *const OrtHardwareDevice {
    ptr::dangling()
}

/// The host; all that its tables lack stays uninitialised, and is never read.
pub fn host() -> Host {
    let api = Box::leak(Box::new(MaybeUninit::<OrtApi>::uninit())).as_mut_ptr();
    let ep_api = Box::leak(Box::new(MaybeUninit::<OrtEpApi>::uninit())).as_mut_ptr();
    // SAFETY: each write is within its table. A function's type differs from
    // its slot's at most in that an integer stands for a C enum.
    unsafe {
        (*api).GetEpApi = get_ep_api;
        (*api).CreateStatus = create_status;
        (*api).GetErrorMessage = get_error_message;
        (&raw mut (*api).GetErrorCode)
            .cast::<ErrorCode>()
            .write(get_error_code);
        (*api).ReleaseStatus = release_status;
        (&raw mut (*api).HardwareDevice_Type)
            .cast::<DeviceType>()
            .write(device_type);
        (*api).CreateCustomOpDomain = create_custom_op_domain;
        (*api).CustomOpDomain_Add = custom_op_domain_add;
        (*api).ReleaseCustomOpDomain = release;
        (*api).KernelInfo_GetNodeName = kernel_info_get_node_name;
        (*ep_api).CreateEpDevice = create_ep_device;
        (*ep_api).ReleaseEpDevice = release;
        (*ep_api).CreateKernelRegistry = create;
        (*ep_api).ReleaseKernelRegistry = release;
        (*ep_api).KernelRegistry_AddKernel = add_kernel;
        (*ep_api).CreateKernelDefBuilder = create;
        (*ep_api).ReleaseKernelDefBuilder = release;
        (*ep_api).KernelDefBuilder_SetOperatorType = set_string;
        (*ep_api).KernelDefBuilder_SetDomain = set_string;
        (*ep_api).KernelDefBuilder_SetExecutionProvider = set_string;
        (*ep_api).KernelDefBuilder_SetSinceVersion = set_since_version;
        (*ep_api).KernelDefBuilder_AddTypeConstraint = add_type_constraint;
        (*ep_api).KernelDefBuilder_AddInputOutputMutableAliases = add_aliases;
        (*ep_api).KernelDefBuilder_Build = build;
        (*ep_api).ReleaseKernelDef = release;
        (*ep_api).GetTensorDataType = get_tensor_data_type;
    }
    EP_API.set(ep_api.cast_const().cast());
    Host { api, ep_api }
}

type ErrorCode = unsafe extern "system" fn(*const OrtStatus) -> c_int;
type DeviceType = unsafe extern "system" fn(*const OrtHardwareDevice) -> c_int;

/// The result of a call: a status if it is the one to fail.
fn called() -> OrtStatusPtr {
    match CALLS_LEFT.get() {
        usize::MAX => OrtStatusPtr::default(),
        0 => {
            CALLS_LEFT.set(usize::MAX);
            OrtStatusPtr(ptr::dangling_mut())
        }
        calls => {
            CALLS_LEFT.set(calls - 1);
            OrtStatusPtr::default()
        }
    }
}

/// Returns the status of [`called`], with an object if all is well.
unsafe extern "system" fn create<T>(out: *mut *mut T) -> OrtStatusPtr {
    let status = called();
    if status.0.is_null() {
        ALIVE.set(ALIVE.get() + 1);
        // SAFETY: the caller passes a place for the object.
        unsafe { *out = ptr::dangling_mut() };
    }
    status
}

unsafe extern "system" fn release<T>(_: *mut T) {
    ALIVE.set(ALIVE.get() - 1);
}

unsafe extern "system" fn get_ep_api() -> *const ort_sys::OrtEpApi {
    EP_API.get()
}

unsafe extern "system" fn create_status(_: OrtErrorCode, _: *const c_char) -> OrtStatusPtr {
    OrtStatusPtr(ptr::dangling_mut())
}

unsafe extern "system" fn get_error_code(_: *const OrtStatus) -> c_int {
    OrtErrorCode::ORT_RUNTIME_EXCEPTION as c_int
}

unsafe extern "system" fn get_error_message(_: *const OrtStatus) -> *const c_char {
    c"injected".as_ptr()
}

unsafe extern "system" fn release_status(_: *mut OrtStatus) {}

unsafe extern "system" fn device_type(_: *const OrtHardwareDevice) -> c_int {
    OrtHardwareDeviceType::OrtHardwareDeviceType_CPU as c_int
}

unsafe extern "system" fn create_custom_op_domain(
    _: *const c_char,
    out: *mut *mut OrtCustomOpDomain,
) -> OrtStatusPtr {
    // SAFETY: the caller's.
    unsafe { create(out) }
}

unsafe extern "system" fn custom_op_domain_add(
    _: *mut OrtCustomOpDomain,
    op: *const OrtCustomOp,
) -> OrtStatusPtr {
    // SAFETY: the caller passes an op, which the domain may read as long as it lives.
    assert!(unsafe { (*op).GetName }.is_some());
    called()
}

unsafe extern "system" fn kernel_info_get_node_name(
    _: *const OrtKernelInfo,
    _: *mut c_char,
    _: *mut usize,
) -> OrtStatusPtr {
    OrtStatusPtr(ptr::dangling_mut())
}

unsafe extern "system" fn create_ep_device(
    _: *mut OrtEpFactory,
    _: *const OrtHardwareDevice,
    _: *const OrtKeyValuePairs,
    _: *const OrtKeyValuePairs,
    out: *mut *mut OrtEpDevice,
) -> OrtStatusPtr {
    // SAFETY: the caller's.
    unsafe { create(out) }
}

unsafe extern "system" fn add_kernel(
    _: *mut OrtKernelRegistry,
    _: *const OrtKernelDef,
    create: OrtKernelCreateFunc,
    state: *mut c_void,
) -> OrtStatusPtr {
    KERNEL.set(Some((create, state)));
    called()
}

unsafe extern "system" fn set_string(
    _: *mut OrtKernelDefBuilder,
    _: *const c_char,
) -> OrtStatusPtr {
    called()
}

unsafe extern "system" fn set_since_version(
    _: *mut OrtKernelDefBuilder,
    _: c_int,
    _: c_int,
) -> OrtStatusPtr {
    called()
}

unsafe extern "system" fn add_type_constraint(
    _: *mut OrtKernelDefBuilder,
    _: *const c_char,
    _: *const *const OrtDataType,
    _: usize,
) -> OrtStatusPtr {
    called()
}

unsafe extern "system" fn add_aliases(
    _: *mut OrtKernelDefBuilder,
    _: *const c_int,
    _: *const c_int,
    _: usize,
) -> OrtStatusPtr {
    called()
}

unsafe extern "system" fn build(
    _: *mut OrtKernelDefBuilder,
    out: *mut *mut OrtKernelDef,
) -> OrtStatusPtr {
    // SAFETY: the caller's.
    unsafe { create(out) }
}

unsafe extern "system" fn get_tensor_data_type(
    _: c_int,
    out: *mut *const OrtDataType,
) -> OrtStatusPtr {
    // SAFETY: the caller passes a place for the type, which stays the host's.
    unsafe { *out = ptr::dangling() };
    called()
}
