//! Lines in ONNX Runtime's log.

use std::ffi::{CString, c_int};

use ort_sys::{OrtLogger, OrtLoggingLevel};

use crate::plugin::host::{Host, ort_status};

/// What the log shows as the source of a line.
#[cfg(not(windows))]
const SOURCE: *const ort_sys::os_char = c"revseq-ep".as_ptr();
#[cfg(windows)]
const SOURCE: *const ort_sys::os_char = {
    const NAME: [u16; 10] = [0x72, 0x65, 0x76, 0x73, 0x65, 0x71, 0x2d, 0x65, 0x70, 0];
    NAME.as_ptr()
};

/// A logger of the host's, to be used while whatever it came with lives.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Log {
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
    pub(crate) unsafe fn new(host: Host, logger: *const OrtLogger) -> Self {
        Self { host, logger }
    }

    /// Whether lines of the least severity are wanted.
    pub(crate) fn is_verbose(&self) -> bool {
        if self.logger.is_null() {
            return false;
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
        known.is_ok() && level <= OrtLoggingLevel::ORT_LOGGING_LEVEL_VERBOSE as c_int
    }

    /// Writes a line for whoever asks for everything.
    pub(crate) fn verbose(&self, function: &'static std::ffi::CStr, line: &str) {
        self.write(OrtLoggingLevel::ORT_LOGGING_LEVEL_VERBOSE, function, line);
    }

    /// Writes a line for whoever asks for more than what goes wrong.
    pub(crate) fn info(&self, function: &'static std::ffi::CStr, line: &str) {
        self.write(OrtLoggingLevel::ORT_LOGGING_LEVEL_INFO, function, line);
    }

    fn write(&self, level: OrtLoggingLevel, function: &'static std::ffi::CStr, line: &str) {
        if self.logger.is_null() {
            return;
        }
        let line = CString::new(line.replace('\0', "\\0")).unwrap_or_default();
        // SAFETY: the logger is alive and copies the strings.
        let status = unsafe {
            ort_status!(
                self.host,
                Logger_LogMessage(
                    self.logger,
                    level,
                    line.as_ptr(),
                    SOURCE,
                    0,
                    function.as_ptr()
                )
            )
        };
        // A line that cannot be written cannot be complained about either.
        drop(self.host.check("Logger_LogMessage", status));
    }
}
