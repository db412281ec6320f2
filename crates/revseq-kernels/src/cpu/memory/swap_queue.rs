//! Runs of packed elements that change places where they lie, in pieces that are
//! asked for a while before.

use std::marker::PhantomData;

use crate::cpu::memory::direction::{Direction, swap_vectors};
use crate::cpu::memory::prefetch::{Ahead, FAR, NEAR, ask_for};
use crate::cpu::memory::prefetch::{prefetch, prefetch_far};
use crate::cpu::simd::{LANE, Task, V128, Vector};

/// The most of a run that is exchanged at once, and half of the most that is
/// turned, in bytes.
///
/// Sequences of 4 KiB, 16 MiB, Zen 4: 1.4 of the time by half of it.
const PIECE: usize = 2 << 10;

/// Runs of less are short, in bytes.
const SHORT: usize = 1 << 10;

/// How runs beyond the caches are asked for.
#[derive(Clone, Copy)]
enum Asked {
    /// Short ones as wholes, of so many bytes, into the first level: a branch on how far
    /// a length reaches is often mispredicted.
    Near(usize),
    /// As far as their lengths reach, as a processor that reads ahead by itself reads
    /// the rest, too; and into the second level alone.
    ///
    /// Sequences of 4 KiB, 64 MiB, Zen 4, of the time by the processor: 0.5. Into the
    /// first level, too, 0.8.
    Far,
}

/// Exchanges runs in the order of `D`, and asks for each a while before.
pub(crate) struct Swaps<D> {
    /// None if they lie in the caches.
    asked: Option<Asked>,
    queue: Ahead<Swap>,
    direction: PhantomData<D>,
}

/// Two runs that change places, or one that is turned where it is.
#[derive(Clone, Copy)]
struct Swap {
    one: *mut u8,
    /// None if it is `one` itself that is turned.
    other: Option<*mut u8>,
    /// Those of one run.
    bytes: usize,
}

impl<D: Direction> Swaps<D> {
    /// For runs of at most `bytes` bytes, that lie beyond the caches if they are `far_away`.
    pub(crate) fn new(bytes: usize, far_away: bool) -> Self {
        let (asked, distance) = match bytes {
            _ if !far_away => (None, 0),
            ..SHORT => (Some(Asked::Near(bytes)), NEAR),
            _ => (Some(Asked::Far), FAR),
        };
        Self {
            asked,
            queue: Ahead::new(bytes.min(2 * PIECE), distance, distance),
            direction: PhantomData,
        }
    }

    /// The most of a run that is exchanged at once.
    #[inline(always)]
    fn piece(&self) -> usize {
        match self.asked {
            None => usize::MAX / 2,
            Some(_) => PIECE,
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
            let swap = Swap {
                one: one.wrapping_add(at),
                other: Some(other.wrapping_add(D::part(at, part, bytes))),
                bytes: part,
            };
            // SAFETY: the caller's.
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
    pub(crate) unsafe fn turn<V: Vector>(&mut self, run: *mut u8, bytes: usize) {
        let (mut start, mut end) = (0, bytes);
        // SAFETY: the caller's; each part lies between start and end.
        unsafe {
            while end - start > 2 * self.piece() {
                end -= PIECE;
                self.push::<V>(Swap {
                    one: run.wrapping_add(start),
                    other: Some(run.wrapping_add(end)),
                    bytes: PIECE,
                });
                start += PIECE;
            }
            self.push::<V>(Swap {
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
    unsafe fn push<V: Vector>(&mut self, swap: Swap) {
        let due = match self.asked {
            None => Some(swap),
            Some(asked) => {
                swap.ask(asked);
                self.queue.push(swap).map(|(oldest, _)| oldest)
            }
        };
        if let Some(due) = due {
            // SAFETY: the caller's.
            unsafe { due.run::<V, D>() };
        }
    }

    /// Exchanges what has not been exchanged yet.
    ///
    /// # Safety
    /// As for [`exchange`](Self::exchange).
    #[inline(always)]
    pub(crate) unsafe fn finish<V: Vector>(&mut self) {
        if self.asked.is_some() {
            // SAFETY: the caller's.
            unsafe { V::apart(Rest(self)) };
        }
    }
}

/// What is left of swaps.
struct Rest<'a, D>(&'a mut Swaps<D>);

impl<D: Direction> Task for Rest<'_, D> {
    /// # Safety
    /// As [`Swaps::finish`].
    #[inline(always)]
    unsafe fn run<V: Vector>(self) {
        while let Some(swap) = self.0.queue.pop() {
            // SAFETY: the caller's.
            unsafe { swap.run::<V, D>() };
        }
    }
}

impl Swap {
    /// Asks for its runs.
    #[inline(always)]
    fn ask(self, asked: Asked) {
        for run in [Some(self.one), self.other].into_iter().flatten() {
            match asked {
                Asked::Near(bytes) => ask_for(run, bytes, prefetch),
                Asked::Far => ask_for(run, self.bytes, prefetch_far),
            }
        }
    }

    /// Does it.
    ///
    /// # Safety
    /// As for [`Swaps::exchange`].
    #[inline(always)]
    unsafe fn run<V: Vector, D: Direction>(self) {
        // SAFETY: the caller's.
        unsafe {
            match self.other {
                Some(other) => exchange::<V, D>(self.one, other, self.bytes),
                None => D::turn::<V>(self.one, self.bytes),
            }
        }
    }
}

/// Exchanges two runs in the order of `D`.
///
/// # Safety
/// As for [`Swaps::exchange`].
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
    // SAFETY: the caller's.
    unsafe {
        if bytes >= V::BYTES {
            vectors::<V, D>(one, other, bytes);
        } else if bytes >= V::Half::BYTES {
            vectors::<V::Half, D>(one, other, bytes);
        } else if bytes >= LANE {
            vectors::<V128, D>(one, other, bytes);
        } else {
            D::swap_few(one, other, bytes);
        }
    }
}
