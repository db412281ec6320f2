//! What a fuzzer calls.

use crate::options::Options;

/// Reads a session's configuration: what the device is called, or what is wrong.
pub fn options(entries: &[(&str, &str)]) -> Result<String, String> {
    match Options::from_config(entries.iter().copied()) {
        Ok(options) => Ok(options.device().to_string()),
        Err(error) => Err(error.to_string()),
    }
}
