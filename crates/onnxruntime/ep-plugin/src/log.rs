//! Lines in ONNX Runtime's log.

use std::ffi::{CStr, CString, c_int};

use ort_sys::{OrtLogger, OrtLoggingLevel, os_char};

use super::host::{Host, ort_status};

/// The source of a line in the log: the plugin, in the system's own characters.
fn source() -> Vec<os_char> {
    let name = super::plugin().name.bytes();
    name.chain([0]).map(|byte| byte as os_char).collect()
}

/// A logger of the host's, valid while the object that it came with lives.
#[derive(Clone, Copy, Debug)]
pub struct Log {
    host: Host,
    logger: *const OrtLogger,
}

// SAFETY: ONNX Runtime's loggers may be used from any thread.
unsafe impl Send for Log {}
// SAFETY: as above.
unsafe impl Sync for Log {}

impl Log {
    /// # Safety
    /// `logger` is null or a logger that outlives every use of this.
    pub unsafe fn new(host: Host, logger: *const OrtLogger) -> Self {
        Self { host, logger }
    }

    /// The `OrtLoggingLevel` from which on lines are written; `None` if that is not known.
    pub fn severity(&self) -> Option<c_int> {
        if self.logger.is_null() {
            return None;
        }
        // Read as the C integer that it is: a Rust enum must not hold a level unknown to it.
        let mut level: c_int = c_int::MAX;
        // SAFETY: the logger is alive; an `OrtLoggingLevel` is a C enum.
        let status = unsafe {
            ort_status!(
                self.host,
                Logger_GetLoggingSeverityLevel(self.logger, (&raw mut level).cast())
            )
        };
        let known = self.host.check("Logger_GetLoggingSeverityLevel", status);
        known.ok().map(|()| level)
    }

    /// Whether lines of the least severity are wanted.
    pub fn is_verbose(&self) -> bool {
        let level = self.severity();
        level.is_some_and(|level| level <= OrtLoggingLevel::ORT_LOGGING_LEVEL_VERBOSE as c_int)
    }

    /// Writes a line for whoever asks for everything.
    pub fn verbose(&self, function: &'static CStr, line: &str) {
        self.write(OrtLoggingLevel::ORT_LOGGING_LEVEL_VERBOSE, function, line);
    }

    /// Writes a line at severity INFO.
    pub fn info(&self, function: &'static CStr, line: &str) {
        self.write(OrtLoggingLevel::ORT_LOGGING_LEVEL_INFO, function, line);
    }

    /// Writes a line at severity WARNING.
    pub fn warning(&self, function: &'static CStr, line: &str) {
        self.write(OrtLoggingLevel::ORT_LOGGING_LEVEL_WARNING, function, line);
    }

    fn write(&self, level: OrtLoggingLevel, function: &'static CStr, line: &str) {
        if self.logger.is_null() {
            return;
        }
        let line = CString::new(line.replace('\0', "\\0")).unwrap_or_default();
        let source = source();
        // SAFETY: the logger is alive and copies the strings.
        let status = unsafe {
            ort_status!(
                self.host,
                Logger_LogMessage(
                    self.logger,
                    level,
                    line.as_ptr(),
                    source.as_ptr(),
                    0,
                    function.as_ptr()
                )
            )
        };
        // A line that cannot be written cannot be complained about either.
        drop(self.host.check("Logger_LogMessage", status));
    }
}
