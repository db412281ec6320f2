//! Ctrl-C and termination signals: incomplete files are removed, and partial results of long work
//! are kept.

use std::io::Write;
use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::{Context, Result};

use crate::file;

/// Whether somebody asks [`Watch::is_interrupted`].
static WATCHED: AtomicBool = AtomicBool::new(false);

/// Whether the program was interrupted while somebody watched.
static INTERRUPTED: AtomicBool = AtomicBool::new(false);

/// Work in steps that stops between two of them rather than at once. There is one at a time.
pub(crate) struct Watch(());

impl Watch {
    pub(crate) fn new() -> Self {
        WATCHED.store(true, Ordering::SeqCst);
        Self(())
    }

    /// Whether to stop.
    #[expect(clippy::unused_self, reason = "asking needs a watch")]
    pub(crate) fn is_interrupted(&self) -> bool {
        INTERRUPTED.load(Ordering::SeqCst)
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        WATCHED.store(false, Ordering::SeqCst);
    }
}

/// Whether to end at once: nobody watches, or those who do take too long.
fn ends_at_once() -> bool {
    if !WATCHED.load(Ordering::SeqCst) || INTERRUPTED.swap(true, Ordering::SeqCst) {
        return true;
    }
    // Ignore a closed standard error.
    let _ = writeln!(
        std::io::stderr(),
        "interrupted: stops after this step; once more stops at once"
    );
    false
}

/// Listens for signals from now on.
///
/// # Errors
/// If the system refuses to deliver signals.
#[cfg(unix)]
pub(crate) fn listen() -> Result<()> {
    use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
    use signal_hook::iterator::Signals;
    use signal_hook::low_level::emulate_default_handler;

    let listen = || -> std::io::Result<()> {
        let mut signals = Signals::new([SIGINT, SIGTERM, SIGHUP])?;
        std::thread::Builder::new().spawn(move || {
            for signal in signals.forever() {
                if ends_at_once() {
                    let _no_more = file::abandon_all();
                    // Other threads are in the middle of something: nothing of theirs is unwound.
                    let _ = emulate_default_handler(signal);
                }
            }
        })?;
        Ok(())
    };
    listen().context("cannot start the thread that listens for signals")
}

/// The same for the console's events.
#[cfg(windows)]
pub(crate) fn listen() -> Result<()> {
    /// `STATUS_CONTROL_C_EXIT` (ntstatus.h).
    const CONTROL_C: i32 = 0xC000_013A_u32 as i32;

    ctrlc::set_handler(|| {
        if ends_at_once() {
            let _no_more = file::abandon_all();
            std::process::exit(CONTROL_C);
        }
    })
    .context("cannot listen for Ctrl-C")
}
