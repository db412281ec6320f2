//! Entry points for fuzzers.

use crate::plugin::options::option;
use crate::provider::EP_NAME_STR;
use crate::provider::options::Options;

/// Reads a session's configuration. Returns the device's name, or the error.
pub fn options(entries: &[(&str, &str)]) -> Result<String, String> {
    let of_ep = |&(key, value)| Some((option(key, EP_NAME_STR)?, value));
    match Options::new(entries.iter().filter_map(of_ep)) {
        Ok(options) => Ok(options.device().to_string()),
        Err(error) => Err(error.to_string()),
    }
}
