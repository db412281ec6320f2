//! The host's tables, and calls through them.

use std::ffi::{CStr, CString, c_char, c_int};
use std::mem::ManuallyDrop;
use std::ptr;

use ort_sys::{OrtApi, OrtApiBase, OrtErrorCode, OrtStatus, OrtStatusPtr};

use super::abi::{API_VERSION, OrtEpApi};
use super::error::{Error, Failure};
use super::{PLUGIN, Plugin};

/// The tables of one ONNX Runtime, which live as long as it does.
///
/// No reference to a table is ever formed: one that is shorter or longer than
/// this crate's declaration of it is still right slot by slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Host {
    pub(crate) api: *const OrtApi,
    pub(crate) ep_api: *const OrtEpApi,
}

// SAFETY: the tables are constants of the host, read by any thread.
unsafe impl Send for Host {}
// SAFETY: as above.
unsafe impl Sync for Host {}

/// Calls the function in a slot of the host's `OrtApi`, or with `ep` of its `OrtEpApi`.
///
/// The caller wraps it in `unsafe` and upholds the requirements of ONNX
/// Runtime's header; [`Host`] guarantees that the slot exists.
#[macro_export]
macro_rules! ort {
    ($host:expr, ep $function:ident($($argument:expr),* $(,)?)) => {
        ((*$host.ep_api()).$function)($($argument),*)
    };
    ($host:expr, $function:ident($($argument:expr),* $(,)?)) => {
        ((*$host.api()).$function)($($argument),*)
    };
}

/// Calls like `ort!` a function that returns a status, which a test may have fail.
#[macro_export]
macro_rules! ort_status {
    ($host:expr, ep $function:ident($($argument:expr),* $(,)?)) => {
        match $host.injected(stringify!($function)) {
            Some(status) => status,
            None => $crate::ort!($host, ep $function($($argument),*)),
        }
    };
    ($host:expr, $function:ident($($argument:expr),* $(,)?)) => {
        match $host.injected(stringify!($function)) {
            Some(status) => status,
            None => $crate::ort!($host, $function($($argument),*)),
        }
    };
}

/// Calls like `ort_status!`, and returns an error if the status is one.
#[macro_export]
macro_rules! ort_try {
    ($host:expr, ep $function:ident($($argument:expr),* $(,)?)) => {
        $host.check(stringify!($function), $crate::ort_status!($host, ep $function($($argument),*)))?
    };
    ($host:expr, $function:ident($($argument:expr),* $(,)?)) => {
        $host.check(stringify!($function), $crate::ort_status!($host, $function($($argument),*)))?
    };
}

/// Calls like `ort_try!` a function whose last argument is a place for a pointer, a number or a truth value,
/// and returns that.
#[macro_export]
macro_rules! ort_get {
    ($host:expr, ep $function:ident($($argument:expr),* $(,)?)) => {{
        let mut result = std::mem::zeroed();
        $crate::ort_try!($host, ep $function($($argument,)* &raw mut result));
        result
    }};
    ($host:expr, $function:ident($($argument:expr),* $(,)?)) => {{
        let mut result = std::mem::zeroed();
        $crate::ort_try!($host, $function($($argument,)* &raw mut result));
        result
    }};
}

/// Calls like `ort_get!`, and returns an object that the function after `=>` releases.
#[macro_export]
macro_rules! ort_own {
    ($host:expr, ep $function:ident $arguments:tt => $release:ident) => {
        $crate::host::Owned::new(
            $crate::ort_get!($host, ep $function $arguments),
            (*$host.ep_api()).$release,
        )
    };
    ($host:expr, $function:ident $arguments:tt => $release:ident) => {
        $crate::host::Owned::new(
            $crate::ort_get!($host, $function $arguments),
            (*$host.api()).$release,
        )
    };
}

pub use crate::{ort, ort_get, ort_own, ort_status, ort_try};

/// An object of the host that is this library's own, released when dropped; null is none.
#[derive(Debug)]
pub struct Owned<T> {
    object: *mut T,
    release: unsafe extern "system" fn(*mut T),
}

impl<T> Owned<T> {
    /// # Safety
    /// The function releases the object, which nobody else does.
    pub unsafe fn new(object: *mut T, release: unsafe extern "system" fn(*mut T)) -> Self {
        Self { object, release }
    }

    /// The object, which stays this library's.
    pub fn as_ptr(&self) -> *mut T {
        self.object
    }

    /// The object, which is not this library's any more.
    pub fn into_ptr(self) -> *mut T {
        ManuallyDrop::new(self).object
    }
}

impl<T> Drop for Owned<T> {
    fn drop(&mut self) {
        if !self.object.is_null() {
            // SAFETY: `new`'s caller.
            unsafe { (self.release)(self.object) };
        }
    }
}

impl Host {
    /// The tables of a host that is new enough.
    ///
    /// # Errors
    /// A status that names the required version, if the host is too old.
    ///
    /// # Safety
    /// `base` comes from ONNX Runtime's `OrtGetApiBase`.
    pub unsafe fn new(base: *const OrtApiBase, plugin: Plugin) -> Result<Self, OrtStatusPtr> {
        PLUGIN.get_or_init(|| plugin);
        // SAFETY: the caller's.
        let version = unsafe { version(base) };
        // `GetApi` complains on standard error when asked for more than it has: ask only if it has.
        let new_enough = minor_version(&version).is_none_or(|minor| minor >= API_VERSION);
        let api = match new_enough {
            // SAFETY: as above.
            true => unsafe { ((*base).GetApi)(API_VERSION) },
            false => ptr::null(),
        };
        if api.is_null() {
            // The function that makes a status is the same in every version.
            // SAFETY: as above.
            let api = unsafe { ((*base).GetApi)(1) };
            let host = Self {
                api,
                ep_api: ptr::null(),
            };
            let error = Error::HostTooOld { actual: version };
            return Err(host.status_of(&error));
        }
        // SAFETY: the table is that of the version asked for.
        Ok(unsafe { Self::from_api(api) })
    }

    /// The table of ONNX Runtime's C API.
    #[inline(always)]
    pub fn api(self) -> *const OrtApi {
        self.api
    }

    /// The table for plugins.
    #[inline(always)]
    pub fn ep_api(self) -> *const OrtEpApi {
        self.ep_api
    }

    /// The tables of a host, by the first of them.
    ///
    /// # Safety
    /// `api` is that of a host that is new enough.
    pub unsafe fn from_api(api: *const OrtApi) -> Self {
        // SAFETY: the caller's; the slot is there since before `API_VERSION`.
        let ep_api = unsafe { ((*api).GetEpApi)() }.cast();
        Self { api, ep_api }
    }

    /// The status of a failure. The caller, eventually the host, owns it.
    #[cold]
    pub fn status_of(self, failure: &impl Failure) -> OrtStatusPtr {
        let text = failure.to_string().replace('\0', "\\0");
        self.create_status(failure.code(), &CString::new(text).unwrap_or_default())
    }

    fn create_status(self, code: OrtErrorCode, message: &CStr) -> OrtStatusPtr {
        // SAFETY: the message is a C string, which the host copies.
        unsafe { ort!(self, CreateStatus(code, message.as_ptr())) }
    }

    /// Returns a status instead of a call of the host's function, if a test build
    /// makes that call fail. Does nothing in any other build.
    ///
    /// The environment variable `PLUGIN_FAILING` is the call's number, counted
    /// from where the variable got its value, and after a colon the file to which
    /// the function's name goes.
    #[inline(always)]
    pub fn injected(self, function: &'static str) -> Option<OrtStatusPtr> {
        #[cfg(feature = "fault-injection")]
        {
            use std::sync::{Mutex, PoisonError};

            static CALLS: Mutex<(String, usize)> = Mutex::new((String::new(), 0));

            let wanted = std::env::var("PLUGIN_FAILING").ok()?;
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
            Some(self.create_status(code, c"injected"))
        }
        #[cfg(not(feature = "fault-injection"))]
        {
            let _ = function;
            None
        }
    }

    /// An error if a status is one; releases it.
    #[inline(always)]
    pub fn check(self, function: &'static str, status: OrtStatusPtr) -> Result<(), Error> {
        match status.0.is_null() {
            true => Ok(()),
            false => Err(self.failed(function, status)),
        }
    }

    /// Whether the requested item exists: the host reports a missing one as a
    /// status. Any other status is an error. Releases the status.
    pub fn check_found(self, function: &'static str, status: OrtStatusPtr) -> Result<bool, Error> {
        match self.check(function, status) {
            // Errors of the lookup itself have other codes.
            Err(Error::Host { code, .. }) if code == OrtErrorCode::ORT_FAIL as c_int => Ok(false),
            checked => checked.map(|()| true),
        }
    }

    #[cold]
    fn failed(self, function: &'static str, status: OrtStatusPtr) -> Error {
        type Get = unsafe extern "system" fn(*const OrtStatus) -> c_int;
        // SAFETY: the status is one that the host has just returned and that
        // nobody has released; its message lives as long as it does. The type of
        // the code's slot differs in the function's result alone: a C enum is an int.
        unsafe {
            let code = (&raw const (*self.api).GetErrorCode).cast::<Get>().read()(status.0);
            let message = text(ort!(self, GetErrorMessage(status.0)));
            ort!(self, ReleaseStatus(status.0));
            Error::Host {
                function,
                message,
                code,
            }
        }
    }
}

/// Copies a name; null is empty. ONNX Runtime takes names of any bytes.
///
/// # Safety
/// `string` is null or a C string.
pub unsafe fn name(string: *const c_char) -> CString {
    match string.is_null() {
        true => CString::default(),
        // SAFETY: the caller's.
        false => unsafe { CStr::from_ptr(string) }.to_owned(),
    }
}

/// Copies a string for messages, or to be compared with ASCII: other bytes than UTF-8 become U+FFFD. Null is empty.
///
/// # Safety
/// `string` is null or a C string.
pub unsafe fn text(string: *const c_char) -> String {
    // SAFETY: the caller's.
    unsafe { name(string) }.to_string_lossy().into_owned()
}

/// The version of a host.
///
/// # Safety
/// `base` comes from ONNX Runtime's `OrtGetApiBase`.
unsafe fn version(base: *const OrtApiBase) -> String {
    // SAFETY: the caller's; the function is there in every version.
    unsafe { text(((*base).GetVersionString)()) }
}

/// Whether a host is at least of this minor version.
///
/// # Safety
/// `base` comes from ONNX Runtime's `OrtGetApiBase`.
pub(super) unsafe fn is_since(base: *const OrtApiBase, minor: u32) -> bool {
    // SAFETY: the caller's.
    let version = unsafe { version(base) };
    minor_version(&version).is_none_or(|it| it >= minor)
}

/// The minor version of a host of major version 1. `None` for anything else;
/// `GetApi` then decides whether the host is supported.
fn minor_version(version: &str) -> Option<u32> {
    let mut numbers = version.split('.');
    if numbers.next() != Some("1") {
        return None;
    }
    numbers.next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_minor_version_of_major_version_1_counts() {
        assert_eq!(minor_version("1.23.2"), Some(23));
        assert_eq!(minor_version("1.31.1"), Some(31));
        assert_eq!(minor_version("1.24"), Some(24));
        assert_eq!(minor_version("2.0.0"), None);
        assert_eq!(minor_version("1.x"), None);
        assert_eq!(minor_version(""), None);
    }
}
