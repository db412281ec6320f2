//! No panic crosses the ABI: every callback runs behind one of these.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};

use ort_sys::OrtStatusPtr;

use crate::plugin::host::Host;
use crate::provider::error::Error;

/// Runs a callback that returns a status.
#[inline(always)]
pub(crate) fn status(host: Host, body: impl FnOnce() -> Result<(), Error>) -> OrtStatusPtr {
    match catch(body) {
        Ok(()) => OrtStatusPtr::default(),
        Err(error) => error.into_status(host),
    }
}

/// Runs what may panic, and makes an error of a panic.
#[inline(always)]
pub(crate) fn catch<T>(body: impl FnOnce() -> Result<T, Error>) -> Result<T, Error> {
    // What a panic leaves half done is never looked at again: nothing outlives
    // a callback but cached plans, and those are whole at any time.
    catch_unwind(AssertUnwindSafe(body)).unwrap_or_else(|payload| Err(panicked(payload)))
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
/// `REVSEQ_EP_PANIC` names it; nothing in any other build.
#[inline(always)]
pub(crate) fn fault(place: &str) {
    #[cfg(feature = "fault-injection")]
    if std::env::var_os("REVSEQ_EP_PANIC").is_some_and(|places| places == place) {
        panic!("injected into {place}");
    }
    #[cfg(not(feature = "fault-injection"))]
    let _ = place;
}

/// A status in place of a call of the host's function, if a test build is to
/// have that call fail; nothing in any other build.
///
/// The environment variable `REVSEQ_EP_FAILING` is the call's number, counted
/// from where the variable got its value, and after a colon the file to which
/// the function's name goes.
#[inline(always)]
pub(crate) fn failing(host: Host, function: &'static str) -> Option<OrtStatusPtr> {
    #[cfg(feature = "fault-injection")]
    {
        use std::sync::{Mutex, PoisonError};

        static CALLS: Mutex<(String, usize)> = Mutex::new((String::new(), 0));

        let wanted = std::env::var("REVSEQ_EP_FAILING").ok()?;
        let (number, file) = wanted.split_once(':')?;
        let mut calls = CALLS.lock().unwrap_or_else(PoisonError::into_inner);
        if calls.0 != wanted {
            *calls = (wanted.clone(), 0);
        }
        calls.1 += 1;
        if calls.1.to_string() != number {
            return None;
        }
        std::fs::write(file, function).expect("the test's file can be written");
        let code = ort_sys::OrtErrorCode::ORT_RUNTIME_EXCEPTION;
        Some(host.create_status(code, c"injected"))
    }
    #[cfg(not(feature = "fault-injection"))]
    {
        let _ = (host, function);
        None
    }
}
