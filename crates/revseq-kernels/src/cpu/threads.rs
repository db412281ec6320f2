//! On which threads a run works.

use std::fmt;
use std::ops::Range;

use super::claims::Claims;

/// The least bytes of a piece.
const PIECE_BYTES: usize = 128 << 10;

/// How many pieces each thread gets, so that one that is late finds less left.
const PIECES_PER_THREAD: usize = 4;

/// From how many bytes on a second thread gains.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Worthwhile {
    /// If it has to be woken, as rayon's have, which takes some ten microseconds.
    pub(crate) asleep: usize,
    /// If it waits for the next run awake, as a host's does.
    pub(crate) awake: usize,
}

impl Worthwhile {
    /// Of a run that moves only half of the bytes that it is given.
    pub(crate) fn of_half(self) -> Self {
        Self {
            asleep: 2 * self.asleep,
            awake: 2 * self.awake,
        }
    }
}

/// Calls a function with every number below the given one, on any threads, and
/// returns when all calls have.
///
/// A run is right whatever it calls: a number that comes again, or is too large,
/// does nothing, and what is left out is done by the calling thread, which takes
/// longer. If it panics, so does the run.
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
    /// works on them; alone if they are fewer bytes than are `worthwhile`.
    pub(crate) fn for_each_piece(
        self,
        items: usize,
        item_bytes: usize,
        worthwhile: Worthwhile,
        work: impl Fn(Range<usize>) + Sync,
    ) {
        let bytes = items.saturating_mul(item_bytes);
        #[cfg(fuzzing)]
        let (bytes, worthwhile) = match crate::fuzzing::piece_bytes() {
            // As many pieces as if they were as large as always.
            Some(least) => (
                (bytes / least).saturating_mul(PIECE_BYTES),
                Worthwhile {
                    asleep: 0,
                    awake: 0,
                },
            ),
            None => (bytes, worthwhile),
        };
        let threads = match self {
            Self::Serial => 1,
            Self::Host { .. } if bytes < worthwhile.awake => 1,
            Self::Rayon | Self::RayonPool(_) if bytes < worthwhile.asleep => 1,
            _ => self.count(),
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
        // The calling thread works, too, and does not wait for another to wake.
        let helpers = threads.min(pieces) - 1;
        let shares = Shares::new(pieces, helpers + 1);
        let take = |sharer: usize| shares.take(sharer, piece);
        match self {
            Self::Serial => take(0),
            Self::Rayon => rayon::in_place_scope(|scope| share(scope, helpers, &take)),
            Self::RayonPool(pool) => pool.in_place_scope(|scope| share(scope, helpers, &take)),
            Self::Host { parallel_for, .. } => {
                // The host may call what it likes: each piece is run once. As the reference
                // ends with the loop, so have all calls when it returns; how it knows need
                // not make their writes visible here.
                parallel_for(pieces, &|index| shares.claims.run(index, piece));
                shares.claims.finish(piece);
            }
        }
    }
}

/// Pieces in as many shares of neighbours as there are threads.
///
/// A thread begins with its own share, the same in every run, whose bytes it
/// may have in its caches, and shares one border with the next: lines that are
/// written by turns on two sides of a border cost three times the run alone
/// between caches that are far apart (two of AMD's core complexes).
struct Shares {
    claims: Claims,
    sharers: usize,
}

impl Shares {
    fn new(pieces: usize, sharers: usize) -> Self {
        Self {
            claims: Claims::new(pieces),
            sharers,
        }
    }

    /// Works on what nobody has come to, from the share of `sharer` on.
    fn take(&self, sharer: usize, piece: impl Fn(usize)) {
        let pieces = self.claims.len();
        let first = pieces * sharer / self.sharers;
        for index in (first..pieces).chain(0..first) {
            self.claims.run(index, &piece);
        }
    }
}

/// Calls `take` with 0 on this thread, and with the numbers of `helpers` others on those.
fn share<'scope>(
    scope: &rayon::Scope<'scope>,
    helpers: usize,
    take: &'scope (impl Fn(usize) + Sync),
) {
    for helper in 1..=helpers {
        scope.spawn(move |_| take(helper));
    }
    take(0);
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Mutex;

    /// What each of the sharers takes of `pieces`, if they come in this order.
    fn taken(pieces: usize, sharers: usize, order: &[usize], most: usize) -> Vec<Vec<usize>> {
        let shares = Shares::new(pieces, sharers);
        let turn = |&sharer: &usize| {
            let of_turn = Mutex::new(Vec::new());
            shares.take(sharer, |piece| {
                of_turn.lock().unwrap().push(piece);
                // Others come while this one works.
                if of_turn.lock().unwrap().len() == most {
                    for other in order.iter().filter(|&&other| other != sharer) {
                        shares.take(*other, |piece| of_turn.lock().unwrap().push(piece));
                    }
                }
            });
            of_turn.into_inner().unwrap()
        };
        order.iter().map(turn).collect()
    }

    #[test]
    fn a_thread_begins_with_its_own_share_and_takes_what_others_leave() {
        assert_eq!(taken(6, 2, &[1, 0], 6), [vec![3, 4, 5, 0, 1, 2], vec![]]);
        assert_eq!(taken(5, 3, &[2], 5), [[3, 4, 0, 1, 2]]);
        assert_eq!(taken(6, 2, &[0, 1], 2), [vec![0, 1, 3, 4, 5, 2], vec![]]);
    }

    #[test]
    fn every_piece_is_taken_once() {
        for pieces in 1..70 {
            for sharers in 1..=pieces.min(9) {
                let order: Vec<_> = (0..sharers).rev().collect();
                for most in [1, 3, pieces] {
                    let mut all = taken(pieces, sharers, &order, most).concat();
                    all.sort_unstable();
                    assert_eq!(all, (0..pieces).collect::<Vec<_>>());
                }
            }
        }
    }
}
