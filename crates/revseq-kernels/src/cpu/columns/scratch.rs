//! The memory that tiles are transposed into.

use std::cell::Cell;

use crate::cpu::lines::MAX_BYTES_IN_PLACE;
use crate::cpu::write::{CACHE_LINE, CacheLine};

/// The most scratch memory of a thread, in bytes.
const BYTES: usize = 1 << 20;

/// The part of it for columns, after room for the bytes that are read before the first column.
pub(super) const CAPACITY: usize = BYTES - MAX_BYTES_IN_PLACE;

/// The scratch memory of a thread, as large as its largest tile so far, lent to one run at a time.
pub(super) struct Scratch(Vec<CacheLine>);

thread_local! {
    static SCRATCH: Cell<Vec<CacheLine>> = const { Cell::new(Vec::new()) };
}

impl Scratch {
    /// The thread's memory with room for columns of `bytes`, at most [`CAPACITY`].
    pub(super) fn lend(bytes: usize) -> Self {
        // A thread that is ending has none left.
        let mut lines = SCRATCH.try_with(Cell::take).unwrap_or_default();
        let wanted = (MAX_BYTES_IN_PLACE + bytes).div_ceil(CACHE_LINE);
        if lines.len() < wanted {
            // Nothing of the old memory is to be copied, or kept in the meantime.
            drop(std::mem::take(&mut lines));
            lines = vec![CacheLine([0; CACHE_LINE]); wanted];
        }
        Self(lines)
    }

    /// Returns the start of the columns, and before them of the same memory [`MAX_BYTES_IN_PLACE`]
    /// bytes.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_has_no_more_than_its_largest_tile() {
        let lines = |bytes| Scratch::lend(bytes).0.len() * CACHE_LINE - MAX_BYTES_IN_PLACE;
        let counted = std::thread::spawn(move || [100, 5000, 1, CAPACITY, 5000].map(lines));
        assert_eq!(
            counted.join().unwrap(),
            [128, 5056, 5056, CAPACITY, CAPACITY]
        );
    }
}
