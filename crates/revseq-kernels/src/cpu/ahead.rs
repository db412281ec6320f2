//! A queue that lets a kernel see what it moves a while before it moves it.

use std::mem::MaybeUninit;

/// How far ahead of what is moved the next is asked for, in bytes.
///
/// What a run reads lies anywhere, so that no hardware foresees it. Too near
/// and it is not there in time; too far and it has left the first cache level.
/// Rows of 1 KiB were best at 8 to 16 KiB, sequences at 6 to 8.
pub(super) const DISTANCE: usize = 8 << 10;

/// How many entries a queue holds.
const ENTRIES: usize = 128;

/// A queue of a fixed depth.
pub(super) struct Ahead<T> {
    entries: [MaybeUninit<T>; ENTRIES],
    depth: usize,
    pushed: usize,
    popped: usize,
}

impl<T: Copy> Ahead<T> {
    /// A queue of so many entries of `bytes` bytes that it holds the distance.
    pub(super) fn of(bytes: usize) -> Self {
        Self {
            entries: [MaybeUninit::uninit(); ENTRIES],
            depth: (DISTANCE / bytes.max(1)).clamp(1, ENTRIES - 1),
            pushed: 0,
            popped: 0,
        }
    }

    /// Adds an entry, and takes out the oldest one if the queue is full.
    #[inline(always)]
    pub(super) fn push(&mut self, entry: T) -> Option<T> {
        self.entries[self.pushed % ENTRIES].write(entry);
        self.pushed += 1;
        if self.pushed - self.popped > self.depth {
            self.pop()
        } else {
            None
        }
    }

    /// Takes out the oldest entry.
    #[inline(always)]
    pub(super) fn pop(&mut self) -> Option<T> {
        if self.popped == self.pushed {
            return None;
        }
        // SAFETY: it was pushed and, as the queue is never deeper than its
        // entries, not written over.
        let entry = unsafe { self.entries[self.popped % ENTRIES].assume_init() };
        self.popped += 1;
        Some(entry)
    }
}
