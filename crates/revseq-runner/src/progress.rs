//! A progress bar for work of over a second.

use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::Duration;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use crate::escape::printable;
use crate::note;

/// How long work may take without a bar.
const PATIENCE: Duration = Duration::from_secs(1);

/// A bar on standard error, if that is a terminal, from the second second on.
/// Dropping this value removes it.
pub(crate) struct Progress {
    bar: ProgressBar,
    done: Option<(Sender<()>, JoinHandle<()>)>,
}

impl Progress {
    /// A bar for a number of steps.
    pub(crate) fn new(steps: u64) -> Self {
        let bar = ProgressBar::with_draw_target(Some(steps), ProgressDrawTarget::hidden());
        if let Ok(style) =
            ProgressStyle::with_template("{spinner} {pos}/{len} [{wide_bar}] {msg} {elapsed}")
        {
            bar.set_style(style.progress_chars("=> "));
        }
        let (sender, receiver) = channel();
        let shown = bar.clone();
        let waiter = std::thread::Builder::new().spawn(move || {
            if receiver.recv_timeout(PATIENCE) == Err(RecvTimeoutError::Timeout)
                && !note::is_quiet()
            {
                shown.set_draw_target(ProgressDrawTarget::stderr());
                shown.enable_steady_tick(Duration::from_millis(100));
            }
        });
        // Without a thread to spare there is no bar.
        Self {
            bar,
            done: waiter.ok().map(|waiter| (sender, waiter)),
        }
    }

    /// A bar for steps that nobody has counted.
    pub(crate) fn of_unknown_length() -> Self {
        let progress = Self::new(0);
        progress.bar.unset_length();
        if let Ok(style) = ProgressStyle::with_template("{spinner} {msg} {elapsed}") {
            progress.bar.set_style(style);
        }
        progress
    }

    /// Shows the current item.
    pub(crate) fn message(&self, message: impl Into<String>) {
        let message = message.into();
        self.bar.set_message(printable(&message).into_owned());
    }

    /// One step is done.
    pub(crate) fn step(&self) {
        self.bar.inc(1);
    }

    /// Prints while the bar is out of the way.
    pub(crate) fn suspend<T>(&self, print: impl FnOnce() -> T) -> T {
        self.bar.suspend(print)
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        if let Some((sender, waiter)) = self.done.take() {
            drop(sender);
            // It only waits.
            let _ = waiter.join();
        }
        self.bar.finish_and_clear();
    }
}
