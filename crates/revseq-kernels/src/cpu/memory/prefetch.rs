//! What is read soon, and a queue that lets a kernel see it a while before.

use std::mem::MaybeUninit;

use super::LINE;

/// How far ahead of what is moved the next is prefetched into the first level, in bytes.
///
/// What a run reads lies anywhere, so that no hardware foresees it. Too near and it is not there
/// in time; too far and it has left the first level. [M8]
pub(crate) const L1_DISTANCE: usize = 4 << 10;

/// The same into the second level, where memory is far away. [M8]
pub(crate) const L2_DISTANCE: usize = 32 << 10;

/// How far ahead what lies in order is prefetched, in bytes: the hardware foresees most of it.
pub(crate) const SEQUENTIAL_DISTANCE: usize = 8 << 10;

/// Two places of the input: what is read soon, and what is read later.
#[derive(Clone, Copy)]
pub(crate) struct PrefetchTargets {
    pub(crate) l1: *const u8,
    pub(crate) l2: *const u8,
}

impl PrefetchTargets {
    /// What is read after `place`, by those distances.
    #[inline(always)]
    pub(crate) fn ahead_of(place: *const u8) -> Self {
        Self {
            l1: place.wrapping_add(L1_DISTANCE),
            l2: place.wrapping_add(L2_DISTANCE),
        }
    }

    /// What is read after `place` where that is read backward.
    #[inline(always)]
    pub(crate) fn behind(place: *const u8) -> Self {
        Self {
            l1: place.wrapping_sub(L1_DISTANCE),
            l2: place.wrapping_sub(L2_DISTANCE),
        }
    }

    /// The last of `bytes` bytes, if there are more cache lines of them than
    /// start at every 64th: those that do not start where a line does.
    #[inline(always)]
    pub(crate) fn straddled(self, bytes: usize) -> Option<Self> {
        let last = bytes.wrapping_sub(1);
        (self.l1.addr() % LINE + last % LINE >= LINE).then(|| self.offset(last))
    }

    /// Both places so many bytes on.
    #[inline(always)]
    pub(crate) fn offset(self, bytes: usize) -> Self {
        Self {
            l1: self.l1.wrapping_add(bytes),
            l2: self.l2.wrapping_add(bytes),
        }
    }
}

/// Prefetches every cache line that has some of these bytes.
#[inline(always)]
pub(crate) fn prefetch_range(from: *const u8, bytes: usize, prefetch: impl Fn(*const u8)) {
    let before = from.addr() % LINE;
    let first = from.wrapping_sub(before);
    for at in (0..before + bytes).step_by(LINE) {
        prefetch(first.wrapping_add(at));
    }
}

/// Defines a function that prefetches a cache line, by the hint of each target.
macro_rules! prefetch {
    ($(#[$meta:meta])* $visibility:vis $name:ident, $x86_64:ident, $aarch64:literal) => {
        $(#[$meta])*
        #[inline(always)]
        $visibility fn $name(from: *const u8) {
            #[cfg(target_arch = "x86_64")]
            {
                use std::arch::x86_64::{$x86_64, _mm_prefetch};
                // SAFETY: SSE is part of x86-64, and a prefetch of any address has no effect but
                // speed.
                unsafe { _mm_prefetch::<$x86_64>(from.cast()) };
            }
            #[cfg(target_arch = "aarch64")]
            // SAFETY: as there; Rust's own name for this instruction is not stable.
            unsafe {
                std::arch::asm!(
                    concat!("prfm ", $aarch64, ", [{}]"),
                    in(reg) from,
                    options(nostack, preserves_flags, readonly)
                );
            }
            #[cfg(not(any(target_arch = "aarch64", target_arch = "x86_64")))]
            let _ = from;
        }
    };
}

prefetch! {
    /// Prefetches the cache line of an address that is read soon.
    pub(crate) prefetch_l1, _MM_HINT_T0, "pldl1keep"
}

prefetch! {
    /// Prefetches a cache line into the second level.
    prefetch_l2_once, _MM_HINT_T1, "pldl2keep"
}

/// Prefetches the cache line of an address that is read later, into the second level.
///
/// Twice: a processor that is busy drops some prefetches. [M10]
#[inline(always)]
pub(crate) fn prefetch_l2(from: *const u8) {
    prefetch_l2_once(from);
    prefetch_l2_once(from);
}

/// How many entries a queue holds.
const ENTRIES: usize = 128;

/// A queue of a fixed depth.
pub(crate) struct PrefetchQueue<T> {
    entries: [MaybeUninit<T>; ENTRIES],
    /// How many entries ahead of the oldest those are that are far, and near.
    depth: usize,
    near: usize,
    pushed: usize,
    popped: usize,
}

impl<T: Copy> PrefetchQueue<T> {
    /// A queue of so many entries of `bytes` bytes that it holds what is far.
    pub(crate) fn new(bytes: usize, near: usize, far: usize) -> Self {
        let entries = |distance: usize| (distance / bytes.max(1)).clamp(1, ENTRIES - 1);
        Self {
            entries: [MaybeUninit::uninit(); ENTRIES],
            depth: entries(far),
            near: entries(near),
            pushed: 0,
            popped: 0,
        }
    }

    /// Adds an entry and, if the queue is full, takes out the oldest one; with
    /// it comes the one that is near.
    #[inline(always)]
    pub(crate) fn push(&mut self, entry: T) -> Option<(T, T)> {
        self.entries[self.pushed % ENTRIES].write(entry);
        self.pushed += 1;
        if self.pushed - self.popped > self.depth {
            // SAFETY: what is near is no further ahead than what was pushed last.
            let near = unsafe { self.entry(self.popped + self.near) };
            self.pop().map(|oldest| (oldest, near))
        } else {
            None
        }
    }

    /// Takes out the oldest entry.
    #[inline(always)]
    pub(crate) fn pop(&mut self) -> Option<T> {
        if self.popped == self.pushed {
            return None;
        }
        // SAFETY: it was pushed and not taken out.
        let entry = unsafe { self.entry(self.popped) };
        self.popped += 1;
        Some(entry)
    }

    /// The entry that was pushed as number `index`.
    ///
    /// # Safety
    /// It was, and has not been taken out: as the queue is never deeper than its
    /// entries, it was not written over.
    #[inline(always)]
    unsafe fn entry(&self, index: usize) -> T {
        // SAFETY: it was written, and not written over since.
        unsafe { self.entries[index % ENTRIES].assume_init() }
    }
}
