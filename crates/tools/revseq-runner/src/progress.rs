//! A progress bar for work of over a second.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::Duration;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use crate::escape::printable;
use crate::note;

/// Time that work may take without a bar.
const PATIENCE: Duration = Duration::from_secs(1);

/// Number of bars, nested ones included; only the outermost is shown.
static BARS: AtomicUsize = AtomicUsize::new(0);

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
        let is_outer = BARS.fetch_add(1, Ordering::Relaxed) == 0;
        let (sender, receiver) = channel();
        let shown = bar.clone();
        let wait = move || {
            if receiver.recv_timeout(PATIENCE) == Err(RecvTimeoutError::Timeout) {
                shown.set_draw_target(ProgressDrawTarget::stderr());
                shown.enable_steady_tick(Duration::from_millis(100));
            }
        };
        let waiter =
            (is_outer && !note::is_quiet()).then(|| std::thread::Builder::new().spawn(wait));
        // Without a thread to spare there is no bar.
        let waiter = waiter.and_then(Result::ok);
        Self {
            bar,
            done: waiter.map(|waiter| (sender, waiter)),
        }
    }

    /// A bar for one step of work.
    pub(crate) fn of(message: impl Into<String>) -> Self {
        let progress = Self::of_unknown_length();
        progress.message(message);
        progress
    }

    /// A bar for an unknown number of steps.
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

    /// Counts one step as done.
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
        BARS.fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_nested_bars_the_outer_one_is_shown() {
        let outer = Progress::new(2);
        assert!(outer.done.is_some());
        let inner = Progress::of("inner");
        assert!(inner.done.is_none());
        drop(inner);
        assert!(Progress::of("inner").done.is_none());
        drop(outer);
        assert!(Progress::of("outer").done.is_some());
    }
}
