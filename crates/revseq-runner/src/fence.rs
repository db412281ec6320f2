//! Keeps a panic inside other people's code from ending the program.

use std::cell::{Cell, RefCell};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicUsize, Ordering};

/// The number of calls of [`quietly`], whose code may panic on threads of the pool, too.
static QUIET: AtomicUsize = AtomicUsize::new(0);

thread_local! {
    static FENCED: Cell<bool> = const { Cell::new(false) };
    static MESSAGE: RefCell<Option<String>> = const { RefCell::new(None) };
}

/// Installs the panic hook that is quiet inside [`catch`].
pub(crate) fn install() {
    let default = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |info| {
        let is_for_caller = rayon::current_thread_index().is_some();
        if FENCED.get() || is_for_caller && QUIET.load(Ordering::Relaxed) > 0 {
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
