//! A provider, and the tables through which the host calls it.
//!
//! `factory.rs` makes the devices and the providers of sessions, `ep.rs` has each of these claim and make nodes.

mod ep;
mod factory;

use std::convert::Infallible;
use std::ffi::{CStr, c_void};
use std::marker::PhantomData;
use std::sync::Arc;

use ort_sys::{OrtCustomOpDomain, OrtEpDevice, OrtNode, OrtRunOptions, OrtSessionOptions};

use crate::abi::OrtEpGraphSupportInfo;
use crate::error::{Error, Failure};
use crate::fused::{self, Fused};
use crate::graph::{Graph, GraphNode};
use crate::host::{Host, ort_get, ort_try};
use crate::info::KernelInfo;
use crate::log::Log;
use crate::options;
use crate::registry::Registry;
use crate::runs::Runs;
use crate::session::Around;
use crate::tensor::Context;

use ep::Ep;
pub use factory::Factory;

/// An execution provider on the CPU, of which each session has its own.
pub trait Provider: Send + Sync + Sized + 'static {
    /// Its error.
    type Failure: Failure + Clone + Send + Sync;
    /// What runs its fused nodes; [`Nothing`] if it fuses none.
    type Fused: Fused<Failure = Self::Failure>;
    /// What all of its sessions share.
    type Shared: Send + Sync;

    /// The name by which sessions ask for it, as `…ExecutionProvider`.
    const NAME: &'static CStr;
    /// Who made it.
    const VENDOR: &'static CStr;
    /// Its version, a semantic one.
    const VERSION: &'static CStr;

    /// Adds its kernels.
    ///
    /// # Errors
    /// If the host fails.
    fn register(registry: &Registry) -> Result<(), Self::Failure>;

    /// The domain of its custom ops, if it has such.
    fn domain(_shared: &Self::Shared) -> Option<Domain<'_>> {
        None
    }

    /// Makes the provider of a session.
    ///
    /// # Errors
    /// Such as a wrong option: the host cannot make the session.
    fn open(session: &Opening<'_, Self>) -> Result<Self, Self::Failure>;

    /// Claims nodes of a graph. The host asks once for each graph of a model, those in nodes first, and may ask
    /// again.
    ///
    /// # Errors
    /// The host cannot make the session.
    fn claim(&self, graph: Graph<'_>, claims: Claims<'_>) -> Result<(), Self::Failure>;

    /// Makes what runs a node in the place of those that were fused, which are the graph's.
    ///
    /// # Errors
    /// The host cannot make the session.
    fn compile(
        &self,
        _graph: Graph<'_>,
        _node: GraphNode<'_>,
    ) -> Result<Self::Fused, Self::Failure> {
        let problem = "the provider has fused no nodes";
        Err(Error::argument("Compile", problem).into())
    }

    /// Takes an option that is set once the session is made; those of other providers come as well.
    fn set(&self, _key: &str, _value: &str) {}

    /// Notes that a run begins on this thread, with options that live until it ends.
    fn begin(&self, _options: *const OrtRunOptions) {}

    /// Notes that the run of this thread ends.
    fn end(&self) {}
}

/// A domain of custom ops that lives for `'a`.
#[derive(Clone, Copy, Debug)]
pub struct Domain<'a> {
    domain: *mut OrtCustomOpDomain,
    life: PhantomData<&'a OrtCustomOpDomain>,
}

impl Domain<'_> {
    /// # Safety
    /// `domain` and its ops are the host's that loads the library, and live as long as this may.
    pub unsafe fn new(domain: *mut OrtCustomOpDomain) -> Self {
        Self {
            domain,
            life: PhantomData,
        }
    }
}

/// What runs the fused nodes of a provider that fuses none, whose error is `E`.
#[derive(Debug)]
pub struct Nothing<E> {
    never: Infallible,
    error: PhantomData<fn() -> E>,
}

impl<E: Failure> Fused for Nothing<E> {
    type Failure = E;

    fn compute(&self, _context: Context<'_>) -> Result<(), E> {
        match self.never {}
    }
}

/// A session that is being made.
pub struct Opening<'a, P: Provider> {
    host: Host,
    log: Log,
    options: *const OrtSessionOptions,
    devices: Vec<*const OrtEpDevice>,
    shared: &'a P::Shared,
}

impl<P: Provider> Opening<'_, P> {
    /// The host.
    pub fn host(&self) -> Host {
        self.host
    }

    /// The session's log.
    pub fn log(&self) -> Log {
        self.log
    }

    /// What all sessions share.
    pub fn shared(&self) -> &P::Shared {
        self.shared
    }

    /// The provider's options: pairs of a key and a value.
    ///
    /// # Errors
    /// If the host fails.
    pub fn options(&self) -> Result<Vec<(String, String)>, Error> {
        let name = P::NAME.to_str().unwrap_or_default();
        // SAFETY: the options live while the session is being made.
        unsafe { options::read(self.host, self.options, name) }
    }

    /// What sessions within this one have of it, whose runs `runs` knows.
    ///
    /// # Errors
    /// If the host fails.
    pub fn around(&self, runs: Arc<Runs>) -> Result<Around, Error> {
        let devices = self.devices.clone();
        // SAFETY: as above; the devices are those of this registration.
        unsafe { Around::read(self.host, self.options, self.log, runs, devices) }
    }
}

/// What a provider claims of a graph.
#[derive(Clone, Copy)]
pub struct Claims<'a> {
    host: Host,
    info: *mut OrtEpGraphSupportInfo,
    life: PhantomData<&'a c_void>,
}

impl<'a> Claims<'a> {
    /// Claims a node for the kernel that is registered for its schema and types. Returns `false` if there is none.
    ///
    /// # Errors
    /// If the host fails.
    pub fn take(self, node: GraphNode<'a>) -> Result<bool, Error> {
        let (host, node) = (self.host, node.as_ptr());
        // SAFETY: the node is of the graph, which lives as long as the info.
        unsafe {
            if ort_get!(host, ep EpGraphSupportInfo_LookUpKernel(self.info, node)).is_null() {
                return Ok(false);
            }
            ort_try!(host, ep EpGraphSupportInfo_AddSingleNode(self.info, node));
        }
        Ok(true)
    }

    /// Has nodes fused into one, which [`compile`](Provider::compile) makes. Constant initializers are no inputs of
    /// it.
    ///
    /// # Errors
    /// If the host fails.
    pub fn fuse(self, nodes: &[GraphNode<'a>]) -> Result<(), Error> {
        let nodes: Vec<*const OrtNode> = nodes.iter().map(|node| node.as_ptr()).collect();
        // SAFETY: as above.
        unsafe { fused::fuse(self.host, self.info, &nodes) }
    }
}

/// The provider that took the node of a kernel.
///
/// # Errors
/// If the host does not say which it is, or it is no `P`.
pub fn provider_of<'a, P: Provider>(info: KernelInfo<'a>) -> Result<&'a P, P::Failure> {
    // SAFETY: a kernel of this library is made for nodes that its providers have taken, and these outlive it.
    unsafe { Ep::of_kernel(info.ep()?) }
}
