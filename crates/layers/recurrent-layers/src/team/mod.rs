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

mod shares;

use std::ops::Range;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, OnceLock, PoisonError};
// For `shares`, which the model of its threads gives others.
use std::{hint, sync, thread};

use crate::element::Element;
use crate::error::Error;
use crate::memory;
use crate::packed::{Direction, PackedLayer};
use crate::panels::block_units;
use crate::place::{self, Place};
use crate::product::{self, Rows};
use crate::sequences::Sequences;
use crate::threads::{Stop, Threads};
use crate::units::Units;
use shares::{Shares, Work, lock};

/// Number of times that a thread polls the others before it yields its core: some microseconds.
const SPINS: usize = 1 << 10;

/// Number of times that it yields before it takes over another thread's work.
const PATIENCE: usize = 1 << 6;

/// The fewest multiplications of a phase that are worth a thread: a few microseconds.
const MINIMUM_MULTIPLICATIONS: usize = 1 << 15;

/// The fewest multiplications of all steps, those that take as long as to read weights included, that are worth
/// waking a second thread.
const MINIMUM_RUN: usize = 1 << 21;

/// The multiplications that take as long as to read a weight, which one sequence waits for.
const OF_WEIGHT: usize = 8;

/// The fewest of all steps, with activations, from which on parts of a batch take less time than all
/// of it: the steps of few sequences wait for their sums. [M60]
const MINIMUM_PARTED: usize = 1 << 24;

/// The multiplications that take as long as an activation.
const OF_ACTIVATION: usize = 16;

/// The multiplications after which it is asked whether the run goes on: some tenths of a millisecond.
const BETWEEN_CHECKS: usize = 1 << 20;

/// Some units of a direction, and their progress.
type Share<T> = shares::Share<Units<T>, Vec<T>>;

/// The memory of a run, which the next one uses again.
#[derive(Debug)]
pub struct Memory<T> {
    shares: Vec<Vec<Share<T>>>,
    /// The results of all units: [batch, units].
    all: Vec<T>,
}

// Derived, it would ask for `T: Default`.
impl<T> Default for Memory<T> {
    fn default() -> Self {
        Self {
            shares: vec![],
            all: vec![],
        }
    }
}

impl<T: Element> Memory<T> {
    /// Makes room for the states of a batch, before anything is computed with its size.
    pub(crate) fn make_room(&mut self, batch: usize, units: usize) -> Result<(), Error> {
        memory::clear(&mut self.all, &[batch, units])
    }
}

/// The states and outputs of some sequences of a direction.
///
/// An output is a list of slices, each of one or more rows of units: those of one sequence after
/// another, or those of one step after another of a sequence, and then of the next.
pub(crate) struct States<'a, T, P> {
    /// A row for each sequence.
    pub(crate) initial: [Option<Rows<'a, T>>; 2],
    pub(crate) last: [Vec<&'a mut [P]>; 2],
    /// Steps are in the order of the sequence.
    pub(crate) y: Vec<&'a mut [P]>,
}

// Derived, it would ask for `T: Default`.
impl<T, P> Default for States<'_, T, P> {
    fn default() -> Self {
        Self {
            initial: [None, None],
            last: [vec![], vec![]],
            y: vec![],
        }
    }
}

/// A direction that runs for some sequences.
struct Running<'a, T, P> {
    layer: &'a PackedLayer<T>,
    direction: &'a Direction<T>,
    sequences: Sequences<'a, T>,
    shares: &'a [Share<T>],
    y: Mutex<Vec<&'a mut [P]>>,
    phases: usize,
    is_broken: &'a AtomicBool,
    stop: Stopping<'a>,
}

/// What may end a run, and what has.
#[derive(Clone, Copy)]
struct Stopping<'a> {
    stop: Option<&'a dyn Stop>,
    ended: &'a OnceLock<Error>,
    /// The number of phases after which it is asked again.
    every: usize,
}

impl<'a> Stopping<'a> {
    fn new<T: Element>(
        layer: &PackedLayer<T>,
        batch: usize,
        stop: Option<&'a dyn Stop>,
        ended: &'a OnceLock<Error>,
    ) -> Self {
        let phase = cost_of_step(layer, batch) / layer.phases();
        let every = (BETWEEN_CHECKS / phase.max(1)).max(1);
        Self { stop, ended, every }
    }

    /// Whether the run ends before this phase.
    fn is_before(&self, phase: usize) -> bool {
        let Some(stop) = self.stop else { return false };
        let is_wanted = phase.is_multiple_of(self.every) && stop.is_wanted();
        if is_wanted {
            self.end(Error::Stopped);
        }
        is_wanted
    }

    /// Ends the run, which has this error unless it has one.
    fn end(&self, error: Error) {
        let _ = self.ended.set(error);
    }
}

impl<T: Element, P: Place<T>> Work for Running<'_, T, P> {
    type Units = Units<T>;
    /// [batch, width].
    type Results = Vec<T>;
    /// [batch, units].
    type All = Vec<T>;

    fn room(&self) -> Option<Vec<T>> {
        let room = memory::zeros(&[self.sequences.batch, self.layer.units]);
        room.map_err(|error| self.stop.end(error)).ok()
    }

    fn collect(&self, share: &Share<T>, from: &Vec<T>, to: &mut Vec<T>) {
        let units = self.layer.units;
        let rows = std::iter::zip(to.chunks_exact_mut(units), from.chunks_exact(share.width));
        for (to, from) in rows {
            to[share.range.clone()].copy_from_slice(&from[..share.range.len()]);
        }
    }

    fn is_stopped(&self, phase: usize) -> bool {
        self.stop.is_before(phase)
    }

    fn compute(
        &self,
        share: usize,
        phase: usize,
        all: &Vec<T>,
        units: &mut Units<T>,
        results: &mut Vec<T>,
    ) {
        let all = Rows {
            elements: all,
            count: self.sequences.batch,
            stride: self.layer.units,
        };
        if share == 0 && phase > 0 && phase.is_multiple_of(self.layer.phases()) {
            self.write(&mut lock(&self.y), phase / self.layer.phases() - 1, all);
        }
        let (layer, sequences) = (self.layer, &self.sequences);
        layer.compute(self.direction, units, sequences, phase, all, results);
    }
}

impl<T: Element, P: Place<T>> Running<'_, T, P> {
    fn shares(&self) -> Shares<'_, Self> {
        Shares {
            work: self,
            shares: self.shares,
            phases: self.phases,
            is_broken: self.is_broken,
        }
    }

    /// Takes free shares, and runs the steps of each.
    fn work(&self) {
        match self.shares {
            [share] => self.work_alone(share),
            _ => self.shares().run(),
        }
    }

    /// Runs all phases of the only share, if it is free: no one waits for another.
    fn work_alone(&self, share: &Share<T>) {
        if !share.take() {
            return;
        }
        let mut units = lock(&share.units);
        let [mut even, mut odd] = share
            .published
            .each_ref()
            .map(|it| it.write().unwrap_or_else(PoisonError::into_inner));
        let mut y = lock(&self.y);
        for phase in 0..self.phases {
            if self.stop.is_before(phase) {
                return;
            }
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
            let (layer, sequences) = (self.layer, &self.sequences);
            layer.compute(
                self.direction,
                &mut units,
                sequences,
                phase,
                shared,
                published,
            );
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

    /// Writes the outputs of a step.
    fn write(&self, y: &mut [&mut [P]], count: usize, state: Rows<'_, T>) {
        let step = if self.direction.is_backward {
            self.sequences.steps - 1 - count
        } else {
            count
        };
        self.sequences.write(step, state, self.layer.units, y);
    }

    /// Writes the outputs of the last step, if several shares made it, and the last states.
    fn write_last(&self, last: &mut [Vec<&mut [P]>; 2], all: &mut Vec<T>) {
        let units = self.layer.units;
        // There is room for the whole batch.
        all.resize(self.sequences.batch * units, T::zero());
        self.shares().gather(self.phases, all);
        let state = Rows {
            elements: all,
            count: self.sequences.batch,
            stride: units,
        };
        if self.shares.len() > 1 && self.sequences.steps > 0 {
            self.write(&mut lock(&self.y), self.sequences.steps - 1, state);
        }
        let [h, c] = last;
        self.store(h, state, 0..units);
        for share in self.shares {
            self.store(c, lock(&share.units).cell(), share.range.clone());
        }
    }

    /// Stores some units of the last states.
    fn store(&self, to: &mut [&mut [P]], from: Rows<'_, T>, range: Range<usize>) {
        let rows = to.iter_mut();
        let rows = rows.flat_map(|rows| rows.chunks_exact_mut(self.layer.units));
        for (item, to) in rows.enumerate() {
            if self.sequences.has_steps(item) {
                let from = &from.elements[item * from.stride..][..range.len()];
                place::copy(&mut to[range.clone()], from);
            } else {
                place::fill(to, T::zero());
            }
        }
    }
}

/// A direction and some sequences, before they run.
pub(crate) struct Part<'a, T, P> {
    /// The index of the direction.
    pub(crate) index: usize,
    pub(crate) sequences: Sequences<'a, T>,
    pub(crate) states: States<'a, T, P>,
    /// The number of shares of its units.
    shares: usize,
}

impl<T, P> Part<'_, T, P> {
    /// Whether it has this sequence.
    pub(crate) fn has(&self, item: usize) -> bool {
        let Sequences { first, batch, .. } = self.sequences;
        (first..first + batch).contains(&item)
    }
}

/// Splits a layer for so many threads: the batch of the first direction, then that of the next.
/// States are none yet.
pub(crate) fn parts<'a, T: Element, P>(
    layer: &PackedLayer<T>,
    sequences: Sequences<'a, T>,
    threads: usize,
) -> Vec<Part<'a, T, P>> {
    let of_step = multiplications(layer, sequences.batch);
    let worth = of_step / layer.phases() / MINIMUM_MULTIPLICATIONS;
    let cost = cost_of_step(layer, sequences.batch);
    let is_long = cost.saturating_mul(sequences.steps) >= MINIMUM_PARTED;
    let directions = layer.directions.len();
    let mut parts = vec![];
    for index in 0..directions {
        // The first directions get the remaining threads.
        let threads = (threads + directions - 1 - index) / directions;
        let of_units = threads.clamp(1, worth.clamp(1, layer.blocks()));
        let of_batch = batch_parts(sequences.batch, if is_long { threads } else { 1 });
        let (batches, shares) = match of_batch > of_units {
            true => (of_batch, 1),
            false => (1, of_units),
        };
        for part in 0..batches {
            let [first, end] = [part, part + 1].map(|it| sequences.batch * it / batches);
            parts.push(Part {
                index,
                sequences: Sequences {
                    first,
                    batch: end - first,
                    ..sequences
                },
                states: States::default(),
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
    let of_item = layer.units * layer.cell.gates() * layer.units;
    batch.saturating_mul(of_item)
}

/// Returns the multiplications of a step of a direction that take as long as it does with activations.
fn cost_of_step<T: Element>(layer: &PackedLayer<T>, batch: usize) -> usize {
    let width = layer.blocks() * block_units(layer.units);
    let activations = batch * width * layer.cell.gates();
    multiplications(layer, batch) + activations * OF_ACTIVATION
}

/// Returns the number of threads that are worthwhile for a run, of those that are available.
pub(crate) fn worthwhile<T>(
    layer: &PackedLayer<T>,
    [steps, batch]: [usize; 2],
    threads: &dyn Threads,
) -> usize {
    let of_inputs = layer.features * layer.cell.gates() * layer.units;
    let weights = multiplications(layer, 1) + of_inputs;
    let all = weights
        .saturating_mul(batch.saturating_add(OF_WEIGHT))
        .saturating_mul(steps)
        .saturating_mul(layer.directions.len());
    match all < MINIMUM_RUN {
        true => 1,
        false => threads.count().max(1),
    }
}

/// Runs all parts of all directions, with as many threads as are [worthwhile].
pub(crate) fn run<T: Element, P: Place<T>>(
    layer: &PackedLayer<T>,
    mut parts: Vec<Part<'_, T, P>>,
    memory: &mut Memory<T>,
    available: usize,
    threads: &dyn Threads,
) -> Result<(), Error> {
    memory.shares.resize_with(parts.len(), Vec::new);
    let (is_broken, ended) = (AtomicBool::new(false), OnceLock::new());
    let mut running = vec![];
    let mut workers = 0;
    for (shares, part) in std::iter::zip(&mut memory.shares, &mut parts) {
        workers += part.shares;
        prepare(layer, part, shares)?;
        running.push(Running {
            layer,
            direction: &layer.directions[part.index],
            sequences: part.sequences,
            shares,
            y: Mutex::new(std::mem::take(&mut part.states.y)),
            phases: part.sequences.steps * layer.phases(),
            is_broken: &is_broken,
            stop: Stopping::new(layer, part.sequences.batch, threads.stop(), &ended),
        });
    }
    let work = || running.iter().for_each(Running::work);
    match workers.min(available) {
        0 | 1 => work(),
        workers => {
            threads.run(workers, &work);
            // The host may have called it too rarely.
            work();
        }
    }
    if let Some(error) = ended.get() {
        return Err(error.clone());
    }
    assert!(
        !is_broken.load(Ordering::Acquire),
        "a thread of the layer's run panicked"
    );
    for (running, part) in std::iter::zip(&running, &mut parts) {
        running.write_last(&mut part.states.last, &mut memory.all);
    }
    Ok(())
}

/// Prepares the shares of a part.
fn prepare<T: Element, P>(
    layer: &PackedLayer<T>,
    part: &Part<'_, T, P>,
    shares: &mut Vec<Share<T>>,
) -> Result<(), Error> {
    let (count, blocks) = (part.shares, layer.blocks());
    shares.resize_with(count, Share::default);
    for (at, share) in shares.iter_mut().enumerate() {
        let blocks = blocks * at / count..blocks * (at + 1) / count;
        let units = share.units.get_mut();
        let units = units.unwrap_or_else(PoisonError::into_inner);
        let direction = &layer.directions[part.index];
        units.prepare(layer, direction, blocks, &part.sequences)?;
        *share.is_taken.get_mut() = false;
        *share.done.get_mut() = 0;
        (share.range, share.width) = units.place();
        units.start(part.states.initial);
        for published in &mut share.published {
            let published = published.get_mut();
            let published = published.unwrap_or_else(PoisonError::into_inner);
            memory::clear(published, &[units.h.len()])?;
            published.extend_from_slice(&units.h);
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::{batch_parts, worthwhile};
    use crate::threads::Threads;
    use crate::{Cell, Layer, Weights};

    /// Two threads, which nothing asks to run.
    struct Two;

    impl Threads for Two {
        fn count(&self) -> usize {
            2
        }

        fn run(&self, _workers: usize, work: &(dyn Fn() + Sync)) {
            work();
        }
    }

    #[test]
    fn weights_that_one_sequence_waits_for_are_shared() {
        let threads = |units, sizes| {
            let layer = Layer::new(Cell::Rnn, units, units, &[false]);
            let zeros = vec![0.0_f32; units * units];
            let weights = Weights {
                w: &zeros,
                r: &zeros,
                b: None,
                p: None,
            };
            worthwhile(&layer.pack(&weights).unwrap(), sizes, &Two)
        };
        let sizes = [(256, [1, 1]), (512, [1, 1]), (64, [1, 200]), (64, [1, 300])];
        let found = sizes.map(|(units, sizes)| threads(units, sizes));
        assert_eq!(found, [1, 2, 1, 2]);
    }

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
