//! Threads that go through the steps of a layer together.
//!
//! The units of each direction are cut into shares. A thread keeps to a share, so the
//! share's weights stay in the caches of one core, and goes on to the next step once all
//! shares are done with this one. Nobody relies on another thread to be there: a share that
//! no thread has taken, or whose thread does not come on, is computed by those that wait for
//! it. So it takes no more threads than there are, and no thread waits for one that waits.
//!
//! What is computed does not depend on who computes it, nor on how units are cut.

use std::ops::Range;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError, RwLock, TryLockError};

use tract_onnx::tract_hir::internal::*;

use super::packed::{Direction, PackedLayer, Sequence, Units};

/// How often a thread looks whether the others are done before it gives up its core for a
/// while: some microseconds.
const SPINS: usize = 1 << 10;

/// How often it gives up its core before it does what another thread had begun with.
const PATIENCE: usize = 1 << 6;

/// The fewest multiplications of a phase that are worth a thread: a few microseconds.
const MINIMUM_MULTIPLICATIONS: usize = 1 << 17;

/// The fewest multiplications of all steps that are worth a second thread, which has to be
/// woken.
const MINIMUM_RUN: usize = 1 << 21;

/// Some units of a direction, and how far they are.
#[derive(Debug, Default)]
struct Share {
    is_taken: AtomicBool,
    /// The phases that are done.
    done: AtomicUsize,
    units: Mutex<Units>,
    /// What the latest phases gave, in turns: a phase reads one while its successor is
    /// written to the other.
    published: [RwLock<Vec<f32>>; 2],
    range: Range<usize>,
    width: usize,
}

/// The memory of a run, which the next one takes over.
#[derive(Debug, Default)]
pub(super) struct Memory {
    shares: Vec<Vec<Share>>,
}

/// Where the states of a direction come from and go to.
pub(super) struct States<'a> {
    /// [batch, units] each.
    pub(super) initial: [Option<&'a [f32]>; 2],
    pub(super) last: [Option<&'a mut [f32]>; 2],
    /// Of each step, in the order of the sequence: [batch, units].
    pub(super) y: Vec<&'a mut [f32]>,
}

/// A direction as it runs.
struct Running<'a> {
    layer: &'a PackedLayer,
    direction: &'a Direction,
    of: Sequence<'a>,
    shares: &'a [Share],
    y: Mutex<Vec<&'a mut [f32]>>,
    phases: usize,
    is_broken: &'a AtomicBool,
    error: &'a Mutex<Option<TractError>>,
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

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Running<'_> {
    /// The phases that all shares are done with.
    fn done(&self) -> usize {
        let done = self.shares.iter();
        let done = done.map(|share| share.done.load(Ordering::Acquire)).min();
        done.unwrap_or(self.phases)
    }

    /// Goes through the phases with a share of its own; returns when all are done by someone,
    /// or the run has failed.
    fn work(&self, own: usize) {
        let _alarm = Alarm(self.is_broken);
        let mut shared = vec![0.0; self.of.batch * self.layer.units];
        let mut phase = self.done();
        while phase < self.phases {
            self.gather(phase, &mut shared);
            self.compute(own, phase, &shared, lock(&self.shares[own].units));
            phase += 1;
            if !self.wait(phase, &shared) {
                return;
            }
        }
    }

    /// Waits until all shares are done with the phases before one, and helps if need be:
    /// `shared` is what the last of these read. `false` if the run has failed.
    fn wait(&self, phase: usize, shared: &[f32]) -> bool {
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
                        Ok(units) => self.compute(index, phase - 1, shared, units),
                        Err(TryLockError::Poisoned(_) | TryLockError::WouldBlock) => {}
                    }
                }
            }
            looks += 1;
            if looks < SPINS {
                std::hint::spin_loop();
            } else {
                std::thread::yield_now();
            }
        }
    }

    /// What all shares gave after the phase before: [batch, units].
    ///
    /// It may be something else if the phase is over meanwhile, and is then of no use.
    fn gather(&self, phase: usize, to: &mut [f32]) {
        let units = self.layer.units;
        for share in self.shares {
            let from = share.published[phase % 2].read();
            let from = from.unwrap_or_else(PoisonError::into_inner);
            let rows = std::iter::zip(to.chunks_exact_mut(units), from.chunks_exact(share.width));
            for (to, from) in rows {
                to[share.range.clone()].copy_from_slice(&from[..share.range.len()]);
            }
        }
    }

    /// Computes a phase of a share, if nobody has.
    fn compute(
        &self,
        index: usize,
        phase: usize,
        shared: &[f32],
        mut units: MutexGuard<'_, Units>,
    ) {
        let share = &self.shares[index];
        if share.done.load(Ordering::Acquire) != phase {
            return;
        }
        // Nobody is further than this share, so what was gathered is what it was.
        if index == 0 && phase > 0 && phase.is_multiple_of(self.layer.phases()) {
            self.write(phase / self.layer.phases() - 1, shared);
        }
        let published = share.published[(phase + 1) % 2].write();
        let mut published = published.unwrap_or_else(PoisonError::into_inner);
        let result = self.layer.compute(
            self.direction,
            &mut units,
            &self.of,
            phase,
            shared,
            &mut published,
        );
        drop(published);
        if let Err(error) = result {
            lock(self.error).get_or_insert(error);
            self.is_broken.store(true, Ordering::Release);
        }
        share.done.store(phase + 1, Ordering::Release);
    }

    /// Writes the outputs of a step.
    fn write(&self, count: usize, state: &[f32]) {
        let step = if self.direction.is_backward {
            self.of.steps - 1 - count
        } else {
            count
        };
        if let Some(y) = lock(&self.y).get_mut(step) {
            self.of.write(step, state, y);
        }
    }
}

/// Takes shares that no thread has, and goes through the steps with each.
fn work(running: &[Running<'_>]) {
    for running in running {
        for (index, share) in running.shares.iter().enumerate() {
            if !share.is_taken.swap(true, Ordering::Relaxed) {
                running.work(index);
            }
        }
    }
}

/// Runs all directions, by as many threads as there are and as are worth it.
///
/// `y` has to be zeros: nothing is written for steps that do not count.
pub(super) fn run(
    layer: &PackedLayer,
    of: Sequence<'_>,
    mut states: Vec<States<'_>>,
    memory: &mut Memory,
    threads: &Threads,
) -> TractResult<()> {
    let phases = of.steps * layer.phases();
    let of_step = of.batch * layer.units * layer.cell.gates() * layer.units;
    let multiplications = of_step / layer.phases();
    let worth = (multiplications / MINIMUM_MULTIPLICATIONS).clamp(1, layer.blocks());
    let directions = layer.directions.len();
    // What is soon done is not worth another thread.
    let all = of_step
        .saturating_mul(of.steps)
        .saturating_mul(layer.directions.len());
    let available = if all < MINIMUM_RUN {
        1
    } else {
        threads.count()
    };
    memory.shares.resize_with(directions, Vec::new);
    let mut workers = 0;
    for (index, shares) in memory.shares.iter_mut().enumerate() {
        // The first of them get what is left over.
        let available = (available + directions - 1 - index) / directions;
        let count = available.clamp(1, worth);
        shares.resize_with(count, Share::default);
        workers += count;
        let blocks = layer.blocks();
        let state = &mut states[index];
        for (at, share) in shares.iter_mut().enumerate() {
            let blocks = blocks * at / count..blocks * (at + 1) / count;
            let units = share.units.get_mut();
            let units = units.unwrap_or_else(PoisonError::into_inner);
            layer.prepare(units, blocks, &of);
            *share.is_taken.get_mut() = false;
            *share.done.get_mut() = 0;
            (share.range, share.width) = units.place();
            units.start(state.initial, layer.units);
            for published in &mut share.published {
                let published = published.get_mut();
                let published = published.unwrap_or_else(PoisonError::into_inner);
                published.clone_from(&units.h);
            }
        }
    }
    let is_broken = AtomicBool::new(false);
    let error = Mutex::new(None);
    let running = std::iter::zip(
        &layer.directions,
        std::iter::zip(&memory.shares, &mut states),
    );
    let running = running.map(|(direction, (shares, states))| Running {
        layer,
        direction,
        of,
        shares,
        y: Mutex::new(std::mem::take(&mut states.y)),
        phases,
        is_broken: &is_broken,
        error: &error,
    });
    let running: TVec<Running<'_>> = running.collect();
    // What is soon done is not worth another thread.
    threads.run(workers.min(available), || work(&running));
    for (running, states) in std::iter::zip(&running, &mut states) {
        let mut last = vec![0.0; of.batch * layer.units];
        running.gather(phases, &mut last);
        if of.steps > 0 {
            running.write(of.steps - 1, &last);
        }
        let [h, c] = &mut states.last;
        if let Some(h) = h {
            h.copy_from_slice(&last);
        }
        if let Some(to) = c {
            for share in running.shares {
                lock(&share.units).store_cell(layer.units, to);
            }
        }
    }
    drop(running);
    error
        .into_inner()
        .unwrap_or_else(PoisonError::into_inner)
        .map_or(Ok(()), Err)
}

/// The threads of tract's executor.
pub(super) struct Threads {
    #[cfg(feature = "multithread")]
    executor: tract_linalg::multithread::Executor,
}

impl Threads {
    pub(super) fn current() -> Self {
        Self {
            #[cfg(feature = "multithread")]
            executor: tract_linalg::multithread::current_tract_executor(),
        }
    }

    #[cfg(not(feature = "multithread"))]
    #[expect(clippy::unused_self, reason = "with threads it is used")]
    fn count(&self) -> usize {
        1
    }

    #[cfg(not(feature = "multithread"))]
    #[expect(clippy::unused_self, reason = "with threads it is used")]
    fn run(&self, _workers: usize, work: impl Fn() + Sync) {
        work();
    }

    #[cfg(feature = "multithread")]
    fn count(&self) -> usize {
        use tract_linalg::multithread::Executor;
        match &self.executor {
            Executor::SingleThread => 1,
            Executor::MultiThread(pool) => pool.current_num_threads(),
            Executor::RayonGlobal => rayon::current_num_threads(),
        }
    }

    /// Has some threads do the same, this one among them.
    #[cfg(feature = "multithread")]
    fn run(&self, workers: usize, work: impl Fn() + Sync) {
        use tract_linalg::multithread::Executor;
        fn all<'a, F: Fn() + Sync>(scope: &rayon::Scope<'a>, workers: usize, work: &'a F) {
            for _ in 1..workers {
                scope.spawn(|_| work());
            }
            work();
        }
        match &self.executor {
            _ if workers < 2 => work(),
            Executor::SingleThread => work(),
            Executor::MultiThread(pool) => pool.in_place_scope(|scope| all(scope, workers, &work)),
            Executor::RayonGlobal => rayon::in_place_scope(|scope| all(scope, workers, &work)),
        }
    }
}
