//! Options for the nodes of a model that the model itself does not contain.

use std::cell::RefCell;

use revseq_kernels::LengthsPolicy;
#[cfg(feature = "wgpu")]
use revseq_kernels::gpu::Context;
use tract_loop::Limits;

/// The device of an op. It is part of the op, so that it stays with the model.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) enum Device {
    /// On tract's executor.
    #[default]
    Cpu,
    /// On a GPU.
    #[cfg(feature = "wgpu")]
    Gpu(Context),
}

/// Options for the nodes of ONNX models, loops included.
///
/// tract registers plain functions, which cannot hold options; [`load`](Self::load) sets them for
/// the models that this thread reads meanwhile.
///
/// ```no_run
/// use revseq_tract::{LengthsPolicy, Limits, LoadOptions};
/// use tract_onnx::prelude::*;
///
/// # fn main() -> TractResult<()> {
/// let model = LoadOptions::new()
///     .with_lengths(LengthsPolicy::Clamp)
///     .with_limits(Limits::none().with_steps(100_000).with_bytes(1 << 30))
///     .load(|| revseq_tract::model_for_path("bidirectional.onnx"))?;
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug, Default)]
pub struct LoadOptions {
    pub(crate) lengths: Option<LengthsPolicy>,
    pub(crate) device: Device,
    limits: Option<Limits>,
}

thread_local! {
    /// The options of nodes that this thread is parsing.
    static LOADING: RefCell<LoadOptions> = const {
        RefCell::new(LoadOptions {
            lengths: None,
            device: Device::Cpu,
            limits: None,
        })
    };
}

impl LoadOptions {
    /// The defaults: each operator's own policy, on tract's executor.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets the policy for lengths out of range, of recurrent layers too. By default they and
    /// ReverseSequence reject them, and ReverseSubsequences clamps them.
    #[must_use]
    pub fn with_lengths(mut self, policy: LengthsPolicy) -> Self {
        self.lengths = Some(policy);
        self
    }

    /// Limits the steps and the memory of loops, which otherwise may be endless. A run that exceeds
    /// the limits fails.
    ///
    /// By default, the limits of a surrounding [`load`](Self::load) or
    /// [`tract_loop::with_limits`] apply, if there is one.
    #[must_use]
    pub fn with_limits(mut self, limits: Limits) -> Self {
        self.limits = Some(limits);
        self
    }

    /// Runs the nodes on a GPU.
    ///
    /// A node of constants runs while the model is optimised, on the GPU too. Tensors stay in host
    /// memory: each run of an op uploads its data and reads the result back, which costs more than
    /// it saves. String data is an error.
    #[cfg(feature = "wgpu")]
    #[must_use]
    pub fn on_gpu(mut self, context: &Context) -> Self {
        self.device = Device::Gpu(context.clone());
        self
    }

    /// Calls `load`; all nodes of the ONNX models it reads on this thread get these options.
    pub fn load<T>(&self, load: impl FnOnce() -> T) -> T {
        /// Restores the previous options, even after a panic.
        struct Restore(LoadOptions);

        impl Drop for Restore {
            fn drop(&mut self) {
                LOADING.replace(std::mem::take(&mut self.0));
            }
        }

        let _restore = Restore(LOADING.replace(self.clone()));
        let options = tract_loop::LoadOptions::new().with_lengths(match self.lengths {
            Some(LengthsPolicy::Clamp) => tract_loop::LengthsPolicy::Clamp,
            _ => tract_loop::LengthsPolicy::Reject,
        });
        let options = match self.limits {
            Some(limits) => options.with_limits(limits),
            None => options,
        };
        options.load(load)
    }

    /// The options of the nodes being parsed.
    pub(crate) fn of_nodes_read() -> Self {
        LOADING.with_borrow(Self::clone)
    }
}
