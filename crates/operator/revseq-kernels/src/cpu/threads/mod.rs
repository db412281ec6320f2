//! The threads of a run, and the pieces of work that they share.

mod claims;
#[cfg(all(test, feature = "rayon"))]
mod tests;

use std::fmt;
use std::ops::Range;
// For `claims`, which the model of its threads gives others.
use std::{sync, thread};

use claims::Claims;

/// The least bytes of a piece.
const PIECE_BYTES: usize = 128 << 10;

/// Number of pieces for each thread, so that one that is late finds less left.
const PIECES_PER_THREAD: usize = 4;

/// Calls a function with every number below the given one, on any threads, and
/// returns when all calls have.
///
/// A run is right whatever it calls: a number that comes again, or is too large,
/// does nothing, and omitted ones are done by the calling thread, which takes
/// longer. If it panics, so does the run.
pub type ParallelFor<'a> = dyn Fn(usize, &(dyn Fn(usize) + Sync)) + Sync + 'a;

/// The threads of a run: the caller chooses, this crate starts none.
///
/// By default those of [`Rayon`](Self::Rayon), or the calling one without the feature `rayon`.
#[derive(Clone, Copy, Default)]
#[non_exhaustive]
pub enum Threads<'a> {
    /// The calling thread alone.
    #[cfg_attr(not(feature = "rayon"), default)]
    Serial,
    /// The rayon pool that the caller runs on: the global one outside any other.
    #[cfg(feature = "rayon")]
    #[default]
    Rayon,
    /// A rayon pool of the caller's.
    #[cfg(feature = "rayon")]
    RayonPool(&'a rayon::ThreadPool),
    /// A pool of the host's, such as ONNX Runtime's.
    Host {
        /// Number of its threads.
        threads: usize,
        /// Its parallel loop.
        parallel_for: &'a ParallelFor<'a>,
    },
}

impl fmt::Debug for Threads<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Serial => f.write_str("Serial"),
            #[cfg(feature = "rayon")]
            Self::Rayon => f.write_str("Rayon"),
            #[cfg(feature = "rayon")]
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
            #[cfg(feature = "rayon")]
            Self::Rayon => rayon::current_num_threads(),
            #[cfg(feature = "rayon")]
            Self::RayonPool(pool) => pool.current_num_threads(),
            Self::Host { threads, .. } => *threads,
        }
    }

    /// Splits `items` of `item_bytes` bytes each into pieces of equal size and
    /// works on them; alone if they are fewer bytes than are `parallel_min`.
    pub(crate) fn for_each_piece(
        self,
        items: usize,
        item_bytes: usize,
        parallel_min: usize,
        work: impl Fn(Range<usize>) + Sync,
    ) {
        let bytes = items.saturating_mul(item_bytes);
        // As many pieces as if they were as large as always.
        #[cfg(fuzzing)]
        let (bytes, parallel_min) = match crate::fuzzing::piece_bytes() {
            Some(least) => ((bytes / least).saturating_mul(PIECE_BYTES), 0),
            None => (bytes, parallel_min),
        };
        let threads = if bytes < parallel_min {
            1
        } else {
            self.count()
        };
        if threads <= 1 {
            return work(0..items);
        }
        let pieces = (bytes / PIECE_BYTES)
            .min(threads.saturating_mul(PIECES_PER_THREAD))
            .clamp(1, items.max(1));
        let piece = |index: usize| {
            let boundary = |index: usize| {
                // `index <= pieces`, so this is at most `items`; the product needs 128 bits.
                (items as u128 * index as u128 / pieces as u128) as usize
            };
            work(boundary(index)..boundary(index + 1));
        };
        let claims = Claims::new(pieces);
        match self {
            Self::Serial => work(0..items),
            #[cfg(feature = "rayon")]
            Self::Rayon => {
                rayon::in_place_scope(|scope| share(scope, &claims, threads, &piece));
            }
            #[cfg(feature = "rayon")]
            Self::RayonPool(pool) => {
                pool.in_place_scope(|scope| share(scope, &claims, threads, &piece));
            }
            Self::Host { parallel_for, .. } => {
                // The host may pass any numbers: each piece is run once. As the reference
                // ends with the loop, so have all calls when it returns; how it knows need
                // not make their writes visible here.
                parallel_for(pieces, &|index| claims.run(index, piece));
                claims.finish(piece);
            }
        }
    }
}

/// Runs all pieces on the calling thread and those of a pool.
#[cfg(feature = "rayon")]
fn share<'scope>(
    scope: &rayon::Scope<'scope>,
    claims: &'scope Claims,
    threads: usize,
    piece: &'scope (impl Fn(usize) + Sync),
) {
    // The calling thread works, too, and does not wait for another to wake.
    let sharers = threads.min(claims.len());
    for sharer in 1..sharers {
        scope.spawn(move |_| take(claims, sharers, sharer, piece));
    }
    take(claims, sharers, 0, piece);
}

/// Works on unclaimed pieces, from the share of `sharer` on.
///
/// The pieces make as many shares of neighbours as there are threads. A thread
/// begins with its own share, the same in every run, whose bytes it may have in
/// its caches, and shares one border with the next: lines that are written in
/// turns on two sides of a border are slow between caches that are far apart. [M42]
#[cfg(feature = "rayon")]
fn take(claims: &Claims, sharers: usize, sharer: usize, piece: impl Fn(usize)) {
    let pieces = claims.len();
    let first = pieces * sharer / sharers;
    for index in (first..pieces).chain(0..first) {
        claims.run(index, &piece);
    }
}
