//! The session's threads.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{LazyLock, Mutex, PoisonError};
use std::thread::available_parallelism;

use recurrent_layers::{Stop, Threads};
use smallvec::SmallVec;

use super::error::Error;
use crate::plugin::runs::Ending;
use crate::plugin::tensor::Context;
use crate::plugin::workers::{ParallelLoop, this_thread};

/// Number of threads that this machine runs at once. Asking the system takes longer than all else
/// that makes a kernel.
pub(super) static CORES: LazyLock<usize> =
    LazyLock::new(|| available_parallelism().map_or(1, usize::from));

/// The first runs, and one of so many others, ask for a thread for each core.
const FIRST: usize = 4;
const EVERY: usize = 16;

/// How many threads a session has, which ONNX Runtime does not say: the most that came in a run.
#[derive(Debug, Default)]
pub(super) struct Seen {
    runs: AtomicUsize,
    most: AtomicUsize,
}

impl Seen {
    /// Does some work on the threads of a run, which `ending` may end.
    pub(super) fn run<T, E>(
        &self,
        context: Context<'_>,
        ending: Ending<'_>,
        work: impl FnOnce(&dyn Threads) -> Result<T, E>,
    ) -> Result<T, Error>
    where
        Error: From<E>,
    {
        let parallel = ParallelLoop::new(context.workers());
        let done = work(&Pool {
            seen: self,
            parallel: &parallel,
            stop: OfCaller(ending),
        });
        // Report the cause first: it says more than that some work was not done.
        parallel.finish()?;
        Ok(done?)
    }
}

/// The threads of a run.
struct Pool<'a> {
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

impl Threads for Pool<'_> {
    fn count(&self) -> usize {
        // The numbers say nothing about other memory.
        let runs = self.seen.runs.fetch_add(1, Ordering::Relaxed);
        let most = self.seen.most.load(Ordering::Relaxed);
        match runs < FIRST || runs.is_multiple_of(EVERY) {
            true => *CORES,
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
