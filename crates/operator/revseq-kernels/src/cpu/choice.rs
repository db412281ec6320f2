//! The decisions for a run: a kernel, a tier and instructions.

use std::fmt;

use super::threads::Threads;
use crate::simd_level::SimdLevel;

/// Choice of the way in which [`run`](super::run) and [`run_in_place`](super::run_in_place) move
/// the bytes of a plan: the kernel, how far away the bytes are, and the instructions.
///
/// Displayed as in `rows, far`, without the instructions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KernelChoice {
    pub(crate) kernel: Kernel,
    pub(crate) tier: Tier,
    pub(crate) simd: SimdLevel,
    pub(crate) in_place: bool,
}

/// A kernel: a file or a folder beside this one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kernel {
    /// Row by row, by any strides: small plans, and those that no other kernel takes.
    Small,
    /// Rows that move as they are.
    Rows,
    /// Rows one after the other along time, reversed together.
    Lines,
    /// Narrow rows beside each other with lengths of their own: tiles are transposed.
    Columns,
}

/// Distance of a run's bytes from the processor, which decides how they are read ahead and written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Tier {
    /// The first level of the cache: nothing is prefetched.
    Near,
    /// Outer levels, and memory where nothing can be streamed: prefetched, and written through the
    /// caches.
    Far,
    /// Memory beyond the caches: prefetched, and written past them.
    Streamed,
}

impl KernelChoice {
    /// The kernel's name, such as `rows`.
    #[must_use]
    pub fn kernel(&self) -> &'static str {
        match self.kernel {
            Kernel::Small => "small",
            Kernel::Rows => "rows",
            Kernel::Lines => "lines",
            Kernel::Columns => "columns",
        }
    }

    /// The instructions that it uses.
    #[must_use]
    pub fn simd(&self) -> SimdLevel {
        self.simd
    }

    /// Returns the number of bytes from which on a second thread gains: one of rayon's has to be
    /// woken, which takes some ten microseconds, and a host's waits for the next call awake. [M7]
    pub(crate) fn parallel_min(&self, threads: &Threads<'_>) -> usize {
        let (host, rayon) = match self.kernel {
            Kernel::Small => (128 << 10, 512 << 10),
            Kernel::Columns => (2 << 20, 4 << 20),
            Kernel::Rows | Kernel::Lines => (1 << 20, 6 << 20),
        };
        let bytes = match threads {
            Threads::Host { .. } => host,
            _ => rayon,
        };
        // In place only about half of the pairs are swapped.
        if self.in_place { 2 * bytes } else { bytes }
    }
}

impl fmt::Display for KernelChoice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.kernel())?;
        f.write_str(match self.tier {
            Tier::Near => "",
            Tier::Far => ", far",
            Tier::Streamed => ", streamed",
        })?;
        f.write_str(if self.in_place { ", in place" } else { "" })
    }
}
