//! On which threads a run works.

use std::fmt;
use std::ops::Range;
use std::sync::atomic::{AtomicUsize, Ordering};

/// The least bytes of a piece.
const PIECE_BYTES: usize = 128 << 10;

/// How much less is worth a host's threads, which wait for the next run awake,
/// than rayon's, which sleep.
const HOST_IS_READIER: usize = 4;

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
    /// works on them; alone if they are less than `worthwhile` bytes.
    pub(crate) fn for_each_piece(
        self,
        items: usize,
        item_bytes: usize,
        worthwhile: usize,
        work: impl Fn(Range<usize>) + Sync,
    ) {
        let bytes = items.saturating_mul(item_bytes);
        let threads = match self {
            Self::Serial => 1,
            Self::Host { .. } if bytes < worthwhile / HOST_IS_READIER => 1,
            Self::Rayon | Self::RayonPool(_) if bytes < worthwhile => 1,
            _ => self.count(),
        };
        if threads <= 1 {
            return work(0..items);
        }
        let pieces = (bytes / PIECE_BYTES)
            .min(threads * PIECES_PER_THREAD)
            .clamp(1, items.max(1));
        let piece = |index: usize| {
            let boundary = |index: usize| {
                // `index <= pieces`, so this is at most `items`; the product needs 128 bits.
                (items as u128 * index as u128 / pieces as u128) as usize
            };
            work(boundary(index)..boundary(index + 1));
        };
        // The calling thread works, too, and does not wait for another to wake.
        let next = AtomicUsize::new(0);
        let take = || {
            loop {
                let index = next.fetch_add(1, Ordering::Relaxed);
                if index >= pieces {
                    break;
                }
                piece(index);
            }
        };
        let helpers = threads.min(pieces) - 1;
        match self {
            Self::Serial => take(),
            Self::Rayon => rayon::in_place_scope(|scope| share(scope, helpers, &take)),
            Self::RayonPool(pool) => pool.in_place_scope(|scope| share(scope, helpers, &take)),
            Self::Host { parallel_for, .. } => parallel_for(pieces, &piece),
        }
    }
}

/// Calls `take` on this thread and on `helpers` others.
fn share<'scope>(scope: &rayon::Scope<'scope>, helpers: usize, take: &'scope (impl Fn() + Sync)) {
    for _ in 0..helpers {
        scope.spawn(|_| take());
    }
    take();
}
