//! Sessions within a session: how they are made, on the CPU and without threads of their own, and run.

use std::ffi::{CString, c_char, c_int};
use std::ptr;

use ort_sys::{OrtEnv, OrtLoggingLevel, OrtRunOptions, OrtSession, OrtSessionOptions, OrtValue};

use super::error::Error;
use super::host::{Host, Owned, ort_own, ort_try};

/// A model of one node without inputs, a RandomUniform, whose output `y` is a tensor.
pub(super) const ONE_NODE: &[u8] = b"\x08\x08\x3a\x30\x0a\x20\x12\x01y\x22\x0dRandomUniform\
    \x2a\x0c\x0a\x05shape\x40\x01\xa0\x01\x07\x12\x01g\x62\x09\x0a\x01y\x12\x04\x0a\x02\x08\x01\x42\x02\x10\x0d";

/// Keys and values as the host reads them.
pub(super) type Entries = Vec<(CString, CString)>;

pub(super) fn entries<K: Into<Vec<u8>>, V: Into<Vec<u8>>>(
    pairs: impl IntoIterator<Item = (K, V)>,
) -> Entries {
    let pairs = pairs.into_iter();
    let pairs = pairs.map(|(key, value)| (c_string(key), c_string(value)));
    pairs.collect()
}

pub(super) fn c_string(text: impl Into<Vec<u8>>) -> CString {
    // The host's own strings end at a 0.
    CString::new(text).unwrap_or_default()
}

/// The environment of the process, held as long as this exists.
pub(super) fn environment(host: Host) -> Result<Owned<OrtEnv>, Error> {
    let level = OrtLoggingLevel::ORT_LOGGING_LEVEL_WARNING;
    // There is one in a process, which the session around needs: this counts one more user.
    // SAFETY: the arguments are as the host's header says.
    Ok(unsafe { ort_own!(host, CreateEnv(level, c"".as_ptr()) => ReleaseEnv) })
}

/// Makes options of a session without threads of its own, with this `OrtLoggingLevel`.
pub(super) fn options(host: Host, severity: c_int) -> Result<Owned<OrtSessionOptions>, Error> {
    // SAFETY: the arguments are as the host's header says.
    let options = unsafe { ort_own!(host, CreateSessionOptions() => ReleaseSessionOptions) };
    remove_threads(host, &options, severity)?;
    Ok(options)
}

/// Makes options those of a session without threads of its own, with this `OrtLoggingLevel`.
pub(super) fn remove_threads(
    host: Host,
    options: &Owned<OrtSessionOptions>,
    severity: c_int,
) -> Result<(), Error> {
    let options = options.as_ptr();
    // SAFETY: the options are alive.
    unsafe {
        ort_try!(host, SetIntraOpNumThreads(options, 1));
        ort_try!(host, SetInterOpNumThreads(options, 1));
        ort_try!(host, SetSessionLogSeverityLevel(options, severity));
    }
    Ok(())
}

pub(super) fn add_entries(
    host: Host,
    options: &Owned<OrtSessionOptions>,
    entries: &Entries,
) -> Result<(), Error> {
    for (key, value) in entries {
        let (options, key, value) = (options.as_ptr(), key.as_ptr(), value.as_ptr());
        // SAFETY: the options are alive, and the strings end with 0.
        unsafe { ort_try!(host, AddSessionConfigEntry(options, key, value)) };
    }
    Ok(())
}

/// Makes a session of a model.
pub(super) fn make(
    host: Host,
    environment: &Owned<OrtEnv>,
    options: &Owned<OrtSessionOptions>,
    model: &[u8],
) -> Result<Owned<OrtSession>, Error> {
    let (environment, options) = (environment.as_ptr(), options.as_ptr());
    let (bytes, size) = (model.as_ptr().cast(), model.len());
    // SAFETY: the arguments are alive, and the bytes as many as is said.
    Ok(unsafe {
        ort_own!(host, CreateSessionFromArray(environment, bytes, size, options) => ReleaseSession)
    })
}

/// Runs a session for named inputs, and returns the outputs with these names.
///
/// # Safety
/// The options are null or alive, and so are the values and the names, of which there is one for each value.
pub(super) unsafe fn run(
    host: Host,
    session: &Owned<OrtSession>,
    options: *const OrtRunOptions,
    (input_names, inputs): (&[*const c_char], &[*const OrtValue]),
    output_names: &[*const c_char],
) -> Result<Vec<Owned<OrtValue>>, Error> {
    let mut made = vec![ptr::null_mut(); output_names.len()];
    // SAFETY: the caller's; all lists have the lengths that they are passed with.
    let mut run = || unsafe {
        ort_try!(
            host,
            Run(
                session.as_ptr(),
                options,
                input_names.as_ptr(),
                inputs.as_ptr(),
                inputs.len(),
                output_names.as_ptr(),
                output_names.len(),
                made.as_mut_ptr()
            )
        );
        Ok(())
    };
    let ran = run();
    // SAFETY: the values are this function's; some are null if the run failed.
    let own = |value| unsafe { Owned::new(value, (*host.api).ReleaseValue) };
    let made: Vec<Owned<_>> = made.into_iter().map(own).collect();
    ran.map(|()| made)
}
