//! An execution provider of one operator: it runs each `Neg` of floats.
//!
//! ```text
//! cargo build -p ep-plugin --example negate
//! onnxruntime.register_execution_provider_library("negate", "target/debug/examples/libnegate.so")
//! ```

use std::ffi::CStr;

use ep_plugin::error::Error;
use ep_plugin::graph::Graph;
use ep_plugin::info::KernelInfo;
use ep_plugin::kernel::Kernel;
use ep_plugin::provider::{Claims, Nothing, Opening, Provider};
use ep_plugin::registry::{Registration, Registry};
use ep_plugin::tensor::{Context, Element};

/// The provider of a session.
struct Negate;

impl Provider for Negate {
    type Failure = Error;
    type Fused = Nothing<Error>;
    type Shared = ();

    const NAME: &'static CStr = c"NegateExecutionProvider";
    const VENDOR: &'static CStr = c"example";
    const VERSION: &'static CStr = c"0.1.0";

    fn register(registry: &Registry) -> Result<(), Error> {
        let neg = Registration {
            // Version 13 of its schema is the last one.
            since_versions: (6, 13),
            types: Some((c"T", vec![f32::CODE])),
            in_place: Some((0, 0)),
            ..Registration::new(c"", c"Neg")
        };
        registry.add::<Neg>(Self::NAME, &[neg])
    }

    fn open(_session: &Opening<'_, Self>) -> Result<Self, Error> {
        Ok(Self)
    }

    fn claim(&self, graph: Graph<'_>, claims: Claims<'_>) -> Result<(), Error> {
        for node in graph.nodes()? {
            let (domain, op_type) = node.operator()?;
            // What another provider has is not for the taking; of other types there is no kernel.
            if domain.is_empty() && op_type == "Neg" && node.ep_name()?.is_empty() {
                claims.take(node)?;
            }
        }
        Ok(())
    }
}

/// The kernel of a node.
struct Neg;

impl Kernel for Neg {
    type Failure = Error;

    fn create(_info: KernelInfo<'_>) -> Result<Self, Error> {
        Ok(Self)
    }

    fn compute(&self, context: Context<'_>) -> Result<(), Error> {
        let (sizes, elements) = context.read::<f32>(0)?;
        context.write(0, sizes, elements.map(|it| -it))
    }
}

ep_plugin::export!(Negate, |_loading| Ok(()));
