//! Every interleaving of threads that compute shares in phases, and every order in which they can see
//! each other's memory, by loom's model of both.
#![cfg(not(target_family = "wasm"))]

use loom::sync::Arc;
// loom's types for `shares.rs`, in place of the standard library's.
use loom::{hint, sync, thread};
use sync::atomic::{AtomicBool, Ordering};

#[path = "../src/team/shares.rs"]
mod shares;
use shares::{Share, Shares, Work};

/// A thread looks once before it helps: to the model, all waiting is the same.
const SPINS: usize = 1;
const PATIENCE: usize = 0;

/// Adds up the results of all shares in the phase before.
struct Sum {
    shares: usize,
    /// The phase before which the run ends.
    end: usize,
}

impl Work for Sum {
    /// The phases that were computed.
    type Units = usize;
    type Results = usize;
    type All = Vec<usize>;

    fn room(&self) -> Option<Vec<usize>> {
        Some(vec![])
    }

    fn collect(&self, share: &Share<usize, usize>, from: &usize, to: &mut Vec<usize>) {
        to.resize(share.width, 0);
        to[share.range.start] = *from;
    }

    fn is_stopped(&self, phase: usize) -> bool {
        phase >= self.end
    }

    fn compute(
        &self,
        share: usize,
        phase: usize,
        all: &Vec<usize>,
        units: &mut usize,
        results: &mut usize,
    ) {
        assert_eq!(*units, phase, "share {share} skips or repeats a phase");
        let before: Vec<usize> = (0..self.shares)
            .map(|it| result(self.shares, phase, it))
            .collect();
        assert_eq!(*all, before, "share {share} in phase {phase}");
        *units += 1;
        *results = all.iter().sum::<usize>() + share;
    }
}

/// The result of a share after so many phases.
fn result(shares: usize, phases: usize, share: usize) -> usize {
    match phases {
        0 => 0,
        _ => {
            (0..shares)
                .map(|it| result(shares, phases - 1, it))
                .sum::<usize>()
                + share
        }
    }
}

struct Run {
    sum: Sum,
    shares: Vec<Share<usize, usize>>,
    phases: usize,
    is_broken: AtomicBool,
}

impl Run {
    fn shares(&self) -> Shares<'_, Sum> {
        Shares {
            work: &self.sum,
            shares: &self.shares,
            phases: self.phases,
            is_broken: &self.is_broken,
        }
    }
}

/// Runs so many threads, the calling one included, over shares and phases.
fn check(threads: usize, shares: usize, phases: usize) {
    check_until(usize::MAX, threads, shares, phases);
}

/// The same of a run that ends before a phase.
fn check_until(end: usize, threads: usize, shares: usize, phases: usize) {
    let mut model = loom::model::Builder::new();
    model.preemption_bound = Some(2);
    model.check(move || {
        let share = |index: usize| Share {
            range: index..index + 1,
            width: shares,
            ..Share::default()
        };
        let run = Arc::new(Run {
            sum: Sum { shares, end },
            shares: (0..shares).map(share).collect(),
            phases,
            is_broken: AtomicBool::new(false),
        });
        let others: Vec<_> = (1..threads)
            .map(|_| {
                let run = Arc::clone(&run);
                thread::spawn(move || run.shares().run())
            })
            .collect();
        run.shares().run();
        for other in others {
            other.join().unwrap();
        }
        assert_eq!(run.is_broken.load(Ordering::Acquire), end < phases);
        if end < phases {
            return;
        }
        let mut all = vec![];
        run.shares().gather(phases, &mut all);
        let expected: Vec<usize> = (0..shares).map(|it| result(shares, phases, it)).collect();
        assert_eq!(all, expected);
    });
}

#[test]
fn one_thread_computes_all_shares() {
    check(1, 3, 3);
}

#[test]
fn threads_compute_each_phase_of_each_share_once() {
    check(2, 2, 2);
}

#[test]
fn threads_that_come_late_find_nothing_left() {
    check(2, 1, 2);
}

#[test]
fn no_thread_waits_for_others_when_the_run_ends() {
    check_until(1, 2, 2, 2);
}
