//! The initializers that a session's options give in place of the model's, and the memory that they take.
//!
//! No function of the host tells them. A session with the same options has them in place of its own, so a
//! model that hands out its initializers shows them, and where an output is shows the memory.

use std::ffi::{CString, c_int};
use std::ptr;

use ort_sys::{
    GraphOptimizationLevel, OrtAllocatorType, OrtLoggingLevel, OrtSessionOptions, OrtValue,
};

use super::error::Error;
use super::host::{Host, Owned, ort_get, ort_own, ort_try};
use super::inner::{self, ONE_NODE};

/// Entries with which a model in memory would be read or run otherwise, and what they are here if there are
/// such.
const ENTRIES: [(&str, &str); 4] = [
    ("session.load_model_format", "ONNX"),
    ("session.disable_cpu_ep_fallback", "0"),
    ("session.set_denormal_as_zero", "0"),
    ("ep.context_enable", "0"),
];

/// A session's options as far as they give initializers and memory.
#[derive(Debug)]
pub struct Given {
    host: Host,
    options: Owned<OrtSessionOptions>,
}

// SAFETY: the options are only read.
unsafe impl Send for Given {}
// SAFETY: as above.
unsafe impl Sync for Given {}

impl Given {
    /// `entries` are those of the options.
    ///
    /// # Safety
    /// `options` are of this host, and alive.
    pub unsafe fn read(
        host: Host,
        options: *const OrtSessionOptions,
        entries: &[(String, String)],
    ) -> Result<Self, Error> {
        let other = ENTRIES.into_iter().filter(|(key, value)| {
            let mut entries = entries.iter();
            entries.any(|(known, set)| known == key && set != value)
        });
        let severity = OrtLoggingLevel::ORT_LOGGING_LEVEL_FATAL as c_int;
        // SAFETY: the caller's; the copy is this library's own.
        let options = unsafe {
            let copy = ort_own!(host, CloneSessionOptions(options) => ReleaseSessionOptions);
            let options = copy.as_ptr();
            // An optimised model has other initializers, and a path of none writes no file.
            let level = GraphOptimizationLevel::ORT_DISABLE_ALL;
            ort_try!(host, SetSessionGraphOptimizationLevel(options, level));
            ort_try!(host, SetOptimizedModelFilePath(options, [0].as_ptr()));
            ort_try!(host, DisableProfiling(options));
            ort_try!(host, DisableMemPattern(options));
            copy
        };
        inner::remove_threads(host, &options, severity)?;
        inner::add_entries(host, &options, &inner::entries(other))?;
        Ok(Self { host, options })
    }

    /// The host of the session.
    pub fn host(&self) -> Host {
        self.host
    }

    /// Whether a session takes memory from an arena.
    pub(super) fn has_arena(&self) -> Result<bool, Error> {
        let values = self.run(ONE_NODE, &[c"y".to_owned()])?;
        let mut kind: c_int = 0;
        // SAFETY: the value is alive, and so is the description of its memory; an `OrtAllocatorType` is a C enum.
        unsafe {
            for value in &values {
                let info = ort_get!(self.host, GetTensorMemoryInfo(value.as_ptr()));
                ort_try!(self.host, MemoryInfoGetType(info, (&raw mut kind).cast()));
            }
        }
        Ok(kind == OrtAllocatorType::OrtArenaAllocator as c_int)
    }

    /// Runs a model without inputs in a session with these options, and returns its outputs.
    pub fn run(&self, model: &[u8], outputs: &[CString]) -> Result<Vec<Owned<OrtValue>>, Error> {
        let host = self.host;
        let session = inner::make(host, &inner::environment(host)?, &self.options, model)?;
        let names: Vec<_> = outputs.iter().map(|name| name.as_ptr()).collect();
        // SAFETY: the names are alive.
        unsafe { inner::run(host, &session, ptr::null(), (&[], &[]), &names) }
    }
}
