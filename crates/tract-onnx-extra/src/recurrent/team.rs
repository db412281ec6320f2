//! Threads that run the steps of a layer together.
//!
//! The sequences of a batch are split into parts that need nothing of each other, unless its units
//! are shared by more threads: into shares, for each direction. A thread keeps to a share, so that its
//! weights stay in the caches of one core, and goes on to the next step once all shares have
//! finished this one. No thread relies on another: a share that no thread has taken, or whose
//! thread stalls, is computed by those that wait for it. So a run needs no more threads than there
//! are, and no thread waits for a waiting one.
//!
//! The results depend neither on the thread that computes a share nor on how a layer is split.

use std::ops::Range;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError, RwLock, TryLockError};

use tract_onnx::tract_hir::internal::*;

use super::element::Element;
use super::packed::{Direction, PackedLayer};
use super::product::{self, Rows, block_units};
use super::step::{Sequences, Units};

/// Number of times that a thread polls the others before it yields its core: some microseconds.
const SPINS: usize = 1 << 10;

/// Number of times that it yields before it takes over another thread's work.
const PATIENCE: usize = 1 << 6;

/// The fewest multiplications of a phase that are worth a thread: a few microseconds.
const MINIMUM_MULTIPLICATIONS: usize = 1 << 16;

/// The fewest multiplications of all steps that are worth waking a second thread.
const MINIMUM_RUN: usize = 1 << 21;

/// The fewest of all steps, with activations, from which on parts of a batch take less time than all
/// of it: the steps of few sequences wait for their sums. [M60]
const MINIMUM_PARTED: usize = 1 << 24;

/// The multiplications that take as long as an activation.
const OF_ACTIVATION: usize = 16;

/// Some units of a direction, and their progress.
#[derive(Debug)]
struct Share<T> {
    is_taken: AtomicBool,
    /// The number of finished phases.
    done: AtomicUsize,
    units: Mutex<Units<T>>,
    /// The results of the latest phases: a phase reads one buffer while its successor writes the
    /// other.
    published: [RwLock<Vec<T>>; 2],
    range: Range<usize>,
    width: usize,
}

/// The memory of a run, reused by the next one, which prepares all of it anew.
#[derive(Debug)]
pub(super) struct Memory<T> {
    shares: Vec<Vec<Share<T>>>,
}

// Derived, these would ask for `T: Default`.
impl<T> Default for Memory<T> {
    fn default() -> Self {
        Self { shares: vec![] }
    }
}

impl<T> Default for Share<T> {
    fn default() -> Self {
        Self {
            is_taken: AtomicBool::default(),
            done: AtomicUsize::default(),
            units: Mutex::default(),
            published: [RwLock::default(), RwLock::default()],
            range: 0..0,
            width: 0,
        }
    }
}

/// The states and outputs of a direction.
pub(super) struct States<'a, T> {
    /// [batch, units] each.
    pub(super) initial: [Option<&'a [T]>; 2],
    pub(super) last: [Option<&'a mut [T]>; 2],
    /// One per step, in the order of the sequence: [batch, units].
    pub(super) y: Vec<&'a mut [T]>,
}

impl<T> States<'_, T> {
    /// Splits off those of the first sequences.
    fn split_off(&mut self, batch: usize, units: usize) -> Self {
        let count = batch * units;
        let [h, c] = &mut self.last;
        Self {
            initial: self
                .initial
                .each_mut()
                .map(|states| states.as_mut()?.split_off(..count)),
            last: [h, c].map(|states| states.as_mut()?.split_off_mut(..count)),
            y: (self.y.iter_mut())
                .filter_map(|states| states.split_off_mut(..count))
                .collect(),
        }
    }
}

/// A direction that runs for some sequences.
struct Running<'a, T> {
    layer: &'a PackedLayer<T>,
    direction: &'a Direction<T>,
    sequences: Sequences<'a, T>,
    shares: &'a [Share<T>],
    y: Mutex<Vec<&'a mut [T]>>,
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

impl<T: Element> Running<'_, T> {
    /// The number of phases that all shares have finished.
    fn done(&self) -> usize {
        let done = self.shares.iter();
        let done = done.map(|share| share.done.load(Ordering::Acquire)).min();
        done.unwrap_or(self.phases)
    }

    /// Runs all phases of a share. Returns when all shares are finished by any thread, or the run
    /// has failed.
    fn work(&self, own: usize) {
        let _alarm = Alarm(self.is_broken);
        if let [share] = self.shares {
            return self.work_alone(share);
        }
        let mut shared = vec![T::zero(); self.sequences.batch * self.layer.units];
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

    /// Runs all phases of the only share: no one waits for another.
    fn work_alone(&self, share: &Share<T>) {
        let mut units = lock(&share.units);
        let [mut even, mut odd] = share
            .published
            .each_ref()
            .map(|it| it.write().unwrap_or_else(PoisonError::into_inner));
        let mut y = lock(&self.y);
        for phase in 0..self.phases {
            let (shared, published) = if phase % 2 == 0 {
                (&*even, &mut *odd)
            } else {
                (&*odd, &mut *even)
            };
            let shared = Rows {
                elements: shared,
                count: self.sequences.batch,
                stride: share.width,
            };
            let result = self.layer.compute(
                self.direction,
                &mut units,
                &self.sequences,
                phase,
                shared,
                published,
            );
            if let Err(error) = result {
                lock(self.error).get_or_insert(error);
                return;
            }
            let state = Rows {
                elements: published,
                ..shared
            };
            match self.layer.phases() {
                1 => self.write(&mut y, phase, state),
                _ if phase % 2 == 1 => self.write(&mut y, phase / 2, state),
                _ => {}
            }
        }
        share.done.store(self.phases, Ordering::Release);
    }

    /// Waits until all shares have finished the phases before this one, and helps if needed;
    /// `shared` is the input of the last of these. `false` if the run has failed.
    fn wait(&self, phase: usize, shared: &[T]) -> bool {
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

    /// Collects the results of all shares after the previous phase: [batch, units].
    ///
    /// If the phase ends meanwhile, the result may be wrong, and is then unused.
    fn gather(&self, phase: usize, to: &mut [T]) {
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

    /// Computes a phase of a share, unless a thread already has.
    fn compute(
        &self,
        index: usize,
        phase: usize,
        shared: &[T],
        mut units: MutexGuard<'_, Units<T>>,
    ) {
        let share = &self.shares[index];
        if share.done.load(Ordering::Acquire) != phase {
            return;
        }
        let shared = Rows {
            elements: shared,
            count: self.sequences.batch,
            stride: self.layer.units,
        };
        // No share begins the next phase before this share has finished this one, so `shared` is
        // still valid.
        if index == 0 && phase > 0 && phase.is_multiple_of(self.layer.phases()) {
            self.write(&mut lock(&self.y), phase / self.layer.phases() - 1, shared);
        }
        let published = share.published[(phase + 1) % 2].write();
        let mut published = published.unwrap_or_else(PoisonError::into_inner);
        let result = self.layer.compute(
            self.direction,
            &mut units,
            &self.sequences,
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
    fn write(&self, y: &mut [&mut [T]], count: usize, state: Rows<'_, T>) {
        let step = if self.direction.is_backward {
            self.sequences.steps - 1 - count
        } else {
            count
        };
        if let Some(y) = y.get_mut(step) {
            self.sequences.write(step, state, self.layer.units, y);
        }
    }
}

/// Takes free shares, and runs the steps of each.
fn work<T: Element>(running: &[Running<'_, T>]) {
    for running in running {
        for (index, share) in running.shares.iter().enumerate() {
            if !share.is_taken.swap(true, Ordering::Relaxed) {
                running.work(index);
            }
        }
    }
}

/// A direction and some sequences, before they run.
struct Part<'a, T> {
    direction: &'a Direction<T>,
    sequences: Sequences<'a, T>,
    states: States<'a, T>,
    /// The number of shares of its units.
    shares: usize,
}

/// Splits a layer for so many threads.
fn parts<'a, T: Element>(
    layer: &'a PackedLayer<T>,
    sequences: Sequences<'a, T>,
    states: Vec<States<'a, T>>,
    threads: usize,
) -> Vec<Part<'a, T>> {
    let of_step = multiplications(layer, sequences.batch);
    let worth = of_step / layer.phases() / MINIMUM_MULTIPLICATIONS;
    let width = layer.blocks() * block_units(layer.units);
    let activations = sequences.batch * width * layer.cell.gates();
    let with_activations = of_step + activations * OF_ACTIVATION;
    let is_long = with_activations.saturating_mul(sequences.steps) >= MINIMUM_PARTED;
    let mut parts = vec![];
    for (index, mut states) in states.into_iter().enumerate() {
        // The first directions get the remaining threads.
        let directions = layer.directions.len();
        let threads = (threads + directions - 1 - index) / directions;
        let of_units = threads.clamp(1, worth.clamp(1, layer.blocks()));
        let of_batch = batch_parts(sequences.batch, if is_long { threads } else { 1 });
        let (batches, shares) = match of_batch > of_units {
            true => (of_batch, 1),
            false => (1, of_units),
        };
        for part in 0..batches {
            let [first, end] = [part, part + 1].map(|it| sequences.batch * it / batches);
            let batch = end - first;
            parts.push(Part {
                direction: &layer.directions[index],
                sequences: Sequences {
                    first,
                    batch,
                    ..sequences
                },
                states: states.split_off(batch, layer.units),
                shares,
            });
        }
    }
    parts
}

/// Returns the number of parts of a batch for so many threads, none of which computes other sums than
/// the whole.
fn batch_parts(batch: usize, threads: usize) -> usize {
    let is_alike = |parts: &usize| {
        let sizes = [batch / parts, batch.div_ceil(*parts)];
        sizes.into_iter().all(product::sums_as_many)
    };
    (2..=threads).rev().find(is_alike).unwrap_or(1)
}

/// Returns the number of multiplications with the states in a step of a direction.
fn multiplications<T>(layer: &PackedLayer<T>, batch: usize) -> usize {
    batch * layer.units * layer.cell.gates() * layer.units
}

/// Runs all directions, with as many threads as are available and worthwhile.
///
/// `y` has to be zeros: nothing is written for invalid steps.
pub(super) fn run<T: Element>(
    layer: &PackedLayer<T>,
    sequences: Sequences<'_, T>,
    states: Vec<States<'_, T>>,
    memory: &mut Memory<T>,
    threads: &Threads,
) -> TractResult<()> {
    let phases = sequences.steps * layer.phases();
    // A short run is not worth another thread.
    let all = multiplications(layer, sequences.batch)
        .saturating_mul(sequences.steps)
        .saturating_mul(layer.directions.len());
    let available = if all < MINIMUM_RUN {
        1
    } else {
        threads.count()
    };
    let mut parts = parts(layer, sequences, states, available);
    memory.shares.resize_with(parts.len(), Vec::new);
    let mut workers = 0;
    for (shares, part) in std::iter::zip(&mut memory.shares, &parts) {
        let count = part.shares;
        shares.resize_with(count, Share::default);
        workers += count;
        let blocks = layer.blocks();
        for (at, share) in shares.iter_mut().enumerate() {
            let blocks = blocks * at / count..blocks * (at + 1) / count;
            let units = share.units.get_mut();
            let units = units.unwrap_or_else(PoisonError::into_inner);
            layer.prepare(part.direction, units, blocks, &part.sequences);
            *share.is_taken.get_mut() = false;
            *share.done.get_mut() = 0;
            (share.range, share.width) = units.place();
            units.start(part.states.initial, layer.units);
            for published in &mut share.published {
                let published = published.get_mut();
                let published = published.unwrap_or_else(PoisonError::into_inner);
                published.clone_from(&units.h);
            }
        }
    }
    let is_broken = AtomicBool::new(false);
    let error = Mutex::new(None);
    let running = std::iter::zip(&memory.shares, &mut parts);
    let running = running.map(|(shares, part)| Running {
        layer,
        direction: part.direction,
        sequences: part.sequences,
        shares,
        y: Mutex::new(std::mem::take(&mut part.states.y)),
        phases,
        is_broken: &is_broken,
        error: &error,
    });
    let running: TVec<Running<'_, T>> = running.collect();
    threads.run(workers.min(available), || work(&running));
    for (running, part) in std::iter::zip(&running, &mut parts) {
        let Part {
            sequences, states, ..
        } = part;
        let mut last = vec![T::zero(); sequences.batch * layer.units];
        running.gather(phases, &mut last);
        if sequences.steps > 0 {
            let state = Rows {
                elements: &last,
                count: sequences.batch,
                stride: layer.units,
            };
            running.write(&mut lock(&running.y), sequences.steps - 1, state);
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

    /// Runs the same function on several threads, including this one.
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

#[cfg(test)]
mod tests {
    use super::batch_parts;

    #[test]
    fn parts_are_alike() {
        let parts = [
            (7, 2),
            (8, 2),
            (9, 2),
            (12, 3),
            (16, 1),
            (32, 8),
            (33, 16),
            (0, 4),
        ];
        let found = parts.map(|(batch, threads)| batch_parts(batch, threads));
        assert_eq!(found, [1, 2, 1, 3, 1, 8, 4, 1]);
    }
}
