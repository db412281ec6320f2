//! Where an op runs.

#[cfg(feature = "wgpu")]
use std::cell::RefCell;

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

#[cfg(feature = "wgpu")]
thread_local! {
    /// That of the nodes that this thread reads.
    static LOADING: RefCell<Device> = const { RefCell::new(Device::Cpu) };
}

impl Device {
    /// That of the nodes that are being read.
    pub(crate) fn of_nodes_read() -> Self {
        #[cfg(feature = "wgpu")]
        return LOADING.with_borrow(Self::clone);
        #[cfg(not(feature = "wgpu"))]
        Self::Cpu
    }
}

/// Calls `load`; the operators of the ONNX models that it reads, on this
/// thread, run on a GPU for as long as there are.
///
/// tract's register takes plain functions, which cannot hold a device. What a
/// node is computed from may be constant: then it runs already while the model
/// is made ready, on the GPU too. Tensors stay tract's, in the host's memory:
/// each run of an op uploads its data and reads the result back, which a
/// memory-bound operator does not win back. Data of strings is an error.
///
/// ```no_run
/// use revseq_tract::gpu::{Context, ContextOptions};
/// use tract_onnx::prelude::*;
///
/// # fn main() -> TractResult<()> {
/// let mut onnx = tract_onnx::onnx();
/// revseq_tract::register(&mut onnx);
/// let context = Context::new(&ContextOptions::default())?;
/// let model = revseq_tract::load_on_gpu(&context, || {
///     onnx.model_for_path("bidirectional.onnx")?.into_optimized()?.into_runnable()
/// })?;
/// # Ok(())
/// # }
/// ```
#[cfg(feature = "wgpu")]
pub fn load_on_gpu<T>(context: &Context, load: impl FnOnce() -> T) -> T {
    /// Puts back what was there, even after a panic.
    struct Restore(Device);

    impl Drop for Restore {
        fn drop(&mut self) {
            LOADING.replace(std::mem::take(&mut self.0));
        }
    }

    let _restore = Restore(LOADING.replace(Device::Gpu(context.clone())));
    load()
}
