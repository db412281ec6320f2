//! The memory that tiles are transposed into.
//!
//! It belongs to no thread: a server's many threads would each keep their own. Runs in progress have
//! some each, and leave it to those that come.

use std::num::NonZero;
use std::sync::{Mutex, OnceLock, PoisonError};
use std::thread;

use crate::cpu::lines::MAX_BYTES_IN_PLACE;
use crate::cpu::write::{CACHE_LINE, CacheLine};

/// The most scratch memory of a run on a thread, in bytes.
const BYTES: usize = 1 << 20;

/// The part of it for columns, after room for the bytes that are read before the first column.
pub(super) const CAPACITY: usize = BYTES - MAX_BYTES_IN_PLACE;

/// Memory that no run uses, the latest last: it may still be in a cache.
struct Pool {
    free: Mutex<Vec<Vec<CacheLine>>>,
    /// The most that are kept: as many as may run at a time.
    most: OnceLock<usize>,
}

static POOL: Pool = Pool::new();

impl Pool {
    const fn new() -> Self {
        Self {
            free: Mutex::new(Vec::new()),
            most: OnceLock::new(),
        }
    }

    fn lend(&'static self, bytes: usize) -> Scratch {
        // The list is whole at any time.
        let mut free = self.free.lock().unwrap_or_else(PoisonError::into_inner);
        let mut lines = free.pop().unwrap_or_default();
        drop(free);
        let wanted = (MAX_BYTES_IN_PLACE + bytes).div_ceil(CACHE_LINE);
        if lines.len() < wanted {
            // Nothing of the old memory is to be copied, or kept in the meantime.
            drop(std::mem::take(&mut lines));
            lines = vec![CacheLine([0; CACHE_LINE]); wanted];
        }
        Scratch { lines, pool: self }
    }

    fn take_back(&self, lines: Vec<CacheLine>) {
        let cores = || thread::available_parallelism().map_or(1, NonZero::get);
        let most = *self.most.get_or_init(cores);
        let mut free = self.free.lock().unwrap_or_else(PoisonError::into_inner);
        if free.len() < most {
            free.push(lines);
        }
    }
}

/// Scratch memory, as large as its largest tile so far, lent to one run on a thread.
pub(super) struct Scratch {
    lines: Vec<CacheLine>,
    pool: &'static Pool,
}

impl Scratch {
    /// Memory with room for columns of `bytes`, at most [`CAPACITY`].
    pub(super) fn lend(bytes: usize) -> Self {
        POOL.lend(bytes)
    }

    /// Returns the start of the columns, and before them of the same memory [`MAX_BYTES_IN_PLACE`]
    /// bytes.
    pub(super) fn start(&mut self) -> *mut u8 {
        let start = self.lines.as_mut_ptr().cast::<u8>();
        start.wrapping_add(MAX_BYTES_IN_PLACE)
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        self.pool.take_back(std::mem::take(&mut self.lines));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_is_as_large_as_its_largest_tile() {
        static POOL: Pool = Pool::new();
        let lines = |bytes| POOL.lend(bytes).lines.len() * CACHE_LINE - MAX_BYTES_IN_PLACE;
        assert_eq!(
            [100, 5000, 1, CAPACITY, 5000].map(lines),
            [128, 5056, 5056, CAPACITY, CAPACITY]
        );
    }

    #[test]
    fn threads_keep_none() {
        static POOL: Pool = Pool::new();
        let free = || POOL.free.lock().unwrap().len();
        for _ in 0..20 {
            thread::spawn(|| drop(POOL.lend(100))).join().unwrap();
            assert_eq!(free(), 1);
        }
        let cores = thread::available_parallelism().map_or(1, NonZero::get);
        let many: Vec<Scratch> = (0..cores + 5).map(|_| POOL.lend(100)).collect();
        assert_eq!(free(), 0);
        drop(many);
        assert_eq!(free(), cores);
    }
}
