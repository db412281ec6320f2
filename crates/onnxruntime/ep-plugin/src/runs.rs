//! The runs of a session that are in progress, and whether their callers end them.
//!
//! ONNX Runtime looks at the flag of a run's options before each node, and shows it to nobody (as of 1.32).
//! A session within a session gets the options, so that they end it between its nodes. A kernel that takes
//! long asks now and then by running a session of one node, which ends at once if the flag is set.

use std::ffi::c_int;
use std::ptr;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use ort_sys::{OrtLoggingLevel, OrtRunOptions, OrtSession};
use smallvec::SmallVec;

use super::error::Error;
use super::host::{Host, Owned};
use super::inner::{self, ONE_NODE};
use super::workers::this_thread;

/// The time from the beginning of a kernel's run to the first question, and from each to the next, which takes
/// some microseconds.
const BETWEEN_QUESTIONS: Duration = Duration::from_millis(10);

/// The runs of a session that are in progress.
#[derive(Debug)]
pub struct Runs {
    host: Host,
    runs: Mutex<SmallVec<[Run; 4]>>,
    /// The session that is asked whether a run ends, once one was; `None` if it cannot be made.
    asked: OnceLock<Option<Owned<OrtSession>>>,
}

/// A run in progress.
#[derive(Debug)]
struct Run {
    /// The thread that it was called on.
    thread: usize,
    options: *const OrtRunOptions,
}

// SAFETY: options and sessions may be used by any number of threads at once.
unsafe impl Send for Runs {}
// SAFETY: as above.
unsafe impl Sync for Runs {}

impl Runs {
    /// No runs, of this host.
    pub fn new(host: Host) -> Self {
        Self {
            host,
            runs: Mutex::default(),
            asked: OnceLock::new(),
        }
    }

    /// Notes that a run with these options begins on this thread.
    pub fn begin(&self, options: *const OrtRunOptions) {
        let thread = this_thread();
        let mut runs = self.runs.lock().unwrap_or_else(PoisonError::into_inner);
        runs.push(Run { thread, options });
    }

    /// Notes that the run which began last on this thread ends.
    pub fn end(&self) {
        let thread = this_thread();
        let mut runs = self.runs.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(place) = runs.iter().rposition(|run| run.thread == thread) {
            runs.remove(place);
        }
    }

    /// The options of the run that calls this, which live as long as that goes on; null if several runs might be it.
    pub(super) fn options(&self) -> *const OrtRunOptions {
        let thread = this_thread();
        let runs = self.runs.lock().unwrap_or_else(PoisonError::into_inner);
        let own = runs.iter().rfind(|run| run.thread == thread);
        // Nodes of one run may be on several threads.
        let run = own.or_else(|| runs.first().filter(|_| runs.len() == 1));
        run.map_or(ptr::null(), |run| run.options)
    }

    /// What tells whether the run that calls this is to end, as long as that goes on.
    pub fn ending(&self) -> Ending<'_> {
        let options = self.options();
        Ending {
            runs: self,
            options,
            begun: Instant::now(),
            next: AtomicU64::new(match options.is_null() {
                true => u64::MAX,
                false => micros(BETWEEN_QUESTIONS),
            }),
            is_wanted: AtomicBool::new(false),
        }
    }

    /// Whether runs with these options are to end. `None` if that cannot be told.
    fn are_ended(&self, options: *const OrtRunOptions) -> Option<bool> {
        let asked = self.asked.get_or_init(|| self.session_to_ask().ok());
        let session = asked.as_ref()?;
        let name = c"y".as_ptr();
        // SAFETY: the options are alive as long as their run goes on.
        let ran = unsafe { inner::run(self.host, session, options, (&[], &[]), &[name]) };
        match ran.map_err(Self::named) {
            Ok(_) => Some(false),
            Err(Error::Ended) => Some(true),
            Err(_) => None,
        }
    }

    fn session_to_ask(&self) -> Result<Owned<OrtSession>, Error> {
        let severity = OrtLoggingLevel::ORT_LOGGING_LEVEL_FATAL as c_int;
        let options = inner::options(self.host, severity)?;
        let environment = inner::environment(self.host)?;
        inner::make(self.host, &environment, &options, ONE_NODE)
    }

    /// The error of a run within a run, by its cause if the caller has ended that.
    pub(super) fn named(error: Error) -> Error {
        match error {
            Error::Host { message, .. } if message.contains("terminate flag") => Error::Ended,
            error => error,
        }
    }
}

/// Whether a run is to end. Any thread may ask.
#[derive(Debug)]
pub struct Ending<'a> {
    runs: &'a Runs,
    options: *const OrtRunOptions,
    begun: Instant,
    /// The microseconds from the beginning to the next question.
    next: AtomicU64,
    is_wanted: AtomicBool,
}

// SAFETY: options may be used by any number of threads at once.
unsafe impl Sync for Ending<'_> {}

fn micros(time: Duration) -> u64 {
    u64::try_from(time.as_micros()).unwrap_or(u64::MAX)
}

impl Ending<'_> {
    /// Whether the run is to end. Once it is, it stays so.
    pub fn is_wanted(&self) -> bool {
        if self.is_wanted.load(Ordering::Relaxed) {
            return true;
        }
        let next = self.next.load(Ordering::Relaxed);
        let now = micros(self.begun.elapsed());
        let later = now.saturating_add(micros(BETWEEN_QUESTIONS));
        let order = Ordering::Relaxed;
        if now < next
            || self
                .next
                .compare_exchange(next, later, order, order)
                .is_err()
        {
            return false;
        }
        match self.runs.are_ended(self.options) {
            Some(true) => self.is_wanted.store(true, Ordering::Relaxed),
            Some(false) => {}
            // Options that only the session around understands.
            None => self.next.store(u64::MAX, Ordering::Relaxed),
        }
        self.is_wanted.load(Ordering::Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use std::thread;

    use super::*;
    use crate::fake_host;

    #[test]
    fn a_run_is_found_by_its_thread_or_as_the_only_one() {
        let runs = Runs::new(fake_host::host());
        let found = || runs.options().addr();
        let elsewhere = || thread::scope(|scope| scope.spawn(found).join().unwrap());
        let options = |number: usize| ptr::without_provenance(number);
        assert_eq!([found(), elsewhere()], [0, 0]);
        runs.begin(options(8));
        assert_eq!([found(), elsewhere()], [8, 8]);
        thread::scope(|scope| {
            let other = scope.spawn(|| {
                runs.begin(options(16));
                assert_eq!([found(), elsewhere()], [16, 0]);
                // A run within it.
                runs.begin(options(24));
                assert_eq!(found(), 24);
                runs.end();
                assert_eq!(found(), 16);
                runs.end();
            });
            other.join().unwrap();
        });
        assert_eq!([found(), elsewhere()], [8, 8]);
        runs.end();
        assert_eq!([found(), elsewhere()], [0, 0]);
        assert!(!runs.ending().is_wanted());
    }
}
