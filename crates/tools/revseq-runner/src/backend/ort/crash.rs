//! Crashes of ONNX Runtime, and of the system's loader, which reads what a truncated library lacks: they end
//! the process, with an error that says whose fault it was.
//!
//! ```text
//! error: ONNX Runtime 1.32.0 crashed on model.onnx (SIGSEGV); --backend tract may run it
//! error: libonnxruntime.so cannot be loaded (SIGBUS): the file may be truncated
//! ```

#![expect(unsafe_code, reason = "handles signals")]

use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicPtr, Ordering};

use crate::escape::printable;

/// The error before and after the signal's name. One that was replaced is never freed: a thread may be
/// crashing with it.
static MESSAGE: AtomicPtr<(String, &str)> = AtomicPtr::new(std::ptr::null_mut());

const SIGNALS: [(libc::c_int, &str); 5] = [
    (libc::SIGSEGV, "SIGSEGV"),
    (libc::SIGBUS, "SIGBUS"),
    (libc::SIGILL, "SIGILL"),
    (libc::SIGFPE, "SIGFPE"),
    (libc::SIGABRT, "SIGABRT"),
];

/// Has a crash be an error of a model from now on.
pub(super) fn name(runtime: &str, model: &Path) {
    let model = model.display().to_string();
    let begin = format!("error: {runtime} crashed on {}", printable(&model));
    set(begin, "; --backend tract may run it\n");
}

/// Has a crash be an error of a library that is loaded from now on.
pub(super) fn name_library(path: &Path) {
    let path = path.display().to_string();
    let begin = format!("error: {} cannot be loaded", printable(&path));
    set(begin, ": the file may be truncated\n");
}

fn set(begin: String, end: &'static str) {
    let message = Box::into_raw(Box::new((begin, end)));
    MESSAGE.store(message, Ordering::Release);
}

/// Whether a [`Watch`] handles the signals.
static IS_WATCHED: AtomicBool = AtomicBool::new(false);

/// Handles the signals of crashes until it is dropped. One within another does nothing.
pub(super) struct Watch(Option<[libc::sigaction; SIGNALS.len()]>);

impl Watch {
    pub(super) fn new() -> Self {
        if IS_WATCHED.swap(true, Ordering::Relaxed) {
            return Self(None);
        }
        Self(Some(SIGNALS.map(|(signal, _)| {
            // SAFETY: zeros are a valid sigaction: no flags, an empty mask, the default handler.
            let mut new: libc::sigaction = unsafe { std::mem::zeroed() };
            new.sa_sigaction = on_crash as extern "C" fn(libc::c_int) as usize;
            // The stack may be the reason; once more is the default action.
            new.sa_flags = libc::SA_ONSTACK | libc::SA_RESETHAND;
            let mut old = new;
            // SAFETY: both are valid, and the handler calls only functions that handlers may call.
            unsafe { libc::sigaction(signal, &raw const new, &raw mut old) };
            old
        })))
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        let Some(before) = &self.0 else {
            return;
        };
        for ((signal, _), old) in std::iter::zip(SIGNALS, before) {
            // SAFETY: it is the action that was there before.
            unsafe { libc::sigaction(signal, old, std::ptr::null_mut()) };
        }
        IS_WATCHED.store(false, Ordering::Relaxed);
    }
}

/// Writes the error and ends the process. It only loads an atomic, writes and exits, which a signal
/// handler may do.
extern "C" fn on_crash(signal: libc::c_int) {
    let message = MESSAGE.load(Ordering::Acquire);
    // SAFETY: a message that was stored is never changed or freed.
    let (begin, end) = unsafe { message.as_ref() }
        .map_or(("error: ONNX Runtime crashed", "\n"), |(begin, end)| {
            (begin, end)
        });
    let name = SIGNALS.iter().find(|(number, _)| *number == signal);
    let name = name.map_or("a signal", |(_, name)| *name);
    for part in [begin, " (", name, ")", end] {
        // SAFETY: the bytes are valid; a closed standard error is ignored.
        let _ = unsafe { libc::write(libc::STDERR_FILENO, part.as_ptr().cast(), part.len()) };
    }
    // SAFETY: it ends the process, without handlers of other threads.
    unsafe { libc::_exit(crate::UNUSABLE.into()) };
}
