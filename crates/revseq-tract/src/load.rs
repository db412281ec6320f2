//! Options for the nodes of a model that the model itself does not contain.

use std::cell::RefCell;

use revseq_kernels::LengthsPolicy;
#[cfg(feature = "wgpu")]
use revseq_kernels::gpu::Context;

/// Where an op runs; a property of the op, so that a model has it wherever it goes.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) enum Device {
    /// On tract's executor.
    #[default]
    Cpu,
    /// On a GPU.
    #[cfg(feature = "wgpu")]
    Gpu(Context),
}

/// How the nodes of ONNX models that are read are to run.
///
/// tract's register takes plain functions, which cannot hold options; those of
/// [`load`](Self::load) are for the models that this thread reads meanwhile.
///
/// ```no_run
/// use revseq_tract::{LengthsPolicy, LoadOptions};
/// use tract_onnx::prelude::*;
///
/// # fn main() -> TractResult<()> {
/// let mut onnx = tract_onnx::onnx();
/// revseq_tract::register(&mut onnx);
/// let model = LoadOptions::new()
///     .with_lengths(LengthsPolicy::Clamp)
///     .load(|| onnx.model_for_path("bidirectional.onnx"))?;
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug, Default)]
pub struct LoadOptions {
    pub(crate) lengths: Option<LengthsPolicy>,
    pub(crate) device: Device,
}

thread_local! {
    /// Those of the nodes that this thread reads.
    static LOADING: RefCell<LoadOptions> = const {
        RefCell::new(LoadOptions {
            lengths: None,
            device: Device::Cpu,
        })
    };
}

impl LoadOptions {
    /// The defaults: each operator's own policy, on tract's executor.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets the policy for lengths out of range. By default ReverseSequence rejects
    /// them and ReverseSubsequences clamps them.
    #[must_use]
    pub fn with_lengths(mut self, policy: LengthsPolicy) -> Self {
        self.lengths = Some(policy);
        self
    }

    /// Runs the nodes on a GPU.
    ///
    /// A node of constants already runs, on the GPU too, while the model is
    /// optimised. Tensors stay in host memory: each run of an op uploads its data
    /// and reads the result back, which costs more than it saves. String data is an
    /// error.
    #[cfg(feature = "wgpu")]
    #[must_use]
    pub fn on_gpu(mut self, context: &Context) -> Self {
        self.device = Device::Gpu(context.clone());
        self
    }

    /// Calls `load`; the nodes of the ONNX models that it reads, on this thread, have
    /// these options.
    pub fn load<T>(&self, load: impl FnOnce() -> T) -> T {
        /// Restores the previous options, even after a panic.
        struct Restore(LoadOptions);

        impl Drop for Restore {
            fn drop(&mut self) {
                LOADING.replace(std::mem::take(&mut self.0));
            }
        }

        let _restore = Restore(LOADING.replace(self.clone()));
        load()
    }

    /// Those of the nodes that are being read.
    pub(crate) fn of_nodes_read() -> Self {
        LOADING.with_borrow(Self::clone)
    }
}
