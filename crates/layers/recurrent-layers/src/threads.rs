//! The threads of a run.

/// Threads that run a layer: the caller chooses, this crate starts none.
///
/// A run is right whatever they do: work that no thread takes is done by the calling one, and the
/// results do not depend on the number of threads.
pub trait Threads {
    /// The number of threads, the calling one included.
    fn count(&self) -> usize;

    /// Calls `work` on so many threads, the calling one included, and returns when all calls have.
    ///
    /// Calls share the work among themselves: one that comes late finds none, and returns. If one
    /// panics, so does the run.
    fn run(&self, workers: usize, work: &(dyn Fn() + Sync));

    /// Returns what may end the run early; nothing by default.
    fn stop(&self) -> Option<&dyn Stop> {
        None
    }
}

/// What may end a run early: a flag of another thread, or a deadline.
pub trait Stop: Sync {
    /// Whether the run is to end, with [`Error::Stopped`](crate::Error::Stopped). Once it is, it stays so.
    ///
    /// All threads of a run ask this, before the first step and again after some fractions of a
    /// millisecond, or a step that takes longer.
    fn is_wanted(&self) -> bool;
}

/// The calling thread alone.
#[derive(Clone, Copy, Debug, Default)]
pub struct Serial;

impl Threads for Serial {
    fn count(&self) -> usize {
        1
    }

    fn run(&self, _workers: usize, work: &(dyn Fn() + Sync)) {
        work();
    }
}

/// The rayon pool that the caller runs on: the global one outside any other.
#[cfg(feature = "rayon")]
#[derive(Clone, Copy, Debug, Default)]
pub struct Rayon;

#[cfg(feature = "rayon")]
impl Threads for Rayon {
    fn count(&self) -> usize {
        rayon::current_num_threads()
    }

    fn run(&self, workers: usize, work: &(dyn Fn() + Sync)) {
        rayon::in_place_scope(|scope| all(scope, workers, work));
    }
}

#[cfg(feature = "rayon")]
impl Threads for rayon::ThreadPool {
    fn count(&self) -> usize {
        self.current_num_threads()
    }

    fn run(&self, workers: usize, work: &(dyn Fn() + Sync)) {
        self.in_place_scope(|scope| all(scope, workers, work));
    }
}

/// Runs the same function on several threads of a pool, and on this one.
#[cfg(feature = "rayon")]
fn all<'a>(scope: &rayon::Scope<'a>, workers: usize, work: &'a (dyn Fn() + Sync)) {
    for _ in 1..workers {
        scope.spawn(|_| work());
    }
    work();
}
