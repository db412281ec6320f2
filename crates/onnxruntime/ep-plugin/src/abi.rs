//! The tables of ONNX Runtime's plugin interface that `ort-sys` does not declare.
//!
//! They follow `onnxruntime_ep_c_api.h` of ONNX Runtime 1.24
//! (include/onnxruntime/core/session). The tables only ever grow at their end,
//! so this prefix is right for every later version. A slot that this crate
//! neither calls nor fills has type [`Unused`].

#![expect(
    non_snake_case,
    reason = "the slots have the names of ONNX Runtime's header"
)]
#![expect(missing_docs, reason = "ONNX Runtime's header says what each slot is")]

use std::ffi::{c_char, c_int, c_void};
use std::mem::offset_of;

use ort_sys::{
    OrtAllocator, OrtCustomOpDomain, OrtEpDevice, OrtGraph, OrtHardwareDevice, OrtKernelContext,
    OrtKernelInfo, OrtKeyValuePairs, OrtLogger, OrtMemoryInfo, OrtNode, OrtRunOptions,
    OrtSessionOptions, OrtStatusPtr, OrtValue,
};

/// The version of the layout below, for the `ort_version_supported` fields and for `GetApi`.
pub const API_VERSION: u32 = 24;

/// A pointer-sized slot that is not used: null in tables that this crate fills.
pub type Unused = *const c_void;

/// The null of [`Unused`] slots.
pub const UNUSED: Unused = std::ptr::null();

/// Declares types whose contents only the host knows.
macro_rules! opaque {
    ($($(#[$attribute:meta])* $name:ident;)*) => {$(
        $(#[$attribute])*
        #[repr(C)]
        pub struct $name {
            _private: [u8; 0],
        }
    )*};
}

opaque! {
    /// The nodes of a graph that an EP claims.
    OrtEpGraphSupportInfo;
    /// The kernels of an EP.
    OrtKernelRegistry;
    /// A kernel definition in the making.
    OrtKernelDefBuilder;
    /// The nodes that a kernel supports.
    OrtKernelDef;
    /// A type that a kernel's type constraint allows.
    OrtDataType;
    /// Copies between devices.
    OrtDataTransferImpl;
    /// Packed weights that sessions share.
    OrtSharedPrePackedWeightCache;
    /// A fused node while its state is made.
    OrtNodeComputeContext;
}

/// Makes a kernel: its state, the node, where to put the kernel.
pub type OrtKernelCreateFunc = unsafe extern "system" fn(
    state: *mut c_void,
    info: *const OrtKernelInfo,
    kernel: *mut *mut OrtKernelImpl,
) -> OrtStatusPtr;

/// Offers a constant input to a kernel. It may be released once `is_packed` is true.
pub type PrePackWeight = unsafe extern "system" fn(
    this: *mut OrtKernelImpl,
    tensor: *const OrtValue,
    input: c_int,
    allocator: *mut OrtAllocator,
    cache: *mut OrtSharedPrePackedWeightCache,
    is_packed: *mut bool,
) -> OrtStatusPtr;

/// A setter of a string on a kernel definition.
type SetString = unsafe extern "system" fn(
    builder: *mut OrtKernelDefBuilder,
    value: *const c_char,
) -> OrtStatusPtr;

/// The host's functions for EPs, read through raw pointers, slot by slot.
#[repr(C)]
pub struct OrtEpApi {
    pub CreateEpDevice: unsafe extern "system" fn(
        factory: *mut OrtEpFactory,
        device: *const OrtHardwareDevice,
        metadata: *const OrtKeyValuePairs,
        options: *const OrtKeyValuePairs,
        out: *mut *mut OrtEpDevice,
    ) -> OrtStatusPtr,
    pub ReleaseEpDevice: unsafe extern "system" fn(device: *mut OrtEpDevice),
    pub EpGraphSupportInfo_AddNodesToFuse: unsafe extern "system" fn(
        info: *mut OrtEpGraphSupportInfo,
        nodes: *const *const OrtNode,
        count: usize,
        options: *const OrtNodeFusionOptions,
    ) -> OrtStatusPtr,
    pub EpGraphSupportInfo_AddSingleNode: unsafe extern "system" fn(
        info: *mut OrtEpGraphSupportInfo,
        node: *const OrtNode,
    ) -> OrtStatusPtr,
    NodeComputeContext_NodeName: Unused,
    EpDevice_AddAllocatorInfo: Unused,
    MemoryInfo_GetMemoryDevice: Unused,
    Value_GetMemoryDevice: Unused,
    MemoryDevice_AreEqual: Unused,
    MemoryDevice_GetDeviceType: Unused,
    MemoryDevice_GetMemoryType: Unused,
    MemoryDevice_GetVendorId: Unused,
    MemoryDevice_GetDeviceId: Unused,
    SyncStream_GetImpl: Unused,
    SyncStream_GetSyncId: Unused,
    GetSyncIdForLastWaitOnSyncStream: Unused,
    CreateHardwareDevice: Unused,
    ReleaseHardwareDevice: Unused,
    pub CreateKernelRegistry:
        unsafe extern "system" fn(out: *mut *mut OrtKernelRegistry) -> OrtStatusPtr,
    pub ReleaseKernelRegistry: unsafe extern "system" fn(registry: *mut OrtKernelRegistry),
    pub KernelRegistry_AddKernel: unsafe extern "system" fn(
        registry: *mut OrtKernelRegistry,
        definition: *const OrtKernelDef,
        create: OrtKernelCreateFunc,
        state: *mut c_void,
    ) -> OrtStatusPtr,
    pub CreateKernelDefBuilder:
        unsafe extern "system" fn(out: *mut *mut OrtKernelDefBuilder) -> OrtStatusPtr,
    pub ReleaseKernelDefBuilder: unsafe extern "system" fn(builder: *mut OrtKernelDefBuilder),
    pub KernelDefBuilder_SetOperatorType: SetString,
    pub KernelDefBuilder_SetDomain: SetString,
    pub KernelDefBuilder_SetSinceVersion: unsafe extern "system" fn(
        builder: *mut OrtKernelDefBuilder,
        start: c_int,
        end: c_int,
    ) -> OrtStatusPtr,
    pub KernelDefBuilder_SetExecutionProvider: SetString,
    KernelDefBuilder_SetInputMemType: Unused,
    KernelDefBuilder_SetOutputMemType: Unused,
    pub KernelDefBuilder_AddTypeConstraint: unsafe extern "system" fn(
        builder: *mut OrtKernelDefBuilder,
        name: *const c_char,
        types: *const *const OrtDataType,
        count: usize,
    ) -> OrtStatusPtr,
    KernelDefBuilder_AddInputOutputAliases: Unused,
    pub KernelDefBuilder_AddInputOutputMutableAliases: unsafe extern "system" fn(
        builder: *mut OrtKernelDefBuilder,
        inputs: *const c_int,
        outputs: *const c_int,
        count: usize,
    )
        -> OrtStatusPtr,
    pub KernelDefBuilder_Build: unsafe extern "system" fn(
        builder: *mut OrtKernelDefBuilder,
        out: *mut *mut OrtKernelDef,
    ) -> OrtStatusPtr,
    pub ReleaseKernelDef: unsafe extern "system" fn(definition: *mut OrtKernelDef),
    KernelDef_GetOperatorType: Unused,
    KernelDef_GetDomain: Unused,
    KernelDef_GetSinceVersion: Unused,
    KernelDef_GetExecutionProvider: Unused,
    KernelDef_GetInputMemType: Unused,
    KernelDef_GetOutputMemType: Unused,
    /// The element type is an `ONNXTensorElementDataType`.
    pub GetTensorDataType:
        unsafe extern "system" fn(element: c_int, out: *mut *const OrtDataType) -> OrtStatusPtr,
    pub EpGraphSupportInfo_LookUpKernel: unsafe extern "system" fn(
        info: *mut OrtEpGraphSupportInfo,
        node: *const OrtNode,
        out: *mut *const OrtKernelDef,
    ) -> OrtStatusPtr,
    SharedPrePackedWeightCache_StoreWeightData: Unused,
    pub KernelInfo_GetEp: unsafe extern "system" fn(
        info: *const OrtKernelInfo,
        out: *mut *const OrtEp,
    ) -> OrtStatusPtr,
    DeviceEpIncompatibilityDetails_SetDetails: Unused,
    CreateIfKernel: Unused,
    CreateLoopKernel: Unused,
    CreateScanKernel: Unused,
    ReleaseKernelImpl: Unused,
    GetEnvConfigEntries: Unused,
}

/// The factory of EPs: filled by this crate, called by the host.
#[repr(C)]
pub struct OrtEpFactory {
    pub ort_version_supported: u32,
    pub GetName: unsafe extern "system" fn(this: *const OrtEpFactory) -> *const c_char,
    pub GetVendor: unsafe extern "system" fn(this: *const OrtEpFactory) -> *const c_char,
    pub GetSupportedDevices: unsafe extern "system" fn(
        this: *mut OrtEpFactory,
        devices: *const *const OrtHardwareDevice,
        count: usize,
        ep_devices: *mut *mut OrtEpDevice,
        capacity: usize,
        ep_count: *mut usize,
    ) -> OrtStatusPtr,
    pub CreateEp: unsafe extern "system" fn(
        this: *mut OrtEpFactory,
        devices: *const *const OrtHardwareDevice,
        metadata: *const *const OrtKeyValuePairs,
        count: usize,
        options: *const OrtSessionOptions,
        logger: *const OrtLogger,
        out: *mut *mut OrtEp,
    ) -> OrtStatusPtr,
    pub ReleaseEp: unsafe extern "system" fn(this: *mut OrtEpFactory, ep: *mut OrtEp),
    pub GetVendorId: unsafe extern "system" fn(this: *const OrtEpFactory) -> u32,
    pub GetVersion: unsafe extern "system" fn(this: *const OrtEpFactory) -> *const c_char,
    pub ValidateCompiledModelCompatibilityInfo: Unused,
    pub CreateAllocator: unsafe extern "system" fn(
        this: *mut OrtEpFactory,
        info: *const OrtMemoryInfo,
        options: *const OrtKeyValuePairs,
        out: *mut *mut OrtAllocator,
    ) -> OrtStatusPtr,
    pub ReleaseAllocator:
        unsafe extern "system" fn(this: *mut OrtEpFactory, allocator: *mut OrtAllocator),
    pub CreateDataTransfer: unsafe extern "system" fn(
        this: *mut OrtEpFactory,
        out: *mut *mut OrtDataTransferImpl,
    ) -> OrtStatusPtr,
    pub IsStreamAware: unsafe extern "system" fn(this: *const OrtEpFactory) -> bool,
    pub CreateSyncStreamForDevice: Unused,
    pub GetHardwareDeviceIncompatibilityDetails: Unused,
    pub CreateExternalResourceImporterForDevice: Unused,
    pub GetNumCustomOpDomains:
        unsafe extern "system" fn(this: *mut OrtEpFactory, out: *mut usize) -> OrtStatusPtr,
    pub GetCustomOpDomains: unsafe extern "system" fn(
        this: *mut OrtEpFactory,
        domains: *mut *mut OrtCustomOpDomain,
        count: usize,
    ) -> OrtStatusPtr,
}

/// An EP of a session: filled by this crate, called by the host.
#[repr(C)]
pub struct OrtEp {
    pub ort_version_supported: u32,
    pub GetName: unsafe extern "system" fn(this: *const OrtEp) -> *const c_char,
    pub GetCapability: unsafe extern "system" fn(
        this: *mut OrtEp,
        graph: *const OrtGraph,
        info: *mut OrtEpGraphSupportInfo,
    ) -> OrtStatusPtr,
    /// Makes the nodes that this EP had fused. Each has a graph, and a place for the means to run it and
    /// for a node of an EPContext.
    pub Compile: unsafe extern "system" fn(
        this: *mut OrtEp,
        graphs: *const *const OrtGraph,
        nodes: *const *const OrtNode,
        count: usize,
        infos: *mut *mut OrtNodeComputeInfo,
        context_nodes: *mut *mut OrtNode,
    ) -> OrtStatusPtr,
    pub ReleaseNodeComputeInfos: unsafe extern "system" fn(
        this: *mut OrtEp,
        infos: *mut *mut OrtNodeComputeInfo,
        count: usize,
    ),
    /// The result is an `OrtEpDataLayout`.
    pub GetPreferredDataLayout:
        unsafe extern "system" fn(this: *mut OrtEp, out: *mut c_int) -> OrtStatusPtr,
    pub ShouldConvertDataLayoutForOp: Unused,
    /// Options that a session is given after it was made. They are those of all EPs of the session.
    pub SetDynamicOptions: unsafe extern "system" fn(
        this: *mut OrtEp,
        keys: *const *const c_char,
        values: *const *const c_char,
        count: usize,
    ) -> OrtStatusPtr,
    pub OnRunStart:
        unsafe extern "system" fn(this: *mut OrtEp, options: *const OrtRunOptions) -> OrtStatusPtr,
    pub OnRunEnd: unsafe extern "system" fn(
        this: *mut OrtEp,
        options: *const OrtRunOptions,
        waits: bool,
    ) -> OrtStatusPtr,
    pub CreateAllocator: Unused,
    pub CreateSyncStreamForDevice: Unused,
    pub GetCompiledModelCompatibilityInfo: Unused,
    pub GetKernelRegistry: unsafe extern "system" fn(
        this: *mut OrtEp,
        out: *mut *const OrtKernelRegistry,
    ) -> OrtStatusPtr,
    pub IsConcurrentRunSupported:
        unsafe extern "system" fn(this: *mut OrtEp, out: *mut bool) -> OrtStatusPtr,
}

/// How nodes are fused.
#[repr(C)]
pub struct OrtNodeFusionOptions {
    pub ort_version_supported: u32,
    /// Whether constant initializers are no inputs of the fused node; the host may release them.
    pub drop_constant_initializers: bool,
}

/// The means to run a fused node: filled by this crate, called by the host.
#[repr(C)]
pub struct OrtNodeComputeInfo {
    pub ort_version_supported: u32,
    pub CreateState: unsafe extern "system" fn(
        this: *mut OrtNodeComputeInfo,
        context: *mut OrtNodeComputeContext,
        state: *mut *mut c_void,
    ) -> OrtStatusPtr,
    pub Compute: unsafe extern "system" fn(
        this: *mut OrtNodeComputeInfo,
        state: *mut c_void,
        context: *mut OrtKernelContext,
    ) -> OrtStatusPtr,
    pub ReleaseState: unsafe extern "system" fn(this: *mut OrtNodeComputeInfo, state: *mut c_void),
}

/// The kernel of a node: filled by this crate, called by the host.
#[repr(C)]
pub struct OrtKernelImpl {
    pub ort_version_supported: u32,
    pub flags: u32,
    pub Compute: unsafe extern "system" fn(
        this: *mut OrtKernelImpl,
        context: *mut OrtKernelContext,
    ) -> OrtStatusPtr,
    pub Release: unsafe extern "system" fn(this: *mut OrtKernelImpl),
    pub PrePackWeight: Option<PrePackWeight>,
    pub SetSharedPrePackedWeight: Unused,
}

/// The offset of a slot after `before` others in a table of nothing but pointers.
const fn slot(before: usize) -> usize {
    before * size_of::<Unused>()
}

// The number of slots before each is counted from the header.
const _: () = {
    assert!(offset_of!(OrtEpApi, EpGraphSupportInfo_AddNodesToFuse) == slot(2));
    assert!(offset_of!(OrtEpApi, EpGraphSupportInfo_AddSingleNode) == slot(3));
    assert!(offset_of!(OrtEpApi, GetSyncIdForLastWaitOnSyncStream) == slot(15));
    assert!(offset_of!(OrtEpApi, CreateKernelRegistry) == slot(18));
    assert!(offset_of!(OrtEpApi, KernelRegistry_AddKernel) == slot(20));
    assert!(offset_of!(OrtEpApi, KernelDefBuilder_SetOperatorType) == slot(23));
    assert!(offset_of!(OrtEpApi, KernelDefBuilder_SetExecutionProvider) == slot(26));
    assert!(offset_of!(OrtEpApi, KernelDefBuilder_AddTypeConstraint) == slot(29));
    assert!(offset_of!(OrtEpApi, KernelDefBuilder_AddInputOutputMutableAliases) == slot(31));
    assert!(offset_of!(OrtEpApi, ReleaseKernelDef) == slot(33));
    assert!(offset_of!(OrtEpApi, GetTensorDataType) == slot(40));
    assert!(offset_of!(OrtEpApi, EpGraphSupportInfo_LookUpKernel) == slot(41));
    assert!(offset_of!(OrtEpApi, KernelInfo_GetEp) == slot(43));
    assert!(offset_of!(OrtEpApi, GetEnvConfigEntries) == slot(49));
    assert!(size_of::<OrtEpApi>() == slot(50));

    // A version comes first and takes a slot with its padding.
    assert!(offset_of!(OrtEpFactory, GetName) == slot(1));
    assert!(offset_of!(OrtEpFactory, ReleaseEp) == slot(5));
    assert!(offset_of!(OrtEpFactory, GetVendorId) == slot(6));
    assert!(offset_of!(OrtEpFactory, CreateDataTransfer) == slot(11));
    assert!(offset_of!(OrtEpFactory, GetNumCustomOpDomains) == slot(16));
    assert!(size_of::<OrtEpFactory>() == slot(18));

    assert!(offset_of!(OrtEp, GetName) == slot(1));
    assert!(offset_of!(OrtEp, GetCapability) == slot(2));
    assert!(offset_of!(OrtEp, Compile) == slot(3));
    assert!(offset_of!(OrtEp, GetPreferredDataLayout) == slot(5));
    assert!(offset_of!(OrtEp, OnRunStart) == slot(8));
    assert!(offset_of!(OrtEp, OnRunEnd) == slot(9));
    assert!(offset_of!(OrtEp, GetCompiledModelCompatibilityInfo) == slot(12));
    assert!(offset_of!(OrtEp, GetKernelRegistry) == slot(13));
    assert!(size_of::<OrtEp>() == slot(15));

    assert!(offset_of!(OrtNodeFusionOptions, drop_constant_initializers) == 4);
    assert!(offset_of!(OrtNodeComputeInfo, CreateState) == slot(1));
    assert!(size_of::<OrtNodeComputeInfo>() == slot(4));

    assert!(offset_of!(OrtKernelImpl, flags) == 4);
    assert!(offset_of!(OrtKernelImpl, Compute) == 8);
    assert!(offset_of!(OrtKernelImpl, Release) == 8 + slot(1));
    assert!(size_of::<OrtKernelImpl>() == 8 + slot(4));
};
