//! Limits of loops.

use std::cell::Cell;

/// Limits of one run of a loop, including its inner loops. Without limits, a loop may run forever.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub struct Limits {
    /// The maximum number of steps, including those of inner loops.
    pub steps: Option<u64>,
    /// The maximum number of bytes of all live states and scan outputs, and of any other value in a
    /// step, as far as its size is known in advance.
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

    /// Sets the maximum number of steps.
    #[must_use]
    pub const fn with_steps(self, steps: u64) -> Self {
        Self {
            steps: Some(steps),
            ..self
        }
    }

    /// Sets the maximum number of bytes of live values.
    #[must_use]
    pub const fn with_bytes(self, bytes: u64) -> Self {
        Self {
            bytes: Some(bytes),
            ..self
        }
    }
}

thread_local! {
    /// The limits of nodes that this thread is parsing.
    static LOADING: Cell<Limits> = const { Cell::new(Limits::none()) };
}

/// The limits of the nodes being parsed.
pub(crate) fn of_nodes_read() -> Limits {
    LOADING.get()
}

/// Calls `load`, and bounds all loops of the ONNX models it reads on this thread. A run that
/// exceeds the limits fails.
///
/// tract registers plain functions, which cannot hold the limits.
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
    /// Restores the previous limits, even after a panic.
    struct Restore(Limits);

    impl Drop for Restore {
        fn drop(&mut self) {
            LOADING.set(self.0);
        }
    }

    let _restore = Restore(LOADING.replace(limits));
    load()
}
