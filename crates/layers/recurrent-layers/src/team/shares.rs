//! The protocol of threads that compute shares in phases.
//!
//! In a phase each share is computed once, from the results of all shares in the phase before. So no
//! share begins a phase before all have finished the one before it.

use std::ops::Range;
use std::sync::{PoisonError, TryLockError};

// The standard library's, or those that the model in `tests/shares.rs` checks this file with.
use super::hint;
use super::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use super::sync::{Mutex, MutexGuard, RwLock};
use super::thread;
use super::{PATIENCE, SPINS};

/// What the shares compute.
pub(super) trait Work {
    /// What one thread at a time computes with: the states of a share.
    type Units;
    /// The results of a share in a phase.
    type Results;
    /// The results of all shares in a phase.
    type All;

    /// Returns a place for the results of all shares. `None` ends the run.
    fn room(&self) -> Option<Self::All>;

    /// Puts the results of a share into their place.
    fn collect(
        &self,
        share: &Share<Self::Units, Self::Results>,
        from: &Self::Results,
        to: &mut Self::All,
    );

    /// Whether the run ends before this phase.
    fn is_stopped(&self, phase: usize) -> bool;

    /// Computes a phase of a share from the results of all in the phase before.
    fn compute(
        &self,
        share: usize,
        phase: usize,
        all: &Self::All,
        units: &mut Self::Units,
        results: &mut Self::Results,
    );
}

/// A share, and its progress.
#[derive(Debug)]
pub(super) struct Share<U, R> {
    pub(super) is_taken: AtomicBool,
    /// The number of finished phases.
    pub(super) done: AtomicUsize,
    pub(super) units: Mutex<U>,
    /// The results of the latest phases: a phase reads one place while its successor writes the
    /// other.
    pub(super) published: [RwLock<R>; 2],
    /// The units, and the width of a row of results.
    pub(super) range: Range<usize>,
    pub(super) width: usize,
}

impl<U, R> Share<U, R> {
    /// Takes the share for this thread. `false` if another has it.
    pub(super) fn take(&self) -> bool {
        !self.is_taken.swap(true, Ordering::Relaxed)
    }
}

impl<U: Default, R: Default> Default for Share<U, R> {
    fn default() -> Self {
        Self {
            is_taken: AtomicBool::new(false),
            done: AtomicUsize::new(0),
            units: Mutex::new(U::default()),
            published: [RwLock::new(R::default()), RwLock::new(R::default())],
            range: 0..0,
            width: 0,
        }
    }
}

/// Shares that run together.
pub(super) struct Shares<'a, W: Work> {
    pub(super) work: &'a W,
    pub(super) shares: &'a [Share<W::Units, W::Results>],
    pub(super) phases: usize,
    /// Whether a thread has panicked, or found that the run ends.
    pub(super) is_broken: &'a AtomicBool,
}

/// Ends the waiting for a thread that panicked.
struct Alarm<'a>(&'a AtomicBool);

impl Drop for Alarm<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.0.store(true, Ordering::Release);
        }
    }
}

pub(super) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl<W: Work> Shares<'_, W> {
    /// Takes free shares, and runs the phases of each. Returns when all shares are finished by any
    /// thread, one has panicked, or the run ends, unless other threads have taken all before.
    pub(super) fn run(&self) {
        let _alarm = Alarm(self.is_broken);
        for (index, share) in self.shares.iter().enumerate() {
            if share.take() {
                self.run_share(index);
            }
        }
    }

    /// The number of phases that all shares have finished.
    fn done(&self) -> usize {
        let done = self.shares.iter();
        let done = done.map(|share| share.done.load(Ordering::Acquire)).min();
        done.unwrap_or(self.phases)
    }

    /// Runs all phases of a share. Returns when all shares are finished by any thread, one has
    /// panicked, or the run ends.
    fn run_share(&self, own: usize) {
        let Some(mut all) = self.work.room() else {
            self.is_broken.store(true, Ordering::Release);
            return;
        };
        let mut phase = self.done();
        while phase < self.phases {
            if self.work.is_stopped(phase) {
                self.is_broken.store(true, Ordering::Release);
                return;
            }
            self.gather(phase, &mut all);
            self.compute(own, phase, &all, lock(&self.shares[own].units));
            phase += 1;
            if !self.wait(phase, &all) {
                return;
            }
        }
    }

    /// Waits until all shares have finished the phases before this one, and helps if needed; `all`
    /// is the input of the last of these. `false` if a thread has panicked, or the run ends.
    fn wait(&self, phase: usize, all: &W::All) -> bool {
        let mut looks = 0;
        loop {
            if self.is_broken.load(Ordering::Acquire) {
                return false;
            }
            if self.done() >= phase {
                return true;
            }
            for (index, share) in self.shares.iter().enumerate() {
                let is_late = share.done.load(Ordering::Acquire) < phase;
                let is_left = !share.is_taken.load(Ordering::Relaxed) || looks > SPINS + PATIENCE;
                if is_late && is_left {
                    match share.units.try_lock() {
                        Ok(units) => self.compute(index, phase - 1, all, units),
                        Err(TryLockError::Poisoned(_) | TryLockError::WouldBlock) => {}
                    }
                }
            }
            looks += 1;
            if looks < SPINS {
                hint::spin_loop();
            } else {
                thread::yield_now();
            }
        }
    }

    /// Collects the results of all shares after so many phases.
    ///
    /// If the next phase ends meanwhile, the result may be wrong, and is then unused.
    pub(super) fn gather(&self, phases: usize, to: &mut W::All) {
        for share in self.shares {
            let from = share.published[phases % 2].read();
            let from = from.unwrap_or_else(PoisonError::into_inner);
            self.work.collect(share, &from, to);
        }
    }

    /// Computes a phase of a share, unless a thread already has.
    fn compute(
        &self,
        index: usize,
        phase: usize,
        all: &W::All,
        mut units: MutexGuard<'_, W::Units>,
    ) {
        let share = &self.shares[index];
        if share.done.load(Ordering::Acquire) != phase {
            return;
        }
        // No share begins the next phase before this share has finished this one, so `all` is
        // still valid.
        let results = share.published[(phase + 1) % 2].write();
        let mut results = results.unwrap_or_else(PoisonError::into_inner);
        (self.work).compute(index, phase, all, &mut units, &mut results);
        drop(results);
        share.done.store(phase + 1, Ordering::Release);
    }
}
