//! Choices that a fuzzer makes instead of the sizes, so that small
//! buffers reach every kernel. Compiled only under `cfg(fuzzing)`.

use std::sync::atomic::{AtomicU8, AtomicUsize, Ordering::Relaxed};

static MEMORY: AtomicU8 = AtomicU8::new(0);
static PIECE_BYTES: AtomicUsize = AtomicUsize::new(0);

/// Chooses for all runs that begin after this, on any thread.
pub fn choose(choice: Choice) {
    let Choice {
        memory,
        piece_bytes,
    } = choice;
    MEMORY.store(memory, Relaxed);
    PIECE_BYTES.store(piece_bytes, Relaxed);
}

/// The fuzzer's choices for a run.
#[derive(Clone, Copy, Debug)]
pub struct Choice {
    /// The memory that the bytes count as lying in: the innermost cache (1), an outer one (2) or
    /// beyond the caches (3); any other value leaves this to the number of bytes.
    pub memory: u8,
    /// The least bytes of a piece of work, from which on threads share a run; 0:
    /// as always.
    pub piece_bytes: usize,
}

pub(crate) fn tier() -> u8 {
    MEMORY.load(Relaxed)
}

pub(crate) fn piece_bytes() -> Option<usize> {
    Some(PIECE_BYTES.load(Relaxed)).filter(|&bytes| bytes > 0)
}
