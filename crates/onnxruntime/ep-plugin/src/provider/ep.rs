//! The EP of a session.

use std::any::TypeId;
use std::ffi::{c_char, c_int};
use std::marker::PhantomData;
use std::sync::OnceLock;

use ort_sys::{OrtGraph, OrtNode, OrtRunOptions, OrtStatusPtr};

use super::{Claims, Provider};
use crate::abi::{
    API_VERSION, OrtEp, OrtEpGraphSupportInfo, OrtKernelRegistry, OrtNodeComputeInfo, UNUSED,
};
use crate::error::Error;
use crate::graph::{Graph, GraphNode};
use crate::host::{Host, text};
use crate::{fence, fused};

/// What the EPs of a library begin with, whatever their providers are.
#[repr(C)]
struct Head {
    /// First, so that a pointer to it is one to the whole.
    table: OrtEp,
    /// The type of the provider.
    provider: TypeId,
}

/// The provider of a session, with its table.
#[repr(C)]
pub(super) struct Ep<P: Provider> {
    /// First, so that a pointer to it is one to the whole.
    head: Head,
    host: Host,
    /// `None` if it could not be made.
    provider: Option<P>,
    /// The factory's, which outlives its EPs.
    registry: *const OrtKernelRegistry,
    /// Reason why this EP cannot be used: it could not be made, or `GetCapability` failed. The host ignores these
    /// errors, and would go on without the EP.
    problem: OnceLock<P::Failure>,
}

impl<P: Provider> Ep<P> {
    pub(super) fn new(
        host: Host,
        provider: Result<P, P::Failure>,
        registry: *const OrtKernelRegistry,
    ) -> Self {
        let table = OrtEp {
            ort_version_supported: API_VERSION,
            GetName: get_name::<P>,
            GetCapability: get_capability::<P>,
            Compile: compile::<P>,
            ReleaseNodeComputeInfos: release_node_compute_infos::<P>,
            GetPreferredDataLayout: get_preferred_data_layout::<P>,
            ShouldConvertDataLayoutForOp: UNUSED,
            SetDynamicOptions: set_dynamic_options::<P>,
            OnRunStart: on_run_start::<P>,
            OnRunEnd: on_run_end::<P>,
            CreateAllocator: UNUSED,
            CreateSyncStreamForDevice: UNUSED,
            GetCompiledModelCompatibilityInfo: UNUSED,
            GetKernelRegistry: get_kernel_registry::<P>,
            IsConcurrentRunSupported: is_concurrent_run_supported,
        };
        let problem = OnceLock::new();
        let provider = provider.map_err(|error| problem.set(error)).ok();
        let head = Head {
            table,
            provider: TypeId::of::<P>(),
        };
        Self {
            head,
            host,
            provider,
            registry,
            problem,
        }
    }

    /// # Safety
    /// `ep` is one that this library made for this `P`, alive for `'a`.
    pub(super) unsafe fn from_table<'a>(ep: *const OrtEp) -> &'a Self {
        // SAFETY: the caller's; the table is the first field.
        unsafe { &*ep.cast() }
    }

    /// The provider that took the node of a kernel.
    ///
    /// # Safety
    /// `ep` is one that this library made, alive for `'a`.
    pub(super) unsafe fn of_kernel<'a>(ep: *const OrtEp) -> Result<&'a P, P::Failure> {
        // SAFETY: the caller's; each EP begins so.
        let head: &Head = unsafe { &*ep.cast() };
        if head.provider != TypeId::of::<P>() {
            let problem = "the node is none that the provider has taken";
            Err(Error::argument("OrtKernelCreateFunc", problem))?;
        }
        // SAFETY: the caller's; it is of this type.
        unsafe { Self::from_table(ep) }.provider()
    }

    /// The provider, or why there is none.
    fn provider(&self) -> Result<&P, P::Failure> {
        let made = self.provider.as_ref();
        made.ok_or_else(|| self.problem.get().expect("it was not made").clone())
    }

    /// The problem of this EP, as a status.
    fn problem_status(&self) -> OrtStatusPtr {
        match self.problem.get() {
            None => OrtStatusPtr::default(),
            Some(problem) => fence::status(self.host, || Err(problem.clone())),
        }
    }
}

unsafe extern "system" fn get_name<P: Provider>(_: *const OrtEp) -> *const c_char {
    P::NAME.as_ptr()
}

/// # Safety
/// `ep` is one that this library made, `graph` and `info` of its session.
unsafe extern "system" fn get_capability<P: Provider>(
    ep: *mut OrtEp,
    graph: *const OrtGraph,
    info: *mut OrtEpGraphSupportInfo,
) -> OrtStatusPtr {
    // SAFETY: the caller's.
    let ep: &Ep<P> = unsafe { Ep::from_table(ep) };
    fence::status(ep.host, || {
        // Without a provider the host is told later, where it does not ignore it.
        let Some(provider) = &ep.provider else {
            return Ok(());
        };
        let taken = fence::catch(|| {
            fence::fault("capability");
            // SAFETY: the caller's.
            let graph = unsafe { Graph::new(ep.host, graph) };
            let claims = Claims {
                host: ep.host,
                info,
                life: PhantomData,
            };
            provider.claim(graph, claims)
        });
        // The host logs this error and leaves all nodes to the CPU EP.
        taken.inspect_err(|error| {
            let _ = ep.problem.set(error.clone());
        })
    })
}

/// # Safety
/// `ep` is one that this library made, the rest as ONNX Runtime's header says.
unsafe extern "system" fn compile<P: Provider>(
    ep: *mut OrtEp,
    graphs: *const *const OrtGraph,
    nodes: *const *const OrtNode,
    count: usize,
    infos: *mut *mut OrtNodeComputeInfo,
    _context_nodes: *mut *mut OrtNode,
) -> OrtStatusPtr {
    // SAFETY: the caller's.
    let ep: &Ep<P> = unsafe { Ep::from_table(ep) };
    fence::status(ep.host, || {
        fence::fault("compile");
        let provider = ep.provider()?;
        let compile = |index| {
            // SAFETY: the caller's.
            let (graph, node) = unsafe {
                let graph = Graph::new(ep.host, *graphs.add(index));
                (graph, GraphNode::new(ep.host, *nodes.add(index)))
            };
            provider.compile(graph, node)
        };
        // The host takes over none of them if one fails.
        let made = (0..count).map(compile).collect::<Result<Vec<_>, _>>()?;
        for (index, compiled) in made.into_iter().enumerate() {
            // SAFETY: the caller's.
            unsafe { *infos.add(index) = fused::make(ep.host, compiled) };
        }
        Ok::<(), P::Failure>(())
    })
}

/// # Safety
/// The infos are those that [`compile`] made, released only once.
unsafe extern "system" fn release_node_compute_infos<P: Provider>(
    _: *mut OrtEp,
    infos: *mut *mut OrtNodeComputeInfo,
    count: usize,
) {
    fence::value((), || {
        for index in 0..count {
            // SAFETY: the caller's.
            unsafe { fused::release::<P::Fused>(*infos.add(index)) };
        }
    });
}

/// The layout of images, to which the EP is indifferent.
///
/// An error here always stops a session from being made. One of `CreateEp`
/// would not: ONNX Runtime's Python binding takes that as leave to make the
/// session without the EP. So wrong options are reported here.
///
/// # Safety
/// `ep` is one that this library made, `out` a place for the result.
unsafe extern "system" fn get_preferred_data_layout<P: Provider>(
    ep: *mut OrtEp,
    out: *mut c_int,
) -> OrtStatusPtr {
    /// `OrtEpDataLayout_NCHW`, the default.
    const NCHW: c_int = 0;
    // SAFETY: the caller's.
    let ep: &Ep<P> = unsafe { Ep::from_table(ep) };
    // SAFETY: the caller's.
    unsafe { *out = NCHW };
    ep.problem_status()
}

/// Options of other EPs are none of this one's.
///
/// # Safety
/// `ep` is one that this library made; there are `count` keys and values.
unsafe extern "system" fn set_dynamic_options<P: Provider>(
    ep: *mut OrtEp,
    keys: *const *const c_char,
    values: *const *const c_char,
    count: usize,
) -> OrtStatusPtr {
    // SAFETY: the caller's.
    let ep: &Ep<P> = unsafe { Ep::from_table(ep) };
    fence::status(ep.host, || {
        fence::fault("dynamic_options");
        let provider = ep.provider()?;
        for index in 0..count {
            // SAFETY: the caller's.
            let (key, value) = unsafe { (text(*keys.add(index)), text(*values.add(index))) };
            provider.set(&key, &value);
        }
        Ok::<(), P::Failure>(())
    })
}

/// Stops the runs of a session whose `GetCapability` failed too late to stop it from being made.
///
/// # Safety
/// `ep` is one that this library made, and the options live until `on_run_end`.
unsafe extern "system" fn on_run_start<P: Provider>(
    ep: *mut OrtEp,
    options: *const OrtRunOptions,
) -> OrtStatusPtr {
    // SAFETY: the caller's.
    let ep: &Ep<P> = unsafe { Ep::from_table(ep) };
    if ep.problem.get().is_some() {
        return ep.problem_status();
    }
    fence::status(ep.host, || ep.provider().map(|it| it.begin(options)))
}

/// # Safety
/// `ep` is one that this library made.
unsafe extern "system" fn on_run_end<P: Provider>(
    ep: *mut OrtEp,
    _options: *const OrtRunOptions,
    _waits: bool,
) -> OrtStatusPtr {
    // SAFETY: the caller's.
    let ep: &Ep<P> = unsafe { Ep::from_table(ep) };
    fence::status(ep.host, || ep.provider().map(P::end))
}

/// # Safety
/// `ep` is one that this library made, `out` a place for the result.
unsafe extern "system" fn get_kernel_registry<P: Provider>(
    ep: *mut OrtEp,
    out: *mut *const OrtKernelRegistry,
) -> OrtStatusPtr {
    // SAFETY: the caller's.
    unsafe { *out = Ep::<P>::from_table(ep).registry };
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
