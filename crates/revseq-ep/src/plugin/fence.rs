//! No panic crosses the ABI: every callback runs behind one of these.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};

use ort_sys::OrtStatusPtr;

use super::error::{Error, Failure};
use super::host::Host;

/// Runs a callback that returns a status.
#[inline(always)]
pub(crate) fn status<E: Failure>(host: Host, body: impl FnOnce() -> Result<(), E>) -> OrtStatusPtr {
    match catch(body) {
        Ok(()) => OrtStatusPtr::default(),
        Err(failure) => host.status_of(&failure),
    }
}

/// Runs what may panic, and makes an error of a panic.
#[inline(always)]
pub(crate) fn catch<T, E: From<Error>>(body: impl FnOnce() -> Result<T, E>) -> Result<T, E> {
    // What a panic leaves half done must never be looked at again: what a
    // kernel keeps between runs has to be whole at any time.
    catch_unwind(AssertUnwindSafe(body)).unwrap_or_else(|payload| Err(panicked(payload).into()))
}

/// Runs a callback that returns no status, and gives `otherwise` for a panic.
pub(crate) fn value<T>(otherwise: T, body: impl FnOnce() -> T) -> T {
    catch_unwind(AssertUnwindSafe(body)).unwrap_or(otherwise)
}

/// The error that a caught panic is.
#[cold]
fn panicked(payload: Box<dyn Any + Send>) -> Error {
    let message = match payload.downcast_ref::<&str>() {
        Some(message) => (*message).to_owned(),
        None => match payload.downcast_ref::<String>() {
            Some(message) => message.clone(),
            None => String::from("no message"),
        },
    };
    Error::Panic { message }
}

/// A place where a test build panics if the environment variable
/// `PLUGIN_PANIC` names it; nothing in any other build.
#[inline(always)]
pub(crate) fn fault(place: &str) {
    #[cfg(feature = "fault-injection")]
    if std::env::var_os("PLUGIN_PANIC").is_some_and(|places| places == place) {
        panic!("injected into {place}");
    }
    #[cfg(not(feature = "fault-injection"))]
    let _ = place;
}
