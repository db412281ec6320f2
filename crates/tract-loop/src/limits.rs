//! How long loops may run.

use std::cell::Cell;

/// What one run of a loop may take, together with the loops within it. Without a limit, an
/// endless loop is endless.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub struct Limits {
    /// The most steps, those of the loops within it included.
    pub steps: Option<u64>,
    /// The most bytes of the states and scan outputs that there are at a time, and of any other
    /// value of a step as far as its sizes are known before.
    pub bytes: Option<u64>,
}

impl Limits {
    /// No limits.
    #[must_use]
    pub const fn none() -> Self {
        Self {
            steps: None,
            bytes: None,
        }
    }

    /// The same with a limit to the steps.
    #[must_use]
    pub const fn with_steps(self, steps: u64) -> Self {
        Self {
            steps: Some(steps),
            ..self
        }
    }

    /// The same with a limit to the bytes of values that there are at a time.
    #[must_use]
    pub const fn with_bytes(self, bytes: u64) -> Self {
        Self {
            bytes: Some(bytes),
            ..self
        }
    }
}

thread_local! {
    /// Those of the nodes that this thread reads.
    static LOADING: Cell<Limits> = const { Cell::new(Limits::none()) };
}

/// Those of the nodes that are being read.
pub(crate) fn of_nodes_read() -> Limits {
    LOADING.get()
}

/// Calls `load`; the loops of the ONNX models that it reads, on this thread, are
/// bounded for as long as there are. Going beyond is an error of the run.
///
/// tract's register takes plain functions, which cannot hold the limits.
///
/// ```no_run
/// use tract_loop::{Limits, with_limits};
/// use tract_onnx::prelude::*;
///
/// # fn main() -> TractResult<()> {
/// let mut onnx = tract_onnx::onnx();
/// tract_loop::register(&mut onnx);
/// let limits = Limits::none().with_steps(100_000).with_bytes(1 << 30);
/// let model = with_limits(limits, || onnx.model_for_path("decoder.onnx"))?;
/// let model = model.into_optimized()?.into_runnable()?;
/// # Ok(())
/// # }
/// ```
pub fn with_limits<T>(limits: Limits, load: impl FnOnce() -> T) -> T {
    /// Puts back what was there, even after a panic.
    struct Restore(Limits);

    impl Drop for Restore {
        fn drop(&mut self) {
            LOADING.set(self.0);
        }
    }

    let _restore = Restore(LOADING.replace(limits));
    load()
}
