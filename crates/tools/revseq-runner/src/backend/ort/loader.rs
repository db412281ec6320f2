//! The error with which the system's loader refuses a library.

#![expect(unsafe_code, reason = "loading a library runs code in it")]

use std::error::Error;
use std::path::Path;

/// The error of the system's loader for a library; `None` if it loads.
pub(super) fn refusal(path: &Path) -> Option<String> {
    // SAFETY: only the library's initialisers run, as they do when it is loaded for use, which the
    // caller has just tried.
    let loaded = unsafe { libloading::Library::new(path) };
    let error = loaded.err()?;
    // The loader's own words are the error's cause.
    Some(
        error
            .source()
            .map_or_else(|| error.to_string(), ToString::to_string),
    )
}
