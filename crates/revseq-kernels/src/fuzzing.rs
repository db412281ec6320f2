//! What a fuzzer chooses in place of the sizes and the processor, so that small
//! buffers reach every kernel. Compiled under `cfg(fuzzing)` alone.

use std::sync::atomic::{AtomicU8, AtomicUsize, Ordering::Relaxed};

use crate::cpu::SimdLevel;

static LEVEL: AtomicU8 = AtomicU8::new(0);
static TIER: AtomicU8 = AtomicU8::new(0);
static PIECE_BYTES: AtomicUsize = AtomicUsize::new(0);
static IS_OF_AMD: AtomicU8 = AtomicU8::new(0);

/// Chooses for all runs that begin after this, on any thread.
///
/// # Panics
/// If the CPU lacks the level.
pub fn choose(choice: Choice) {
    let Choice {
        level,
        tier,
        piece_bytes,
        is_of_amd,
    } = choice;
    assert!(level.is_supported(), "this CPU has no {level}");
    LEVEL.store(1 + level as u8, Relaxed);
    TIER.store(tier, Relaxed);
    PIECE_BYTES.store(piece_bytes, Relaxed);
    IS_OF_AMD.store(1 + u8::from(is_of_amd), Relaxed);
}

/// How runs are to be made.
#[derive(Clone, Copy, Debug)]
pub struct Choice {
    /// With which instructions.
    pub level: SimdLevel,
    /// As if the bytes were in the innermost cache (1), in an outer one (2) or
    /// beyond (3); else where their number says.
    pub tier: u8,
    /// The least bytes of a piece of work, from which on threads share a run; 0:
    /// as always.
    pub piece_bytes: usize,
    /// Whether the processor is to count as one of AMD's.
    pub is_of_amd: bool,
}

pub(crate) fn level() -> Option<SimdLevel> {
    SimdLevel::ALL
        .into_iter()
        .find(|&level| LEVEL.load(Relaxed) == 1 + level as u8)
}

pub(crate) fn tier() -> u8 {
    TIER.load(Relaxed)
}

pub(crate) fn piece_bytes() -> Option<usize> {
    Some(PIECE_BYTES.load(Relaxed)).filter(|&bytes| bytes > 0)
}

pub(crate) fn is_of_amd() -> Option<bool> {
    match IS_OF_AMD.load(Relaxed) {
        0 => None,
        is_of_amd => Some(is_of_amd == 2),
    }
}
