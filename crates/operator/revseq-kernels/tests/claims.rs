//! Every interleaving of threads that come to pieces of work, and every order in
//! which they can see each other's memory, by loom's model of both.
#![cfg(not(target_family = "wasm"))]

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

use loom::cell::UnsafeCell;
use loom::sync::Arc;
// loom's types for `claims.rs`, in place of the standard library's.
use loom::{sync, thread};

#[path = "../src/cpu/threads/claims.rs"]
mod claims;
use claims::Claims;

const PIECES: usize = 2;

/// Pieces, and the memory that the work on each is alone with: how often it was done.
struct Run {
    claims: Claims,
    done: [UnsafeCell<u8>; PIECES],
}

impl Run {
    fn new() -> Arc<Self> {
        Arc::new(Self {
            claims: Claims::new(PIECES),
            done: std::array::from_fn(|_| UnsafeCell::new(0)),
        })
    }

    fn work(&self, index: usize) {
        // SAFETY: loom panics if another thread reads or writes at the same time,
        // or if it does so without an order.
        self.done[index].with_mut(|done| unsafe { *done += 1 });
    }

    fn take(&self, index: usize) {
        self.claims.run(index, |index| self.work(index));
    }

    /// Finishes as the thread that called a host's loop, and checks all that was written.
    fn finish(&self) -> [u8; PIECES] {
        self.claims.finish(|index| self.work(index));
        // SAFETY: as in `work`.
        std::array::from_fn(|index| self.done[index].with(|done| unsafe { *done }))
    }
}

/// Threads that call these numbers, while the one that started them finishes
/// without waiting for any. Of more than one, all orders with at most three preemptions.
fn check(threads: &'static [&'static [usize]]) {
    let mut model = loom::model::Builder::new();
    model.preemption_bound = (threads.len() > 1).then_some(3);
    model.check(move || {
        let run = Run::new();
        let threads: Vec<_> = threads
            .iter()
            .map(|numbers| {
                let run = Arc::clone(&run);
                thread::spawn(move || numbers.iter().for_each(|&index| run.take(index)))
            })
            .collect();
        assert_eq!(run.finish(), [1; PIECES]);
        for thread in threads {
            thread.join().unwrap();
        }
        assert_eq!(run.finish(), [1; PIECES], "nothing is done again");
    });
}

#[test]
fn each_piece_is_done_once_if_each_is_called_once() {
    check(&[&[1, 0]]);
    check(&[&[0], &[1]]);
}

#[test]
fn each_piece_is_done_once_if_some_are_called_again() {
    check(&[&[1, 1, 0, 1]]);
    check(&[&[0, 1], &[0, 1]]);
}

#[test]
fn each_piece_is_done_once_if_some_are_not_called_or_do_not_exist() {
    check(&[]);
    check(&[&[PIECES, 1, usize::MAX]]);
    check(&[&[1], &[PIECES, 1]]);
}

/// A host may go on after a piece has panicked; the run must not.
#[test]
fn a_panic_on_another_thread_is_not_waited_for_and_not_lost() {
    loom::model(|| {
        let run = Run::new();
        let other = Arc::clone(&run);
        let thread = thread::spawn(move || {
            let fails = |index| {
                other.work(index);
                resume_unwind(Box::new("piece"));
            };
            let take = AssertUnwindSafe(|| other.claims.run(0, fails));
            catch_unwind(take).is_err()
        });
        let finished = catch_unwind(AssertUnwindSafe(|| run.finish()));
        let panicked = thread.join().unwrap();
        assert_eq!(finished.is_err(), panicked);
    });
}
