//! What is read soon, and a queue that lets a kernel see it a while before.

use std::mem::MaybeUninit;

use super::sink::LINE;

/// How far ahead of what is moved the next is asked for, in bytes.
///
/// What a run reads lies anywhere, so that no hardware foresees it. Too near
/// and it is not there in time; too far and it has left the first cache level.
pub(super) const NEAR: usize = 4 << 10;

/// How far ahead it is asked for into the second level, where memory is far away.
///
/// Rows of 1 KiB in random order, 32 MiB, on a processor of the Zen 4
/// generation: 2.2 times a copy without asking, 1.6 to 1.8 into the first level
/// only, at any distance, 1.3 into the second only, and 1.1 into both.
pub(super) const FAR: usize = 32 << 10;

/// How far ahead what lies in order is asked for, in bytes: the hardware foresees
/// most of it.
pub(super) const DISTANCE: usize = 8 << 10;

/// Two places of the input: what is read soon, and what is read later.
#[derive(Clone, Copy)]
pub(super) struct Soon {
    pub(super) near: *const u8,
    pub(super) far: *const u8,
}

impl Soon {
    /// What is read after `place`, by those distances.
    #[inline(always)]
    pub(super) fn beyond(place: *const u8) -> Self {
        Self {
            near: place.wrapping_add(NEAR),
            far: place.wrapping_add(FAR),
        }
    }

    /// What is read after `place` where that is read backward.
    #[inline(always)]
    pub(super) fn before(place: *const u8) -> Self {
        Self {
            near: place.wrapping_sub(NEAR),
            far: place.wrapping_sub(FAR),
        }
    }

    /// The last of `bytes` bytes, if there are more cache lines of them than
    /// start at every 64th: those that do not start where a line does.
    #[inline(always)]
    pub(super) fn spilled(self, bytes: usize) -> Option<Self> {
        let last = bytes.wrapping_sub(1);
        (self.near.addr() % LINE + last % LINE >= LINE).then(|| self.after(last))
    }

    /// Both places so many bytes on.
    #[inline(always)]
    pub(super) fn after(self, bytes: usize) -> Self {
        Self {
            near: self.near.wrapping_add(bytes),
            far: self.far.wrapping_add(bytes),
        }
    }
}

/// Asks for every cache line that has some of these bytes.
#[inline(always)]
pub(super) fn ask_for(from: *const u8, bytes: usize, ask: impl Fn(*const u8)) {
    let before = from.addr() % LINE;
    let first = from.wrapping_sub(before);
    for at in (0..before + bytes).step_by(LINE) {
        ask(first.wrapping_add(at));
    }
}

/// How many entries a queue holds.
const ENTRIES: usize = 128;

/// A queue of a fixed depth.
pub(super) struct Ahead<T> {
    entries: [MaybeUninit<T>; ENTRIES],
    /// How many entries ahead of the oldest those are that are far, and near.
    depth: usize,
    near: usize,
    pushed: usize,
    popped: usize,
}

impl<T: Copy> Ahead<T> {
    /// A queue of so many entries of `bytes` bytes that it holds what is far.
    pub(super) fn new(bytes: usize, near: usize, far: usize) -> Self {
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
    pub(super) fn push(&mut self, entry: T) -> Option<(T, T)> {
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
    pub(super) fn pop(&mut self) -> Option<T> {
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
        // SAFETY: the caller's.
        unsafe { self.entries[index % ENTRIES].assume_init() }
    }
}
