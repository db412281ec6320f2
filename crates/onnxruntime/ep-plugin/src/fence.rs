//! Functions that keep panics from crossing the ABI. Every callback uses one.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};

use ort_sys::OrtStatusPtr;

use super::error::{Error, Failure};
use super::host::Host;

/// Runs a callback that returns a status.
#[inline(always)]
pub fn status<E: Failure>(host: Host, body: impl FnOnce() -> Result<(), E>) -> OrtStatusPtr {
    match catch(body) {
        Ok(()) => OrtStatusPtr::default(),
        Err(failure) => host.status_of(&failure),
    }
}

/// Runs a function, and turns a panic into an error.
#[inline(always)]
pub fn catch<T, E: From<Error>>(body: impl FnOnce() -> Result<T, E>) -> Result<T, E> {
    // A kernel's state must be consistent at all times: after a panic, half-done
    // work must never be used.
    catch_unwind(AssertUnwindSafe(body)).unwrap_or_else(|payload| Err(panicked(payload).into()))
}

/// Runs a callback that returns no status. Returns `otherwise` after a panic.
pub fn value<T>(otherwise: T, body: impl FnOnce() -> T) -> T {
    catch_unwind(AssertUnwindSafe(body)).unwrap_or_else(|payload| {
        discard(payload);
        otherwise
    })
}

/// Drops a panic's payload, which may panic itself; the second payload is not dropped.
#[cold]
fn discard(payload: Box<dyn Any + Send>) {
    if let Err(payload) = catch_unwind(AssertUnwindSafe(|| drop(payload))) {
        std::mem::forget(payload);
    }
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
    discard(payload);
    Error::Panic { message }
}

/// A place where a test build panics if the environment variable
/// `PLUGIN_PANIC` names it; nothing in any other build.
#[inline(always)]
pub fn fault(place: &str) {
    #[cfg(feature = "fault-injection")]
    if std::env::var_os("PLUGIN_PANIC").is_some_and(|places| places == place) {
        panic!("injected into {place}");
    }
    #[cfg(not(feature = "fault-injection"))]
    let _ = place;
}

#[cfg(test)]
mod tests {
    use std::panic::{panic_any, set_hook, take_hook};

    use super::*;

    /// Panics this many times when it is dropped.
    struct Bomb(usize);

    impl Drop for Bomb {
        fn drop(&mut self) {
            if let Some(left) = self.0.checked_sub(1) {
                panic_any(Bomb(left));
            }
        }
    }

    #[test]
    fn a_panic_payload_that_panics_is_contained() {
        let hook = take_hook();
        set_hook(Box::new(|_| {}));
        let mut seen = Vec::new();
        for times in 0..3 {
            let value = value(7, || panic_any(Bomb(times)));
            let caught = catch(|| -> Result<(), Error> { panic_any(Bomb(times)) });
            seen.push((value, caught.unwrap_err().to_string()));
        }
        set_hook(hook);
        for (value, caught) in seen {
            assert_eq!(value, 7);
            assert!(caught.contains("no message"), "{caught}");
        }
    }
}
