//! The pieces of work that are taken and those that are done, whoever asks for them and how often.

use smallvec::SmallVec;

// The standard library's, or those that the model in `tests/claims.rs` checks this file with.
use super::sync::atomic::{AtomicU8, Ordering};
use super::thread;

/// No thread has claimed the piece.
const FREE: u8 = 0;
/// A thread works on it.
const CLAIMED: u8 = 1;
/// The work on it is done.
const DONE: u8 = 2;
/// The work on it panicked.
const PANICKED: u8 = 3;

/// Pieces of work, each of which is done once.
pub(super) struct Claims {
    pieces: SmallVec<[AtomicU8; 64]>,
}

impl Claims {
    pub(super) fn new(pieces: usize) -> Self {
        Self {
            pieces: (0..pieces).map(|_| AtomicU8::new(FREE)).collect(),
        }
    }

    /// The number of pieces.
    pub(super) fn len(&self) -> usize {
        self.pieces.len()
    }

    /// Calls `work` with the number of a piece, unless a call has come to it
    /// before or there is no such piece.
    pub(super) fn run(&self, index: usize, work: impl Fn(usize)) {
        let Some(piece) = self.pieces.get(index) else {
            return;
        };
        // Which thread claims a piece says nothing about any memory, so no order is needed.
        let claim = piece.compare_exchange(FREE, CLAIMED, Ordering::Relaxed, Ordering::Relaxed);
        if claim.is_ok() {
            let mut outcome = Outcome {
                piece,
                state: PANICKED,
            };
            work(index);
            outcome.state = DONE;
        }
    }

    /// Runs every piece that is not claimed, and returns when all are done
    /// and this thread sees all bytes that they wrote.
    ///
    /// # Panics
    /// If the work on a piece panicked: it is not done, and never will be.
    pub(super) fn finish(&self, work: impl Fn(usize)) {
        for index in 0..self.len() {
            self.run(index, &work);
        }
        for (index, piece) in self.pieces.iter().enumerate() {
            loop {
                match piece.load(Ordering::Acquire) {
                    DONE => break,
                    PANICKED => panic!("the work on piece {index} of a run panicked"),
                    _ => thread::yield_now(),
                }
            }
        }
    }
}

/// Says how the work on a piece ended, also when it unwinds.
struct Outcome<'a> {
    piece: &'a AtomicU8,
    state: u8,
}

impl Drop for Outcome<'_> {
    fn drop(&mut self) {
        self.piece.store(self.state, Ordering::Release);
    }
}
