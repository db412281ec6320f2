//! The GPU that runs our nodes when tract runs the rest of a model.
//!
//! A build without the feature `gpu` returns an error.

use std::fmt;

use anyhow::Result;
use revseq_graph::ElementType;
use revseq_kernels::{AdapterChoice, Device};
use revseq_tract::LoadOptions;
use serde::Serialize;

use crate::model::{Model, walk};

#[cfg(feature = "gpu")]
use revseq_tract::gpu::Context;
/// A type without values: there is no GPU.
#[cfg(not(feature = "gpu"))]
use std::convert::Infallible as Context;

/// A GPU, opened.
#[derive(Clone, Debug)]
pub(crate) struct Gpu(Context);

/// An adapter, as the command line shows it.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Adapter {
    pub(crate) index: usize,
    pub(crate) name: String,
    /// The graphics API.
    pub(crate) backend: String,
    /// The kind: discrete, integrated, virtual or software.
    pub(crate) kind: &'static str,
    pub(crate) driver: String,
    /// The most bytes of a buffer.
    pub(crate) max_buffer_bytes: u64,
    /// The most bytes that one dispatch reaches of a buffer.
    pub(crate) max_binding_bytes: u64,
}

impl Gpu {
    /// Opens an adapter.
    ///
    /// # Errors
    /// If there is no such adapter, it returns no device, or this build has no GPU support.
    pub(crate) fn open(choice: &AdapterChoice) -> Result<Self> {
        #[cfg(feature = "gpu")]
        {
            use anyhow::Context as _;
            let mut options = revseq_tract::gpu::ContextOptions::default();
            options.adapter = choice.clone();
            let context = Context::new(&options).with_context(|| match choice {
                AdapterChoice::Auto => {
                    "--device gpu takes a software adapter only if it is named, as \
                                        in gpu:software"
                        .to_owned()
                }
                _ => format!("--device {}", Device::Gpu(choice.clone())),
            })?;
            Ok(Self(context))
        }
        #[cfg(not(feature = "gpu"))]
        anyhow::bail!(
            "--device {}: {}",
            Device::Gpu(choice.clone()),
            crate::not_built("GPUs")
        )
    }

    /// The options of models whose nodes of our operators run here.
    pub(crate) fn options(&self, options: LoadOptions) -> LoadOptions {
        #[cfg(feature = "gpu")]
        return options.on_gpu(&self.0);
        #[cfg(not(feature = "gpu"))]
        match (self.0, options) {}
    }
}

impl fmt::Display for Gpu {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        #[cfg(feature = "gpu")]
        return self.0.adapter().fmt(f);
        #[cfg(not(feature = "gpu"))]
        match (self.0, f) {}
    }
}

/// All adapters.
///
/// # Errors
/// This build has no GPU support.
pub(crate) fn adapters() -> Result<Vec<Adapter>> {
    #[cfg(feature = "gpu")]
    {
        use revseq_tract::gpu;
        let found = gpu::adapters(gpu::wgpu::Backends::all()).into_iter();
        Ok(found
            .map(|found| Adapter {
                kind: found.kind(),
                backend: found.backend.to_string(),
                index: found.index,
                name: found.name,
                driver: found.driver,
                max_buffer_bytes: found.max_buffer_bytes,
                max_binding_bytes: found.max_binding_bytes,
            })
            .collect())
    }
    #[cfg(not(feature = "gpu"))]
    anyhow::bail!(crate::not_built("GPUs"))
}

/// The feature that a GPU lacks for a model; `None` if none is known.
pub(crate) fn lacks(model: &Model) -> Result<Option<String>> {
    let has_strings = walk::ours(model)?.iter().any(|site| {
        let data = site
            .inputs
            .first()
            .and_then(|data| data.known_element_type());
        data == Some(ElementType::String)
    });
    Ok(has_strings.then(|| "the GPU kernels move no strings".to_owned()))
}
