//! How the output is written: the bytes come in order, through the caches or past them.

use std::marker::PhantomData;

use super::LINE;
use super::direction::{Direction, copy_inline};
use super::prefetch::{PrefetchTargets, prefetch_l1};
use crate::cpu::simd::Vector;

/// How far ahead of what is written through the caches the next is prefetched, in bytes: a store
/// to a line that is not in the first level waits for it, and the stores after it wait with it.
const STORE_DISTANCE: usize = 2 << 10;

/// Takes the output's bytes in order.
pub(crate) trait StorePolicy {
    /// Whether what is written goes past the caches.
    const NON_TEMPORAL: bool;

    /// Whether the run is so large that it pays to prefetch what is read next.
    const PREFETCHES: bool;

    /// The most bytes that [`reserve`](Self::reserve) gives at once.
    const MAX_RESERVE: usize;

    /// Prefetches the lines that are read soon, and the one that is written soon after the one
    /// at `to`, where that pays.
    fn prefetch(targets: PrefetchTargets, to: *const u8);

    /// Goes on at an offset of the output, in bytes.
    ///
    /// # Safety
    /// The offset is inside the output, and all bytes before it that were given are.
    unsafe fn seek(&mut self, offset: usize);

    /// Room for the next bytes, which the caller then fills.
    ///
    /// # Safety
    /// The output has room for them, and they are at most [`MAX_RESERVE`](Self::MAX_RESERVE).
    unsafe fn reserve(&mut self, bytes: usize) -> *mut u8;

    /// Room for the next bytes in the output itself, which the caller then fills by
    /// [`write`](Self::write).
    ///
    /// # Safety
    /// The output has room for them; if the stores are non-temporal they start and end at
    /// multiples of a lane.
    unsafe fn reserve_aligned(&mut self, bytes: usize) -> *mut u8;

    /// Writes a vector to the room of [`reserve_aligned`](Self::reserve_aligned).
    ///
    /// # Safety
    /// As [`Vector::store`]; the vector starts a number of lanes after the room does.
    unsafe fn write<V: Vector>(vector: V, to: *mut u8);

    /// As [`write`](Self::write), of a vector of which all but the last `bytes` bytes, if those
    /// are less, have been written already.
    ///
    /// # Safety
    /// As there; `bytes` are whole lanes if the stores are non-temporal.
    unsafe fn write_last<V: Vector>(vector: V, to: *mut u8, bytes: usize);

    /// Copies a run to a place in the room of [`reserve_aligned`](Self::reserve_aligned), and
    /// prefetches as many bytes at `targets`.
    ///
    /// # Safety
    /// `from` is readable for `bytes`, which are whole elements, the room has as many from `to`
    /// on, and both are whole lanes if the stores are non-temporal.
    unsafe fn copy_to<D: Direction>(
        from: *const u8,
        to: *mut u8,
        bytes: usize,
        targets: Option<PrefetchTargets>,
    );

    /// Copies the next bytes, and prefetches as many at `targets`.
    ///
    /// # Safety
    /// `from` is readable for `bytes`, which are whole elements, and the output has room for
    /// them.
    unsafe fn copy<D: Direction>(
        &mut self,
        from: *const u8,
        bytes: usize,
        targets: Option<PrefetchTargets>,
    );

    /// Writes what has not been written yet.
    ///
    /// # Safety
    /// All bytes that were given room for are filled and inside the output.
    unsafe fn finish(&mut self);
}

/// Ordinary stores, through the caches; `PREFETCHES` unless all lies in the first level.
pub(crate) struct Temporal<V, const PREFETCHES: bool> {
    start: *mut u8,
    at: *mut u8,
    vector: PhantomData<V>,
}

impl<V, const PREFETCHES: bool> Temporal<V, PREFETCHES> {
    pub(crate) fn new(output: *mut u8) -> Self {
        Self {
            start: output,
            at: output,
            vector: PhantomData,
        }
    }
}

impl<V: Vector, const PREFETCHES: bool> StorePolicy for Temporal<V, PREFETCHES> {
    const NON_TEMPORAL: bool = false;
    const PREFETCHES: bool = PREFETCHES;
    const MAX_RESERVE: usize = usize::MAX;

    #[inline(always)]
    fn prefetch(targets: PrefetchTargets, to: *const u8) {
        if PREFETCHES {
            prefetch_l1(targets.l1);
            prefetch_l1(to.wrapping_add(STORE_DISTANCE));
        }
    }

    #[inline(always)]
    unsafe fn seek(&mut self, offset: usize) {
        // SAFETY: the offset is inside the output.
        self.at = unsafe { self.start.add(offset) };
    }

    #[inline(always)]
    unsafe fn reserve(&mut self, bytes: usize) -> *mut u8 {
        let at = self.at;
        // SAFETY: the output has room for as many bytes.
        self.at = unsafe { at.add(bytes) };
        at
    }

    #[inline(always)]
    unsafe fn reserve_aligned(&mut self, bytes: usize) -> *mut u8 {
        // SAFETY: the output has room for as many bytes.
        unsafe { self.reserve(bytes) }
    }

    #[inline(always)]
    unsafe fn write<W: Vector>(vector: W, to: *mut u8) {
        // SAFETY: the room is writable.
        unsafe { vector.store(to) };
    }

    #[inline(always)]
    unsafe fn write_last<W: Vector>(vector: W, to: *mut u8, _: usize) {
        // SAFETY: the room is writable. What was written before is written as it was.
        unsafe { vector.store(to) };
    }

    #[inline(always)]
    unsafe fn copy_to<D: Direction>(
        from: *const u8,
        to: *mut u8,
        bytes: usize,
        targets: Option<PrefetchTargets>,
    ) {
        // SAFETY: `from` is readable and the room writable for `bytes`.
        unsafe {
            match targets {
                Some(targets) if PREFETCHES => {
                    copy_prefetching::<V, Self, D>(from, to, bytes, targets);
                }
                _ => copy_inline::<V, D>(from, to, bytes),
            }
        }
    }

    #[inline(always)]
    unsafe fn copy<D: Direction>(
        &mut self,
        from: *const u8,
        bytes: usize,
        targets: Option<PrefetchTargets>,
    ) {
        // SAFETY: `from` is readable for `bytes`, and the output has room for them.
        unsafe {
            let to = self.reserve(bytes);
            Self::copy_to::<D>(from, to, bytes, targets);
        }
    }

    #[inline(always)]
    unsafe fn finish(&mut self) {}
}

/// Copies bytes, and prefetches as many.
///
/// # Safety
/// As [`copy_inline`].
#[inline(always)]
unsafe fn copy_prefetching<V: Vector, S: StorePolicy, D: Direction>(
    from: *const u8,
    to: *mut u8,
    bytes: usize,
    targets: PrefetchTargets,
) {
    let mut at = 0;
    // SAFETY: every line and the rest end within `bytes`, for which both are valid.
    unsafe {
        while at + LINE <= bytes {
            S::prefetch(targets.offset(at), to.add(at));
            for part in (at..at + LINE).step_by(V::BYTES) {
                D::load::<V>(from, bytes, part).store(to.add(part));
            }
            at += LINE;
        }
        if at < bytes {
            S::prefetch(targets.offset(at), to.add(at));
            let rest = bytes - at;
            copy_inline::<V, D>(from.add(D::part(at, rest, bytes)), to.add(at), rest);
        }
        if let Some(targets) = targets.straddled(bytes) {
            S::prefetch(targets, to.add(bytes));
        }
    }
}
