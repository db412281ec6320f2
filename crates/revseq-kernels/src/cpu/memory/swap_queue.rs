//! Runs of packed elements that change places where they lie, in pieces that are
//! prefetched a while before.

use std::marker::PhantomData;

use super::direction::{Direction, swap_vectors};
use super::prefetch::{
    L1_DISTANCE, L2_DISTANCE, PrefetchQueue, prefetch_l1, prefetch_l2, prefetch_range,
};
use crate::cpu::simd::{LANE, SimdTask, V128, Vector};

/// The most of a run that is exchanged at once, and half of the most that is
/// reversed, in bytes.
const PIECE_BYTES: usize = 2 << 10;

/// Runs of less are short, in bytes.
const SHORT_RUN: usize = 1 << 10;

/// How runs beyond the caches are prefetched.
#[derive(Clone, Copy)]
enum PrefetchBy {
    /// Short ones as wholes, of so many bytes, into the first level: a branch on how far
    /// a length reaches is often mispredicted.
    WholeL1(usize),
    /// As far as their lengths reach, into the second level alone.
    PrefixL2,
}

/// Exchanges runs in the order of `D`, and prefetches each a while before.
pub(crate) struct SwapQueue<D> {
    /// None if they lie in the caches.
    prefetched: Option<PrefetchBy>,
    queue: PrefetchQueue<QueuedSwap>,
    direction: PhantomData<D>,
}

/// Two runs that change places, or one that is reversed where it is.
#[derive(Clone, Copy)]
struct QueuedSwap {
    one: *mut u8,
    /// None if it is `one` itself that is reversed.
    other: Option<*mut u8>,
    /// Those of one run.
    bytes: usize,
}

impl<D: Direction> SwapQueue<D> {
    /// For runs of at most `bytes` bytes, beyond the caches if `prefetches`.
    pub(crate) fn new(bytes: usize, prefetches: bool) -> Self {
        let (prefetched, distance) = match bytes {
            _ if !prefetches => (None, 0),
            ..SHORT_RUN => (Some(PrefetchBy::WholeL1(bytes)), L1_DISTANCE),
            _ => (Some(PrefetchBy::PrefixL2), L2_DISTANCE),
        };
        Self {
            prefetched,
            queue: PrefetchQueue::new(bytes.min(2 * PIECE_BYTES), distance, distance),
            direction: PhantomData,
        }
    }

    /// The most of a run that is exchanged at once.
    #[inline(always)]
    fn piece(&self) -> usize {
        match self.prefetched {
            None => usize::MAX / 2,
            Some(_) => PIECE_BYTES,
        }
    }

    /// Exchanges two runs now or later.
    ///
    /// # Safety
    /// Until [`finish`](Self::finish) both are readable and writable for `bytes`,
    /// which are whole elements, and they do not overlap.
    #[inline(always)]
    pub(crate) unsafe fn exchange<V: Vector>(
        &mut self,
        one: *mut u8,
        other: *mut u8,
        bytes: usize,
    ) {
        let mut at = 0;
        while at < bytes {
            let part = self.piece().min(bytes - at);
            let swap = QueuedSwap {
                one: one.wrapping_add(at),
                other: Some(other.wrapping_add(D::part(at, part, bytes))),
                bytes: part,
            };
            // SAFETY: a part lies in its run, and the two runs do not overlap.
            unsafe { self.push::<V>(swap) };
            at += part;
        }
    }

    /// Puts the elements of a run in the order of `D`, now or later.
    ///
    /// # Safety
    /// Until [`finish`](Self::finish) it is readable and writable for `bytes`,
    /// which are whole elements.
    #[inline(always)]
    pub(crate) unsafe fn reverse_in_place<V: Vector>(&mut self, run: *mut u8, bytes: usize) {
        let (mut start, mut end) = (0, bytes);
        // SAFETY: each part lies between start and end, and no two overlap.
        unsafe {
            while end - start > 2 * self.piece() {
                end -= PIECE_BYTES;
                self.push::<V>(QueuedSwap {
                    one: run.wrapping_add(start),
                    other: Some(run.wrapping_add(end)),
                    bytes: PIECE_BYTES,
                });
                start += PIECE_BYTES;
            }
            self.push::<V>(QueuedSwap {
                one: run.wrapping_add(start),
                other: None,
                bytes: end - start,
            });
        }
    }

    /// Adds a swap, and does the oldest if there are enough.
    ///
    /// # Safety
    /// As for [`exchange`](Self::exchange).
    #[inline(always)]
    unsafe fn push<V: Vector>(&mut self, swap: QueuedSwap) {
        let due = match self.prefetched {
            None => Some(swap),
            Some(prefetched) => {
                swap.prefetch(prefetched);
                self.queue.push(swap).map(|(oldest, _)| oldest)
            }
        };
        if let Some(due) = due {
            // SAFETY: the runs of a swap in the queue are valid until `finish`.
            unsafe { due.run::<V, D>() };
        }
    }

    /// Exchanges what has not been exchanged yet.
    ///
    /// # Safety
    /// As for [`exchange`](Self::exchange).
    #[inline(always)]
    pub(crate) unsafe fn finish<V: Vector>(&mut self) {
        if self.prefetched.is_some() {
            // SAFETY: the runs that are left are valid, as `finish` is not over.
            unsafe { V::run_outlined(DrainSwaps(self)) };
        }
    }
}

/// What is left of swaps.
struct DrainSwaps<'a, D>(&'a mut SwapQueue<D>);

impl<D: Direction> SimdTask for DrainSwaps<'_, D> {
    /// # Safety
    /// As [`SwapQueue::finish`].
    #[inline(always)]
    unsafe fn run<V: Vector>(self) {
        while let Some(swap) = self.0.queue.pop() {
            // SAFETY: the runs of a swap in the queue are valid until `finish`.
            unsafe { swap.run::<V, D>() };
        }
    }
}

impl QueuedSwap {
    /// Prefetches its runs.
    #[inline(always)]
    fn prefetch(self, prefetched: PrefetchBy) {
        for run in [Some(self.one), self.other].into_iter().flatten() {
            match prefetched {
                PrefetchBy::WholeL1(bytes) => prefetch_range(run, bytes, prefetch_l1),
                PrefetchBy::PrefixL2 => prefetch_range(run, self.bytes, prefetch_l2),
            }
        }
    }

    /// Does it.
    ///
    /// # Safety
    /// As for [`SwapQueue::exchange`].
    #[inline(always)]
    unsafe fn run<V: Vector, D: Direction>(self) {
        // SAFETY: both runs are valid for `bytes` and do not overlap.
        unsafe {
            match self.other {
                Some(other) => exchange::<V, D>(self.one, other, self.bytes),
                None => D::reverse_in_place::<V>(self.one, self.bytes),
            }
        }
    }
}

/// Exchanges two runs in the order of `D`.
///
/// # Safety
/// As for [`SwapQueue::exchange`].
#[inline(always)]
pub(crate) unsafe fn exchange<V: Vector, D: Direction>(one: *mut u8, other: *mut u8, bytes: usize) {
    /// By vectors, the last one over the end of the one before it.
    ///
    /// # Safety
    /// As [`exchange`]; `bytes` is at least a vector.
    #[inline(always)]
    unsafe fn vectors<V: Vector, D: Direction>(one: *mut u8, other: *mut u8, bytes: usize) {
        let last = bytes - V::BYTES;
        let mut at = 0;
        // SAFETY: every vector ends within the bytes. The last ones are read before
        // what they lie over is written.
        unsafe {
            let ends = (one.add(last), other.add(D::part(last, V::BYTES, bytes)));
            let vectors = (
                D::load::<V>(ends.1, V::BYTES, 0),
                D::load::<V>(ends.0, V::BYTES, 0),
            );
            while at < last {
                let place = D::part(at, V::BYTES, bytes);
                swap_vectors::<V, D>(one.add(at), other.add(place));
                at += V::BYTES;
            }
            vectors.0.store(ends.0);
            vectors.1.store(ends.1);
        }
    }
    // SAFETY: both runs are valid for `bytes`, which are at least as wide as each branch needs.
    unsafe {
        if bytes >= V::BYTES {
            vectors::<V, D>(one, other, bytes);
        } else if bytes >= V::Half::BYTES {
            vectors::<V::Half, D>(one, other, bytes);
        } else if bytes >= LANE {
            vectors::<V128, D>(one, other, bytes);
        } else {
            D::swap_partial(one, other, bytes);
        }
    }
}
