//! What ONNX Runtime loads: which kernels there are, and which nodes a session's provider takes.

use std::collections::HashSet;
use std::env;
use std::ffi::CStr;
use std::sync::Arc;

use ort_sys::OrtRunOptions;
use revseq_graph::Operator;

use super::custom_op::Domain;
use super::ep::Ep;
use super::error::Error;
use super::kernel::Kernel;
use super::layers::{self, AttentionKernel, LayerKernel, TakenLayers};
use super::loops::{Claims, Compiled};
use super::node::{operator, unmovable_input};
use super::options::{Options, SWITCH};
use super::report::{self, Report};
use super::schemas;
use super::{EP_NAME, EP_NAME_STR};
use crate::plugin::graph::{Graph, GraphNode, Value};
use crate::plugin::node::Node;
use crate::plugin::provider::{self as plugin, Opening, Provider};
use crate::plugin::registry::Registry;
use crate::plugin::runs::Runs;

/// This library's version, as a C string.
const VERSION: &CStr =
    match CStr::from_bytes_with_nul(concat!(env!("CARGO_PKG_VERSION"), "\0").as_bytes()) {
        Ok(version) => version,
        Err(_) => unreachable!(),
    };

/// What the sessions of a registration share.
pub(crate) struct Library {
    pub(crate) domain: Domain,
    /// Whether the inputs of fused nodes have what the graphs in their nodes capture.
    pub(crate) fuses_captured: bool,
}

impl Provider for Ep {
    type Failure = Error;
    type Fused = Compiled;
    type Shared = Library;

    const NAME: &'static CStr = EP_NAME;
    const VENDOR: &'static CStr = c"revseq";
    const VERSION: &'static CStr = VERSION;

    fn register(registry: &Registry) -> Result<(), Error> {
        registry.add::<Kernel>(EP_NAME, &schemas::registrations())?;
        registry.add::<LayerKernel>(EP_NAME, &schemas::layers())?;
        registry.add::<AttentionKernel>(EP_NAME, &schemas::attention())?;
        Ok(())
    }

    fn domain(library: &Library) -> Option<plugin::Domain<'_>> {
        // SAFETY: the library's domain is of the host that loads it, and its ops live as long.
        Some(unsafe { plugin::Domain::new(library.domain.as_ptr()) })
    }

    fn open(session: &Opening<'_, Self>) -> Result<Self, Error> {
        let entries = session.options()?;
        let options = Options::new(entries.iter().map(|(key, value)| (&**key, &**value)))?;
        let options = options.switched(env::var_os(SWITCH).as_deref())?;
        let runs = Arc::new(Runs::new(session.host()));
        let around = options.loops().map(|_| session.around(Arc::clone(&runs)));
        Ok(Self {
            options,
            log: session.log(),
            runs,
            layers: TakenLayers::default(),
            loops: Claims::new(session.shared().fuses_captured),
            report: Report::new(session.log()),
            around: around.transpose()?,
        })
    }

    fn claim(&self, graph: Graph<'_>, claims: plugin::Claims<'_>) -> Result<(), Error> {
        let report = self.report.on(graph);
        let fused = match (self.options.loops(), &self.around) {
            (Some(assume), Some(around)) => {
                let options = (&self.options, assume);
                self.loops.claim(graph, claims, options, around, &report)?
            }
            _ => HashSet::new(),
        };
        for node in graph.nodes()? {
            if !fused.contains(&node.as_ptr()) {
                self.consider(node, claims, &report)?;
            }
        }
        Ok(())
    }

    /// Makes the loops that were taken.
    fn compile(&self, graph: Graph<'_>, node: GraphNode<'_>) -> Result<Compiled, Error> {
        let writes_context = self.around.as_ref().is_some_and(|it| it.writes_context);
        self.loops.take(graph, node, writes_context)
    }

    /// Leaves the report where the option says.
    fn set(&self, key: &str, value: &str) {
        if key == report::OPTION {
            self.report.leave(value, self.loops.ran());
        }
    }

    fn begin(&self, options: *const OrtRunOptions) {
        // Reversals take no time.
        if self.options.layers() {
            self.runs.begin(options);
        }
    }

    fn end(&self) {
        if self.options.layers() {
            self.runs.end();
        }
    }
}

impl Ep {
    /// Claims a node of the operators if no other EP has it, or reports why not.
    ///
    /// A node that violates its schema is claimed nevertheless: creating its
    /// kernel then reports the error, where the CPU EP may misread the node.
    fn consider<'a>(
        &self,
        node: GraphNode<'a>,
        claims: plugin::Claims<'a>,
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
                Ok(()) => (!claims.take(node)?)
                    .then(|| "no kernel is registered for its schema version and types".to_owned()),
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plugin::fake_host;
    use crate::plugin::provider::Factory;

    #[test]
    fn a_failed_factory_leaks_nothing() {
        let mut failed = 0;
        loop {
            fake_host::fail_after(failed);
            let host = fake_host::host();
            let made = Domain::new(host).and_then(|domain| {
                let library = Library {
                    domain,
                    fuses_captured: true,
                };
                Factory::<Ep>::create(host, library)
            });
            match made {
                Ok(factory) => {
                    // SAFETY: the factory was made just now.
                    unsafe { Factory::<Ep>::leave(factory) };
                    // Types of complex numbers may fail.
                    if fake_host::has_not_failed() {
                        break;
                    }
                }
                Err(error) => assert!(error.to_string().ends_with(": injected"), "{error}"),
            }
            assert_eq!(
                fake_host::alive(),
                0,
                "{failed} calls before the one that fails"
            );
            failed += 1;
        }
        // One domain with its 4 ops, and 3 kernels of 7 calls or more.
        assert!(failed > 26, "{failed}");
    }
}
