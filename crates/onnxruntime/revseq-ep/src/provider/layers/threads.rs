//! The session's threads, for a layer or a loop.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

use recurrent_layers::{Stop, Threads};
use smallvec::SmallVec;

use crate::plugin::runs::Ending;
use crate::plugin::workers::{ParallelLoop, this_thread};

/// The first runs, and one of so many others, ask for a thread for each core.
const FIRST: usize = 4;
const EVERY: usize = 16;

/// How many threads a session has, which ONNX Runtime does not say: the most that came in a run.
#[derive(Debug, Default)]
pub(crate) struct Seen {
    runs: AtomicUsize,
    most: AtomicUsize,
}

/// The threads of a run.
pub(crate) struct Pool<'a> {
    cores: usize,
    seen: &'a Seen,
    parallel: &'a ParallelLoop<'a>,
    stop: OfCaller<'a>,
}

/// The end that the caller of a run wants.
struct OfCaller<'a>(Ending<'a>);

impl Stop for OfCaller<'_> {
    fn is_wanted(&self) -> bool {
        self.0.is_wanted()
    }
}

impl<'a> Pool<'a> {
    pub(crate) fn new(
        cores: usize,
        seen: &'a Seen,
        parallel: &'a ParallelLoop<'a>,
        ending: Ending<'a>,
    ) -> Self {
        Self {
            cores,
            seen,
            parallel,
            stop: OfCaller(ending),
        }
    }
}

impl Threads for Pool<'_> {
    fn count(&self) -> usize {
        // The numbers say nothing about other memory.
        let runs = self.seen.runs.fetch_add(1, Ordering::Relaxed);
        let most = self.seen.most.load(Ordering::Relaxed);
        match runs < FIRST || runs.is_multiple_of(EVERY) {
            true => self.cores,
            false => most.max(1),
        }
    }

    fn run(&self, workers: usize, work: &(dyn Fn() + Sync)) {
        let came: Mutex<SmallVec<[usize; 16]>> = Mutex::default();
        self.parallel.run(workers, &|_| {
            let id = this_thread();
            let mut threads = came.lock().unwrap_or_else(PoisonError::into_inner);
            if !threads.contains(&id) {
                threads.push(id);
            }
            drop(threads);
            work();
        });
        let came = came.lock().unwrap_or_else(PoisonError::into_inner).len();
        self.seen.most.fetch_max(came, Ordering::Relaxed);
    }

    fn stop(&self) -> Option<&dyn Stop> {
        Some(&self.stop)
    }
}
