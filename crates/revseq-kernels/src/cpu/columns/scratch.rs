//! The memory that tiles are transposed into.

use std::cell::Cell;

use crate::cpu::lines::MAX_BYTES_IN_PLACE;
use crate::cpu::write::{CACHE_LINE, CacheLine};

/// The scratch memory of a thread, in bytes.
const BYTES: usize = 1 << 20;

/// The part of it for columns, after room for the bytes that are read before the first column.
pub(super) const CAPACITY: usize = BYTES - MAX_BYTES_IN_PLACE;

/// The scratch memory of a thread, made once and lent to one run at a time.
pub(super) struct Scratch(Vec<CacheLine>);

thread_local! {
    static SCRATCH: Cell<Vec<CacheLine>> = const { Cell::new(Vec::new()) };
}

impl Scratch {
    pub(super) fn lend() -> Self {
        // A thread that is ending has none left.
        let mut lines = SCRATCH.try_with(Cell::take).unwrap_or_default();
        lines.resize(BYTES / CACHE_LINE, CacheLine([0; CACHE_LINE]));
        Self(lines)
    }

    /// Returns the start of the columns, with room for [`CAPACITY`] bytes, and of the same memory
    /// before them for [`MAX_BYTES_IN_PLACE`].
    pub(super) fn start(&mut self) -> *mut u8 {
        let start = self.0.as_mut_ptr().cast::<u8>();
        start.wrapping_add(MAX_BYTES_IN_PLACE)
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let lines = std::mem::take(&mut self.0);
        let _ = SCRATCH.try_with(|scratch| scratch.set(lines));
    }
}
