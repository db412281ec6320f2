//! Runs that end after a time: ONNX Runtime looks at its options between two nodes.

use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::Duration;

use anyhow::{Result, bail};
use ort::session::RunOptions;

/// Calls `run`, and ends the run of these options after a time.
///
/// # Errors
/// Those of `run`, or that it took longer.
pub(super) fn within<T>(
    time: Option<Duration>,
    options: &RunOptions,
    run: impl FnOnce() -> Result<T>,
) -> Result<T> {
    let Some(time) = time else { return run() };
    let (done, waiting) = mpsc::channel::<()>();
    let (result, is_late) = thread::scope(|scope| {
        let watch = scope.spawn(move || {
            let is_late = waiting.recv_timeout(time) == Err(RecvTimeoutError::Timeout);
            is_late && options.terminate().is_ok()
        });
        let result = run();
        drop(done);
        (result, watch.join().unwrap_or(false))
    });
    if is_late && result.is_err() {
        bail!("the run took longer than the {time:?} that are allowed");
    }
    result
}
