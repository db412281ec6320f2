//! The version of an ONNX Runtime. The crate `ort` has no safe form of that function of the C API.
#![expect(unsafe_code, reason = "calls of ONNX Runtime's C API")]

use std::ffi::CStr;
use std::path::Path;

use anyhow::Result;
use libloading::{Library, Symbol};
use ort::sys::OrtApiBase;

/// The version of the ONNX Runtime that was loaded from a path.
pub(super) fn of(path: &Path) -> Result<String> {
    // SAFETY: it is loaded already, so only these two functions run, which have these types; their
    // results live as long as the library.
    unsafe {
        let library = Library::new(path)?;
        let base: Symbol<'_, unsafe extern "system" fn() -> *const OrtApiBase> =
            library.get(b"OrtGetApiBase")?;
        let version = ((*base()).GetVersionString)();
        Ok(CStr::from_ptr(version).to_string_lossy().into_owned())
    }
}
