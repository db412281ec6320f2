//! What is done with a run: the kernel, how far away the bytes are, and the instructions.

use std::fmt;

use super::threads::ParallelMin;
use crate::simd_level::SimdLevel;

/// What [`run`](super::run) and [`run_in_place`](super::run_in_place) do, and why one shape takes
/// longer than another: the kernel, how far away the bytes are, and the instructions.
///
/// Shown as in `rows, far`: what is shown of one plan differs between processors only where the
/// widths of their vectors decide.
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
    /// Row by row, by any strides: what is small, and what no other kernel takes.
    Small,
    /// Rows that move as they are.
    Rows,
    /// Rows one after the other along time, reversed together.
    Lines,
    /// Narrow rows beside each other with lengths of their own: tiles are transposed.
    Columns,
}

/// How far away a run's bytes are, and so how they are read ahead and written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Tier {
    /// In the first level of the cache: nothing is prefetched.
    Near,
    /// In outer levels: prefetched, and written through the caches. In place, or beyond them.
    Far,
    /// Beyond the caches: prefetched, and written past them.
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

    /// From how many bytes on a second thread gains. [M7]
    pub(crate) fn parallel_min(&self) -> ParallelMin {
        let (rayon, host) = match self.kernel {
            Kernel::Small => (512 << 10, 128 << 10),
            Kernel::Columns => (4 << 20, 2 << 20),
            Kernel::Rows | Kernel::Lines => (6 << 20, 1 << 20),
        };
        match self.in_place {
            // Of the pairs about half are exchanged.
            true => ParallelMin {
                rayon: 2 * rayon,
                host: 2 * host,
            },
            false => ParallelMin { rayon, host },
        }
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
        match self.in_place {
            true => f.write_str(", in place"),
            false => Ok(()),
        }
    }
}
