//! Keeps a panic of tract's from ending the caller's thread.

use std::panic::{AssertUnwindSafe, catch_unwind};

use tract_onnx::prelude::*;

use crate::error::Panicked;

/// Runs tract, and returns a panic as an error.
///
/// Values that the code was changing when it panicked must not be used again.
pub(crate) fn catch<T>(run: impl FnOnce() -> TractResult<T>) -> TractResult<T> {
    catch_unwind(AssertUnwindSafe(run)).unwrap_or_else(|payload| {
        let message = payload.downcast_ref::<String>().cloned();
        let message =
            message.or_else(|| payload.downcast_ref().map(|text: &&str| (*text).to_owned()));
        // Dropping the payload may panic, and so may dropping that panic's payload.
        if let Err(payload) = catch_unwind(AssertUnwindSafe(|| drop(payload))) {
            std::mem::forget(payload);
        }
        let message = message.unwrap_or_else(|| "a panic without a message".to_owned());
        Err(Panicked(message).into())
    })
}
