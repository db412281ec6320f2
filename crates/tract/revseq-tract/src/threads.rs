//! The threads of a session.
//!
//! A run of many operators on several threads begins on one of them: from another, each operator
//! would wake a thread of the pool and wait for it, which takes longer than most operators do. [M59]

#[cfg(feature = "multithread")]
use std::panic::resume_unwind;
#[cfg(feature = "multithread")]
use std::sync::{Arc, Mutex};

#[cfg(feature = "multithread")]
use revseq_tract_operators::{is_run_in_pool, run_in_pool};
#[cfg(feature = "multithread")]
use tract_linalg::multithread::current_tract_executor;
use tract_linalg::multithread::{Executor, multithread_tract_scope};
use tract_onnx::prelude::*;

use crate::fence;

/// The nodes of a model from which on its run begins on a thread of the pool: to wake one and to wait
/// for it takes as long as some operators gain by that. [M59]
#[cfg(feature = "multithread")]
const MANY_NODES: usize = 32;

/// The threads of a [`Session`](crate::Session).
#[derive(Clone, Debug, Default)]
pub(crate) enum Threads {
    /// tract's executor decides.
    #[default]
    OfTract,
    /// The caller's.
    One,
    /// A pool, of which one run at a time begins on a thread: one that waits would take the next.
    #[cfg(feature = "multithread")]
    Pool(Executor, Arc<Mutex<()>>),
}

impl Threads {
    /// Returns a number of threads of a session's own; 0 and 1 are the caller's alone.
    pub(crate) fn own(threads: usize) -> Self {
        match threads {
            #[cfg(feature = "multithread")]
            2.. => Self::Pool(Executor::multithread(threads), Arc::default()),
            _ => Self::One,
        }
    }

    /// Runs a model of so many nodes. A panic is an error.
    #[cfg(not(feature = "multithread"))]
    pub(crate) fn run<T>(
        &self,
        _nodes: usize,
        run: impl FnOnce() -> TractResult<T>,
    ) -> TractResult<T> {
        alone(run)
    }

    /// Runs a model of so many nodes. A panic is an error.
    #[cfg(feature = "multithread")]
    pub(crate) fn run<T: Send>(
        &self,
        nodes: usize,
        run: impl FnOnce() -> TractResult<T> + Send,
    ) -> TractResult<T> {
        // That of tract's executor; a session's own pool has another.
        static TURN: Mutex<()> = Mutex::new(());
        let (executor, turn) = match self {
            Self::OfTract => (current_tract_executor(), &TURN),
            Self::One => (Executor::SingleThread, &TURN),
            Self::Pool(executor, turn) => (executor.clone(), &**turn),
        };
        if is_run_in_pool() {
            // A product waits on this thread, which has tract's memory of products.
            let result = std::thread::scope(|scope| scope.spawn(|| alone(run)).join());
            return result.unwrap_or_else(|payload| resume_unwind(payload));
        }
        let is_alone = matches!(executor, Executor::SingleThread);
        let here = || {
            let run = || multithread_tract_scope(executor.clone(), || fence::catch(run));
            match !is_alone && rayon::current_thread_index().is_some() {
                true => run_in_pool(run),
                false => run(),
            }
        };
        let is_on_pool = !is_alone && nodes >= MANY_NODES;
        let turn = is_on_pool.then(|| turn.try_lock().ok()).flatten();
        match (&executor, &turn) {
            (Executor::MultiThread(pool), Some(_)) => pool.install(here),
            (Executor::RayonGlobal, Some(_)) => rayon::scope(|_| here()),
            _ => here(),
        }
    }
}

/// Runs tract on this thread alone. A panic is an error.
pub(crate) fn alone<T>(run: impl FnOnce() -> TractResult<T>) -> TractResult<T> {
    multithread_tract_scope(Executor::SingleThread, || fence::catch(run))
}
