//! The options that a session has for an EP.

use std::ptr;

use ort_sys::OrtSessionOptions;

use super::error::Error;
use super::host::{Host, ort, ort_own, text};

/// The EP's options, each with its value.
///
/// # Safety
/// `options` are of this host.
pub unsafe fn read(
    host: Host,
    options: *const OrtSessionOptions,
    ep_name: &str,
) -> Result<Vec<(String, String)>, Error> {
    // SAFETY: the caller's.
    let entries = unsafe { entries(host, options) }?.into_iter();
    let of_ep = |(key, value): (String, String)| Some((option(&key, ep_name)?.to_owned(), value));
    Ok(entries.filter_map(of_ep).collect())
}

/// The entries of a session's configuration.
///
/// # Safety
/// `options` are of this host.
pub(super) unsafe fn entries(
    host: Host,
    options: *const OrtSessionOptions,
) -> Result<Vec<(String, String)>, Error> {
    let (mut keys, mut values, mut count) = (ptr::null(), ptr::null(), 0);
    // SAFETY: the caller's; both lists have `count` strings.
    unsafe {
        let entries =
            ort_own!(host, GetSessionOptionsConfigEntries(options) => ReleaseKeyValuePairs);
        ort!(
            host,
            GetKeyValuePairs(
                entries.as_ptr(),
                &raw mut keys,
                &raw mut values,
                &raw mut count
            )
        );
        let pair = |index| (text(*keys.add(index)), text(*values.add(index)));
        Ok((0..count).map(pair).collect())
    }
}

/// The option that an entry of a session's configuration is, if it is one of the EP's.
///
/// ONNX Runtime writes them there as `ep.<lowercase name of the EP>.<option>`;
/// a user who writes one by hand may not lower the name.
pub fn option<'a>(key: &'a str, ep_name: &str) -> Option<&'a str> {
    let (name, rest) = key.strip_prefix("ep.")?.split_at_checked(ep_name.len())?;
    let option = rest.strip_prefix('.')?;
    name.eq_ignore_ascii_case(ep_name).then_some(option)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn other_entries_are_ignored() {
        let option = |key| option(key, "SomeExecutionProvider");
        assert_eq!(option("ep.someexecutionprovider.lengths"), Some("lengths"));
        assert_eq!(option("ep.SomeExecutionProvider.a.b"), Some("a.b"));
        for key in [
            "session.disable_cpu_ep_fallback",
            "ep.context_enable",
            "ep.some",
            "ep.someexecutionprovider",
            "ep.someexecutionproviders.lengths",
            "ep.sameexecutionprovider.lengths",
        ] {
            assert_eq!(option(key), None, "{key}");
        }
    }
}
