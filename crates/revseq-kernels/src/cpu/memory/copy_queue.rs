//! Long runs of packed elements, in pieces that are prefetched a while before they are copied.

use std::marker::PhantomData;

use crate::cpu::choice::processor;
use crate::cpu::memory::LINE;
use crate::cpu::memory::direction::{Direction, Forward};
use crate::cpu::memory::prefetch::{L1_DISTANCE, L2_DISTANCE, PrefetchQueue, PrefetchTargets};
use crate::cpu::memory::store_policy::StorePolicy;
use crate::cpu::simd::{SimdTask, Vector};

/// What is copied at once, in bytes: little enough that what is near lies in the first
/// level of the cache. What is left of a run goes with it if that is half as much.
///
/// Rows of 1028 bytes, 8 and 64 MiB, Zen 4, of the time with the rest by itself: 0.93.
pub(crate) const PIECE_BYTES: usize = 1 << 10;

/// How much in sequence is prefetched, where the processor foresees the rest, in bytes.
///
/// Runs in random order, 64 MiB, Zen 4, prefetched and not: of 16 KiB 1.14 and
/// 1.6 times a copy, of 64 KiB 1.15 and 1.2, of 256 KiB 1.16 and 1.09, of 1 MiB
/// 1.12 and 1.03.
const UNFORESEEN: usize = 64 << 10;

/// How much in sequence is copied at once, where the processor foresees it, but for
/// what is [`L2_DISTANCE`] from its end, in bytes.
///
/// A copy of 64 MiB, Zen 4, of the time in pieces 0.85; but all of 128 KiB and then
/// another run 1.2.
const FORESEEN: usize = 256 << 10;

/// Copies runs to a store policy, in `Forward` direction or in `D`, and prefetches each a
/// while before.
///
/// Unless some are `LONG`, of more than [`PIECE_BYTES`] bytes, all have the same size
/// and none is cut: to find out would take a tenth of what a row of 512 bytes takes.
pub(crate) struct CopyQueue<D, const LONG: bool> {
    queue: PrefetchQueue<QueuedCopy>,
    /// Where the run that was added last goes on in the input, and how much was
    /// added in sequence.
    end: *const u8,
    sequence: usize,
    /// How much in sequence is prefetched.
    unforeseen: usize,
    direction: PhantomData<D>,
}

/// A run, or a part of a long one.
#[derive(Clone, Copy)]
struct QueuedCopy {
    from: *const u8,
    /// Its offset in the output.
    to: usize,
    /// At most [`PIECE_BYTES`] and a half, or what is not cut.
    bytes: u32,
    reversed: bool,
    /// Whether to prefetch it.
    prefetched: bool,
}

impl<D: Direction, const LONG: bool> CopyQueue<D, LONG> {
    /// For runs of `bytes` bytes, or pieces of them.
    pub(crate) fn new<S: StorePolicy>(bytes: usize) -> Self {
        Self {
            queue: PrefetchQueue::new(bytes.min(PIECE_BYTES), L1_DISTANCE, L2_DISTANCE),
            end: std::ptr::null(),
            sequence: 0,
            unforeseen: match S::PREFETCHES && processor::has_strong_prefetcher() {
                true => UNFORESEEN,
                false => usize::MAX,
            },
            direction: PhantomData,
        }
    }

    /// Copies a run to an offset of the output, now or later; in `D` if `reversed`.
    ///
    /// # Safety
    /// Until [`finish`](Self::finish) `from` is readable for `bytes`, which are
    /// whole elements, and the store policy's output has room for them.
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
        if !S::PREFETCHES {
            // SAFETY: the caller's.
            unsafe { copy_now::<V, S, D>(stores, reversed, (from, to, bytes), None) };
            return;
        }
        if !LONG {
            let run = QueuedCopy {
                from,
                to,
                bytes: bytes as u32,
                reversed,
                prefetched: true,
            };
            // SAFETY: the caller's.
            unsafe { self.push::<V, S>(stores, run) };
            return;
        }
        let end = from.wrapping_add(bytes);
        let (start, end) = match reversed {
            true => (end, from),
            false => (from, end),
        };
        if self.end != start {
            self.sequence = 0;
        }
        self.end = end;
        // Pieces end where lines of the output do, of which none is then written in
        // parts.
        let whole = |at: usize, part: usize| {
            let before = (to + at + part) % LINE;
            part - before + before % D::ELEMENT
        };
        let start = |at: usize, part: usize| match reversed {
            true => D::part(at, part, bytes),
            false => at,
        };
        let mut at = 0;
        while at < bytes {
            let mut part = bytes - at;
            if self.sequence >= self.unforeseen && part >= FORESEEN {
                part = whole(at, part - L2_DISTANCE);
                let run = (from.wrapping_add(start(at, part)), to + at, part);
                // SAFETY: the caller's; what was added before comes before it.
                unsafe {
                    self.finish::<V, S>(stores);
                    copy_now::<V, S, D>(stores, reversed, run, None);
                }
                at += part;
                continue;
            }
            if part > PIECE_BYTES + PIECE_BYTES / 2 {
                part = whole(at, PIECE_BYTES);
            }
            let piece = QueuedCopy {
                from: from.wrapping_add(start(at, part)),
                to: to + at,
                bytes: part as u32,
                reversed,
                prefetched: self.sequence < self.unforeseen,
            };
            at += part;
            self.sequence += part;
            // SAFETY: the caller's.
            unsafe { self.push::<V, S>(stores, piece) };
        }
    }

    /// Adds a piece, and copies the oldest if there are enough.
    ///
    /// # Safety
    /// As for [`copy`](Self::copy).
    #[inline(always)]
    unsafe fn push<V: Vector, S: StorePolicy>(&mut self, stores: &mut S, piece: QueuedCopy) {
        let Some((oldest, near)) = self.queue.push(piece) else {
            return;
        };
        // SAFETY: the caller's.
        unsafe {
            if LONG {
                oldest.copy::<V, S, D>(stores, Some((near, piece)));
            } else {
                let targets = PrefetchTargets {
                    l1: near.from,
                    l2: piece.from,
                };
                let run = (oldest.from, oldest.to, piece.bytes as usize);
                copy_now::<V, S, D>(stores, oldest.reversed, run, Some(targets));
            }
        }
    }

    /// Copies what has not been copied yet, in a function of its own: what
    /// copies a piece is large, and a part of [`copy`](Self::copy) already.
    ///
    /// # Safety
    /// As for [`copy`](Self::copy).
    #[inline(always)]
    pub(crate) unsafe fn finish<V: Vector, S: StorePolicy>(&mut self, stores: &mut S) {
        if S::PREFETCHES {
            // SAFETY: the caller's.
            unsafe {
                V::run_outlined(DrainCopies {
                    pieces: self,
                    stores,
                })
            };
        }
    }
}

/// What is left of pieces.
struct DrainCopies<'a, D, S, const LONG: bool> {
    pieces: &'a mut CopyQueue<D, LONG>,
    stores: &'a mut S,
}

impl<D: Direction, S: StorePolicy, const LONG: bool> SimdTask for DrainCopies<'_, D, S, LONG> {
    /// # Safety
    /// As [`CopyQueue::finish`].
    #[inline(always)]
    unsafe fn run<V: Vector>(self) {
        while let Some(piece) = self.pieces.queue.pop() {
            // SAFETY: the caller's.
            unsafe { piece.copy::<V, S, D>(self.stores, None) };
        }
    }
}

impl QueuedCopy {
    /// Copies it, and prefetches those of the pieces that are copied soon that it helps.
    ///
    /// # Safety
    /// As for [`CopyQueue::copy`].
    #[inline(always)]
    unsafe fn copy<V: Vector, S: StorePolicy, D: Direction>(
        self,
        stores: &mut S,
        targets: Option<(Self, Self)>,
    ) {
        let bytes = self.bytes as usize;
        let mut longest = 0;
        let targets = match targets {
            Some((near, far)) if near.prefetched || far.prefetched => {
                longest = near.bytes.max(far.bytes) as usize;
                // To prefetch what is read at once changes nothing.
                let place = |piece: Self| {
                    if piece.prefetched {
                        piece.from
                    } else {
                        self.from
                    }
                };
                Some(PrefetchTargets {
                    l1: place(near),
                    l2: place(far),
                })
            }
            _ => None,
        };
        // SAFETY: the caller's.
        unsafe { copy_now::<V, S, D>(stores, self.reversed, (self.from, self.to, bytes), targets) };
        if let Some(targets) = targets {
            // Of those that are longer the rest is prefetched, too.
            for at in (bytes..longest).step_by(LINE) {
                S::prefetch(targets.offset(at), self.from);
            }
        }
    }
}

/// Copies a run from a place to an offset of the output, in `D` if `reversed`.
///
/// # Safety
/// As for [`CopyQueue::copy`].
#[inline(always)]
unsafe fn copy_now<V: Vector, S: StorePolicy, D: Direction>(
    stores: &mut S,
    reversed: bool,
    (from, to, bytes): (*const u8, usize, usize),
    targets: Option<PrefetchTargets>,
) {
    // SAFETY: the caller's.
    unsafe {
        stores.seek(to);
        match D::REVERSES && reversed {
            true => stores.copy::<D>(from, bytes, targets),
            false => stores.copy::<Forward>(from, bytes, targets),
        }
    }
}
