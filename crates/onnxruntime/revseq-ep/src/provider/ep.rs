//! The EP of a session: which nodes it takes.

use std::collections::HashSet;
use std::ffi::{CString, c_char, c_int};
use std::sync::{Arc, OnceLock};

use ort_sys::{OrtGraph, OrtNode, OrtRunOptions, OrtStatusPtr};
use revseq_graph::Operator;

use super::error::Error;
use super::gpu::Gpu;
use super::layers::{self, Taken, TakenLayers};
use super::loops::{Claims, Compiled};
use super::node::{operator, unmovable_input};
use super::options::Options;
use super::report::{self, Report};
use super::{EP_NAME, EP_NAME_STR};
use crate::plugin::abi::{
    API_VERSION, OrtEp, OrtEpGraphSupportInfo, OrtKernelRegistry, OrtNodeComputeInfo, UNUSED,
};
use crate::plugin::graph::{Graph, GraphNode, Value};
use crate::plugin::host::{Host, ort_get, ort_try, text};
use crate::plugin::log::Log;
use crate::plugin::node::Node;
use crate::plugin::runs::Runs;
use crate::plugin::session::Around;
use crate::plugin::{fence, fused};

/// The EP of one session.
#[repr(C)]
pub(crate) struct Ep {
    /// The table, first so that a pointer to it is one to the whole.
    table: OrtEp,
    host: Host,
    options: Options,
    /// The GPU that runs the nodes. `None` for the CPU.
    gpu: Option<Gpu>,
    log: Log,
    /// The runs in progress, if kernels or inner sessions ask for them.
    runs: Arc<Runs>,
    /// The layers that were taken.
    layers: TakenLayers,
    /// The loops that were taken.
    loops: Claims,
    /// What became of the nodes.
    report: Report,
    /// What inner sessions have of the session, if there may be any.
    around: Option<Around>,
    /// The factory's, which outlives its EPs.
    registry: *const OrtKernelRegistry,
    /// Reason why this EP cannot be used: its options are wrong, there is no such GPU, or
    /// `GetCapability` failed. The host ignores these errors, and would go on without the EP.
    problem: OnceLock<Error>,
}

/// What an EP is made of.
#[derive(Default)]
pub(crate) struct Setup {
    pub(crate) options: Options,
    /// The GPU that runs the nodes. `None` for the CPU.
    pub(crate) gpu: Option<Gpu>,
    /// What inner sessions have of the session, if there may be any.
    pub(crate) around: Option<Around>,
    /// Whether the inputs of fused nodes have what the graphs in their nodes capture.
    pub(crate) fuses_captured: bool,
}

impl Ep {
    pub(crate) fn new(
        host: Host,
        setup: Result<Setup, Error>,
        log: Log,
        runs: Arc<Runs>,
        registry: *const OrtKernelRegistry,
    ) -> Self {
        let table = OrtEp {
            ort_version_supported: API_VERSION,
            GetName: get_name,
            GetCapability: get_capability,
            Compile: compile,
            ReleaseNodeComputeInfos: release_node_compute_infos,
            GetPreferredDataLayout: get_preferred_data_layout,
            ShouldConvertDataLayoutForOp: UNUSED,
            SetDynamicOptions: set_dynamic_options,
            OnRunStart: on_run_start,
            OnRunEnd: on_run_end,
            CreateAllocator: UNUSED,
            CreateSyncStreamForDevice: UNUSED,
            GetCompiledModelCompatibilityInfo: UNUSED,
            GetKernelRegistry: get_kernel_registry,
            IsConcurrentRunSupported: is_concurrent_run_supported,
        };
        let problem = OnceLock::new();
        let Setup {
            options,
            gpu,
            around,
            fuses_captured,
        } = setup.unwrap_or_else(|error| {
            let _ = problem.set(error);
            Setup::default()
        });
        Self {
            table,
            host,
            options,
            gpu,
            log,
            runs,
            layers: TakenLayers::default(),
            loops: Claims::new(fuses_captured),
            report: Report::new(log),
            around,
            registry,
            problem,
        }
    }

    /// # Safety
    /// `ep` is one that this library made, alive for `'a`.
    pub(crate) unsafe fn from_table<'a>(ep: *const OrtEp) -> &'a Self {
        // SAFETY: the caller's; the table is the first field.
        unsafe { &*ep.cast() }
    }

    pub(crate) fn options(&self) -> &Options {
        &self.options
    }

    /// The layer that a node which was taken is, by its outputs.
    pub(super) fn layer(&self, outputs: &[CString]) -> Option<Taken> {
        self.layers.get(outputs)
    }

    pub(crate) fn gpu(&self) -> Option<&Gpu> {
        self.gpu.as_ref()
    }

    pub(crate) fn log(&self) -> Log {
        self.log
    }

    pub(super) fn runs(&self) -> Arc<Runs> {
        Arc::clone(&self.runs)
    }

    /// The problem of this EP, as a status.
    fn problem_status(&self) -> OrtStatusPtr {
        match self.problem.get() {
            None => OrtStatusPtr::default(),
            Some(problem) => fence::status(self.host, || Err(problem.clone())),
        }
    }

    /// Claims a node of the operators if no other EP has it, or reports why not.
    ///
    /// A node that violates its schema is claimed nevertheless: creating its
    /// kernel then reports the error, where the CPU EP may misread the node.
    ///
    /// # Safety
    /// `info` is of the graph that the node is in.
    unsafe fn consider(
        &self,
        node: GraphNode<'_>,
        info: *mut OrtEpGraphSupportInfo,
        report: &report::OfGraph<'_>,
    ) -> Result<(), Error> {
        let name = node.name()?;
        let considered = || {
            let Some(read) = self.read(node)? else {
                return Ok(());
            };
            let operator = match layers::is_known(&read.domain, &read.op_type) {
                true => {
                    let outputs = node.outputs()?.into_iter();
                    let are_read = outputs.map(Value::is_read).collect::<Result<_, _>>()?;
                    self.layers.add(&read, are_read)
                }
                false => movable(&read),
            };
            let left = match operator {
                // SAFETY: the caller's.
                Ok(()) => unsafe { self.take(node, info)? },
                Err(reason) => Some(reason),
            };
            match left {
                None => report.runs(node),
                Some(reason) => report.left(node, reason),
            }
        };
        considered().map_err(|error: Error| error.of_node(format!("node {name:?}")))
    }

    /// Reads a node if it is one of the operators and not another EP's.
    fn read(&self, node: GraphNode<'_>) -> Result<Option<Node>, Error> {
        let (domain, op_type) = node.operator()?;
        let is_layer = self.options.layers() && layers::is_known(&domain, &op_type);
        if !is_layer && !Operator::is_known(&domain, &op_type) {
            return Ok(None);
        }
        let provider = node.ep_name()?;
        if !provider.is_empty() && provider != EP_NAME_STR {
            return Ok(None);
        }
        Ok(Some(node.read()?))
    }

    /// Takes a node, or says why not.
    ///
    /// # Safety
    /// As [`consider`](Self::consider).
    unsafe fn take(
        &self,
        node: GraphNode<'_>,
        info: *mut OrtEpGraphSupportInfo,
    ) -> Result<Option<String>, Error> {
        let (host, node) = (self.host, node.as_ptr());
        // SAFETY: the caller's; the node lives as long as its graph.
        unsafe {
            if ort_get!(host, ep EpGraphSupportInfo_LookUpKernel(info, node)).is_null() {
                let reason = "no kernel is registered for its schema version and types";
                return Ok(Some(String::from(reason)));
            }
            ort_try!(host, ep EpGraphSupportInfo_AddSingleNode(info, node));
        }
        Ok(None)
    }
}

/// Says why the kernel for reversals does not take a node, if it does not.
fn movable(read: &Node) -> Result<(), String> {
    if let Some((index, element)) = unmovable_input(read) {
        return Err(format!(
            "input {index} has elements of type {element}, expected a type of fixed size"
        ));
    }
    match operator(read) {
        Err(error) if error.is_unsupported() => Err(error.kind.to_string()),
        _ => Ok(()),
    }
}

unsafe extern "system" fn get_name(_: *const OrtEp) -> *const c_char {
    EP_NAME.as_ptr()
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
        let taken = fence::catch(|| {
            fence::fault("capability");
            // SAFETY: the caller's.
            let graph = unsafe { Graph::new(ep.host, graph) };
            let report = ep.report.on(graph);
            let fused = match (ep.options.loops(), &ep.around) {
                (Some(assume), Some(around)) => {
                    let options = (&ep.options, assume);
                    // SAFETY: the caller's.
                    unsafe {
                        ep.loops
                            .claim(ep.host, graph, info, options, around, &report)?
                    }
                }
                _ => HashSet::new(),
            };
            for node in graph.nodes()? {
                if !fused.contains(&node.as_ptr()) {
                    // SAFETY: the node is one of the graph that `info` is of.
                    unsafe { ep.consider(node, info, &report)? };
                }
            }
            Ok(())
        });
        // The host logs this error and leaves all nodes to the CPU EP.
        taken.inspect_err(|error: &Error| {
            let _ = ep.problem.set(error.clone());
        })
    })
}

/// Makes the loops that were taken.
///
/// # Safety
/// `ep` is one that this library made, the rest as ONNX Runtime's header says.
unsafe extern "system" fn compile(
    ep: *mut OrtEp,
    graphs: *const *const OrtGraph,
    nodes: *const *const OrtNode,
    count: usize,
    infos: *mut *mut OrtNodeComputeInfo,
    _context_nodes: *mut *mut OrtNode,
) -> OrtStatusPtr {
    // SAFETY: the caller's.
    let ep = unsafe { Ep::from_table(ep) };
    fence::status(ep.host, || {
        fence::fault("compile");
        let compile = |index| {
            // SAFETY: the caller's.
            let (graph, node) = unsafe {
                let graph = Graph::new(ep.host, *graphs.add(index));
                (graph, GraphNode::new(ep.host, *nodes.add(index)))
            };
            let writes_context = ep.around.as_ref().is_some_and(|it| it.writes_context);
            ep.loops.take(graph, node, writes_context)
        };
        // The host takes over none of them if one fails.
        let made = (0..count).map(compile).collect::<Result<Vec<_>, _>>()?;
        for (index, compiled) in made.into_iter().enumerate() {
            // SAFETY: the caller's.
            unsafe { *infos.add(index) = fused::make(ep.host, compiled) };
        }
        Ok::<(), Error>(())
    })
}

/// # Safety
/// The infos are those that [`compile`] made, released only once.
unsafe extern "system" fn release_node_compute_infos(
    _: *mut OrtEp,
    infos: *mut *mut OrtNodeComputeInfo,
    count: usize,
) {
    fence::value((), || {
        for index in 0..count {
            // SAFETY: the caller's.
            unsafe { fused::release::<Compiled>(*infos.add(index)) };
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
unsafe extern "system" fn get_preferred_data_layout(
    ep: *mut OrtEp,
    out: *mut c_int,
) -> OrtStatusPtr {
    /// `OrtEpDataLayout_NCHW`, the default.
    const NCHW: c_int = 0;
    // SAFETY: the caller's.
    let ep = unsafe { Ep::from_table(ep) };
    // SAFETY: the caller's.
    unsafe { *out = NCHW };
    ep.problem_status()
}

/// Leaves the report where the options say. Options of other EPs are none of this one's.
///
/// # Safety
/// `ep` is one that this library made; there are `count` keys and values.
unsafe extern "system" fn set_dynamic_options(
    ep: *mut OrtEp,
    keys: *const *const c_char,
    values: *const *const c_char,
    count: usize,
) -> OrtStatusPtr {
    // SAFETY: the caller's.
    let ep = unsafe { Ep::from_table(ep) };
    fence::status(ep.host, || {
        fence::fault("dynamic_options");
        for index in 0..count {
            // SAFETY: the caller's.
            let (key, value) = unsafe { (text(*keys.add(index)), text(*values.add(index))) };
            if key == report::OPTION {
                ep.report.leave(&value);
            }
        }
        Ok::<(), Error>(())
    })
}

/// Stops the runs of a session whose `GetCapability` failed too late to stop it from being made.
///
/// # Safety
/// `ep` is one that this library made, and the options live until `on_run_end`.
unsafe extern "system" fn on_run_start(
    ep: *mut OrtEp,
    options: *const OrtRunOptions,
) -> OrtStatusPtr {
    // SAFETY: the caller's.
    let ep = unsafe { Ep::from_table(ep) };
    if ep.problem.get().is_some() {
        return ep.problem_status();
    }
    fence::status(ep.host, || {
        // Reversals take no time.
        if ep.options.layers() {
            ep.runs.begin(options);
        }
        Ok::<(), Error>(())
    })
}

/// # Safety
/// `ep` is one that this library made.
unsafe extern "system" fn on_run_end(
    ep: *mut OrtEp,
    _options: *const OrtRunOptions,
    _waits: bool,
) -> OrtStatusPtr {
    // SAFETY: the caller's.
    let ep = unsafe { Ep::from_table(ep) };
    fence::status(ep.host, || {
        if ep.options.layers() {
            ep.runs.end();
        }
        Ok::<(), Error>(())
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
