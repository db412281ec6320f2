//! The EP of a session: which nodes it takes.

use std::ffi::c_char;
use std::ptr;

use ort_sys::{OrtGraph, OrtNode, OrtStatusPtr};

use crate::abi::{API_VERSION, OrtEp, OrtEpGraphSupportInfo, OrtKernelRegistry, UNUSED};
use crate::error::Error;
use crate::fence;
use crate::host::{Host, ort_try};
use crate::log::Log;
use crate::node::{self, GraphNode};
use crate::options::Options;

/// The EP of one session.
#[repr(C)]
pub(crate) struct Ep {
    /// First, so that a pointer to it is one to the whole.
    table: OrtEp,
    host: Host,
    options: Options,
    log: Log,
    /// The factory's, which outlives its EPs.
    registry: *const OrtKernelRegistry,
}

impl Ep {
    pub(crate) fn new(
        host: Host,
        options: Options,
        log: Log,
        registry: *const OrtKernelRegistry,
    ) -> Self {
        let table = OrtEp {
            ort_version_supported: API_VERSION,
            GetName: get_name,
            GetCapability: get_capability,
            Compile: UNUSED,
            ReleaseNodeComputeInfos: UNUSED,
            GetPreferredDataLayout: UNUSED,
            ShouldConvertDataLayoutForOp: UNUSED,
            SetDynamicOptions: UNUSED,
            OnRunStart: UNUSED,
            OnRunEnd: UNUSED,
            CreateAllocator: UNUSED,
            CreateSyncStreamForDevice: UNUSED,
            GetCompiledModelCompatibilityInfo: UNUSED,
            GetKernelRegistry: get_kernel_registry,
            IsConcurrentRunSupported: is_concurrent_run_supported,
        };
        Self {
            table,
            host,
            options,
            log,
            registry,
        }
    }

    /// # Safety
    /// `ep` is one that this library made, alive for `'a`.
    pub(crate) unsafe fn from_table<'a>(ep: *const OrtEp) -> &'a Self {
        // SAFETY: the caller's; the table is the first field.
        unsafe { &*ep.cast() }
    }

    pub(crate) fn options(&self) -> Options {
        self.options
    }

    pub(crate) fn log(&self) -> Log {
        self.log
    }

    /// Takes a node of the operators, or says in the log why not.
    ///
    /// A node that its schema does not allow is taken nevertheless: making its
    /// kernel then says what is wrong, where the CPU EP may misread it.
    ///
    /// # Safety
    /// `node` is one of this host, alive, and `info` of the graph that it is in.
    unsafe fn consider(
        &self,
        node: *const OrtNode,
        info: *mut OrtEpGraphSupportInfo,
    ) -> Result<(), Error> {
        // SAFETY: the caller's.
        let Some(read) = (unsafe { GraphNode::read(self.host, node) })? else {
            return Ok(());
        };
        if let Some((index, element)) = read.unmovable_input() {
            self.decline(
                &read,
                &format!(
                    "input {index} has elements of type {element}, which no kernel here moves"
                ),
            );
            return Ok(());
        }
        if let Err(error) = read.operator()
            && error.is_unsupported()
        {
            self.decline(&read, &error.kind.to_string());
            return Ok(());
        }
        let mut kernel = ptr::null();
        // SAFETY: the caller's.
        unsafe {
            ort_try!(
                self.host,
                ep EpGraphSupportInfo_LookUpKernel(info, node, &raw mut kernel)
            );
        }
        if kernel.is_null() {
            self.decline(&read, "no kernel here is for its version and types");
            return Ok(());
        }
        // SAFETY: the caller's.
        unsafe { ort_try!(self.host, ep EpGraphSupportInfo_AddSingleNode(info, node)) };
        Ok(())
    }

    fn decline(&self, node: &GraphNode, reason: &str) {
        let label = node.label();
        let line = format!("{label} is left to other execution providers: {reason}");
        self.log.warning(c"GetCapability", &line);
    }
}

unsafe extern "system" fn get_name(_: *const OrtEp) -> *const c_char {
    crate::EP_NAME.as_ptr()
}

/// # Safety
/// `ep` is one that this library made, `graph` and `info` of its session.
unsafe extern "system" fn get_capability(
    ep: *mut OrtEp,
    graph: *const OrtGraph,
    info: *mut OrtEpGraphSupportInfo,
) -> OrtStatusPtr {
    // SAFETY: the caller's.
    let ep = unsafe { Ep::from_table(ep) };
    fence::status(ep.host, || {
        fence::fault("capability");
        // SAFETY: the caller's.
        for node in unsafe { node::nodes(ep.host, graph) }? {
            // SAFETY: the node is one of the graph that `info` is of.
            unsafe { ep.consider(node, info)? };
        }
        Ok(())
    })
}

/// # Safety
/// `ep` is one that this library made, `out` a place for the result.
unsafe extern "system" fn get_kernel_registry(
    ep: *mut OrtEp,
    out: *mut *const OrtKernelRegistry,
) -> OrtStatusPtr {
    // SAFETY: the caller's.
    unsafe { *out = Ep::from_table(ep).registry };
    OrtStatusPtr::default()
}

/// # Safety
/// `out` is a place for the result.
unsafe extern "system" fn is_concurrent_run_supported(
    _: *mut OrtEp,
    out: *mut bool,
) -> OrtStatusPtr {
    // SAFETY: the caller's.
    unsafe { *out = true };
    OrtStatusPtr::default()
}
