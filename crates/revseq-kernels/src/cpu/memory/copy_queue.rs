//! Copies of runs that lie anywhere, each prefetched a while before it is made.

use std::marker::PhantomData;

use super::LINE;
use super::direction::{Direction, Forward};
use super::prefetch::{L1_DISTANCE, L2_DISTANCE, PrefetchQueue, PrefetchTargets};
use super::store_policy::StorePolicy;
use crate::cpu::simd::{SimdTask, Vector};

/// What is copied at once, in bytes: little enough that what is near lies in the first level of
/// the cache. What is left of a run goes with its last piece if that is half as much.
const PIECE_BYTES: usize = 1 << 10;

/// Copies runs to a store policy, forward or in the direction of `D`.
pub(crate) struct CopyQueue<D> {
    queue: PrefetchQueue<QueuedCopy>,
    direction: PhantomData<D>,
}

/// A run, or a piece of a long one.
#[derive(Clone, Copy)]
struct QueuedCopy {
    from: *const u8,
    /// Its offset in the output.
    to: usize,
    bytes: usize,
    reversed: bool,
}

impl<D: Direction> CopyQueue<D> {
    /// For runs of about `bytes` bytes.
    pub(crate) fn new(bytes: usize) -> Self {
        Self {
            queue: PrefetchQueue::new(bytes.min(PIECE_BYTES), L1_DISTANCE, L2_DISTANCE),
            direction: PhantomData,
        }
    }

    /// Copies a run to an offset of the output, now or later; in the direction of `D` if
    /// `reversed`.
    ///
    /// # Safety
    /// Until [`finish`](Self::finish) `from` is readable for `bytes`, which are whole elements,
    /// and the store policy's output has room for them.
    #[inline(always)]
    pub(crate) unsafe fn copy<V: Vector, S: StorePolicy>(
        &mut self,
        stores: &mut S,
        reversed: bool,
        from: *const u8,
        to: usize,
        bytes: usize,
    ) {
        if bytes == 0 {
            return;
        }
        let run = QueuedCopy {
            from,
            to,
            bytes,
            reversed,
        };
        if !S::PREFETCHES {
            // SAFETY: the run is readable, and the output has room for it.
            unsafe { run.copy::<V, S, D>(stores, None) };
            return;
        }
        let mut at = 0;
        while at < bytes {
            let mut part = bytes - at;
            if part > PIECE_BYTES + PIECE_BYTES / 2 {
                // A piece ends with a line of the output, of which none is then written in parts.
                let before = (to + at + PIECE_BYTES) % LINE;
                part = PIECE_BYTES - before + before % D::ELEMENT;
            }
            let start = match reversed {
                true => D::part(at, part, bytes),
                false => at,
            };
            let piece = QueuedCopy {
                from: from.wrapping_add(start),
                to: to + at,
                bytes: part,
                reversed,
            };
            if let Some((oldest, near)) = self.queue.push(piece) {
                // SAFETY: the oldest piece is one of a run that this function was given.
                unsafe { oldest.copy::<V, S, D>(stores, Some((near, piece))) };
            }
            at += part;
        }
    }

    /// Makes the copies that are left, in a function of its own: what makes one is large, and a
    /// part of [`copy`](Self::copy) already.
    ///
    /// # Safety
    /// As [`copy`](Self::copy) for all runs that it was given.
    #[inline(always)]
    pub(crate) unsafe fn finish<V: Vector, S: StorePolicy>(&mut self, stores: &mut S) {
        if S::PREFETCHES {
            let queue = self;
            // SAFETY: this function's condition is that of the task.
            unsafe { V::run_outlined(DrainCopies { queue, stores }) };
        }
    }
}

/// The copies that are left in a queue.
struct DrainCopies<'a, D, S> {
    queue: &'a mut CopyQueue<D>,
    stores: &'a mut S,
}

impl<D: Direction, S: StorePolicy> SimdTask for DrainCopies<'_, D, S> {
    /// # Safety
    /// As [`CopyQueue::finish`].
    #[inline(always)]
    unsafe fn run<V: Vector>(self) {
        while let Some(piece) = self.queue.queue.pop() {
            // SAFETY: the piece is one of a run that the queue was given.
            unsafe { piece.copy::<V, S, D>(self.stores, None) };
        }
    }
}

impl QueuedCopy {
    /// Makes the copy, and prefetches the two that come next but some.
    ///
    /// # Safety
    /// As [`CopyQueue::copy`], for this run.
    #[inline(always)]
    unsafe fn copy<V: Vector, S: StorePolicy, D: Direction>(
        self,
        stores: &mut S,
        next: Option<(Self, Self)>,
    ) {
        let targets = next.map(|(near, far)| PrefetchTargets {
            l1: near.from,
            l2: far.from,
        });
        // SAFETY: `from` is readable, and the output has room at `to`, for `bytes`.
        unsafe {
            stores.seek(self.to);
            match D::REVERSES && self.reversed {
                true => stores.copy::<D>(self.from, self.bytes, targets),
                false => stores.copy::<Forward>(self.from, self.bytes, targets),
            }
        }
        if let (Some(targets), Some((near, far))) = (targets, next) {
            // What they have more than this one.
            for at in (self.bytes..near.bytes.max(far.bytes)).step_by(LINE) {
                S::prefetch(targets.offset(at), self.from);
            }
        }
    }
}
