//! Keeps a panic inside other people's code from ending the program.

use std::cell::{Cell, RefCell};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicUsize, Ordering};

/// The number of calls of [`quietly`], whose code may panic on other threads, too: those of a pool, or
/// of its own.
static QUIET: AtomicUsize = AtomicUsize::new(0);

thread_local! {
    static FENCED: Cell<bool> = const { Cell::new(false) };
    static MESSAGE: RefCell<Option<String>> = const { RefCell::new(None) };
}

/// Installs the panic hook that is quiet inside [`catch`].
pub(crate) fn install() {
    let default = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |info| {
        if FENCED.get() || QUIET.load(Ordering::Relaxed) > 0 {
            let what = info.payload_as_str().unwrap_or("no message");
            let at = info
                .location()
                .map(|at| format!(" ({}:{})", file_name(at.file()), at.line()));
            let message = format!("{what}{}", at.unwrap_or_default());
            MESSAGE.set(Some(message));
        } else {
            default(info);
        }
    }));
}

/// The source file of a panic, without the path of the machine that built it.
fn file_name(path: &str) -> &str {
    let start = path
        .rfind("tract-")
        .or_else(|| path.rfind('/').map(|slash| slash + 1));
    &path[start.unwrap_or(0)..]
}

/// Runs code that catches panics itself; nothing is printed of them.
pub(crate) fn quietly<T>(run: impl FnOnce() -> T) -> T {
    let outer = FENCED.replace(true);
    QUIET.fetch_add(1, Ordering::Relaxed);
    let result = run();
    QUIET.fetch_sub(1, Ordering::Relaxed);
    FENCED.set(outer);
    result
}

/// Runs foreign code, and returns a panic's message as an error.
///
/// Values that the code was changing when it panicked must not be used again.
pub(crate) fn catch<T>(run: impl FnOnce() -> T) -> Result<T, String> {
    let outer = FENCED.replace(true);
    let result = catch_unwind(AssertUnwindSafe(run));
    FENCED.set(outer);
    result.map_err(|payload| {
        // Dropping the payload may panic, and so may dropping that panic's payload.
        if let Err(payload) = catch_unwind(AssertUnwindSafe(|| drop(payload))) {
            std::mem::forget(payload);
        }
        MESSAGE
            .take()
            .unwrap_or_else(|| "a panic without a message".to_owned())
    })
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use super::*;

    /// The panics of this test that the hook beneath has seen.
    static SEEN: Mutex<Vec<String>> = Mutex::new(Vec::new());

    #[test]
    fn panics_of_a_quiet_call_are_quiet_on_any_thread() {
        let default = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |info| match info.payload_as_str() {
            Some(text) if text.starts_with("on purpose") => {
                SEEN.lock().unwrap().push(text.to_owned());
            }
            _ => default(info),
        }));
        install();
        let panics = |text: &'static str| std::thread::spawn(move || panic!("{text}")).join();
        quietly(|| panics("on purpose, quiet")).unwrap_err();
        panics("on purpose, loud").unwrap_err();
        assert_eq!(*SEEN.lock().unwrap(), ["on purpose, loud"]);
    }
}
