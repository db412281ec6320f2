//! On which threads a run works.

use std::fmt;
use std::ops::Range;

use rayon::iter::{IndexedParallelIterator, IntoParallelIterator, ParallelIterator};

/// Less than this many bytes are not worth another thread.
const MINIMUM_BYTES: usize = 128 << 10;

/// How many pieces each thread gets, so that one that is late finds less left.
const PIECES_PER_THREAD: usize = 4;

/// Calls a function with every number below the given one, on any threads, and
/// returns when all calls have.
pub type ParallelFor<'a> = dyn Fn(usize, &(dyn Fn(usize) + Sync)) + Sync + 'a;

/// The threads of a run: the caller chooses, this crate starts none.
#[derive(Clone, Copy)]
pub enum Threads<'a> {
    /// The calling thread alone.
    Serial,
    /// The rayon pool that the caller runs on: the global one outside any other.
    Rayon,
    /// A rayon pool of the caller's.
    RayonPool(&'a rayon::ThreadPool),
    /// A pool of the host's, such as ONNX Runtime's.
    Host {
        /// How many threads it has.
        threads: usize,
        /// Its parallel loop.
        parallel_for: &'a ParallelFor<'a>,
    },
}

impl fmt::Debug for Threads<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Serial => f.write_str("Serial"),
            Self::Rayon => f.write_str("Rayon"),
            Self::RayonPool(pool) => f.debug_tuple("RayonPool").field(pool).finish(),
            Self::Host { threads, .. } => f
                .debug_struct("Host")
                .field("threads", threads)
                .finish_non_exhaustive(),
        }
    }
}

impl Threads<'_> {
    fn count(&self) -> usize {
        match self {
            Self::Serial => 1,
            Self::Rayon => rayon::current_num_threads(),
            Self::RayonPool(pool) => pool.current_num_threads(),
            Self::Host { threads, .. } => *threads,
        }
    }

    /// Splits `items` of `item_bytes` bytes each into pieces of equal size and
    /// works on them.
    pub(crate) fn for_each_piece(
        self,
        items: usize,
        item_bytes: usize,
        work: impl Fn(Range<usize>) + Sync,
    ) {
        let bytes = items.saturating_mul(item_bytes);
        let threads = match self {
            Self::Serial => 1,
            _ if bytes < 2 * MINIMUM_BYTES => 1,
            _ => self.count(),
        };
        if threads <= 1 {
            return work(0..items);
        }
        let pieces = (bytes / MINIMUM_BYTES)
            .min(threads * PIECES_PER_THREAD)
            .clamp(1, items.max(1));
        let piece = |index: usize| {
            let boundary = |index: usize| {
                // `index <= pieces`, so this is at most `items`; the product needs 128 bits.
                (items as u128 * index as u128 / pieces as u128) as usize
            };
            work(boundary(index)..boundary(index + 1));
        };
        match self {
            Self::Serial => work(0..items),
            Self::Rayon => (0..pieces).into_par_iter().with_max_len(1).for_each(piece),
            Self::RayonPool(pool) => {
                pool.install(|| (0..pieces).into_par_iter().with_max_len(1).for_each(piece));
            }
            Self::Host { parallel_for, .. } => parallel_for(pieces, &piece),
        }
    }
}
