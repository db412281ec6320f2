//! Whatever a host's parallel loop calls, a run does every piece once.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Barrier, LazyLock};
use std::thread;

use revseq_kernels::cpu::{self, Threads};
use revseq_kernels::{
    DataType, LengthsPolicy, Plan, ReverseSubsequencesDesc, SequenceLengths, reference,
};

type Work<'a> = &'a (dyn Fn(usize) + Sync);
type Loop = fn(usize, Work<'_>);

/// Calls every number in order, on this thread.
fn sound(count: usize, work: Work<'_>) {
    (0..count).for_each(work);
}

/// Loops that do not call every number once.
const UNSOUND: [(&str, Loop); 7] = [
    ("nothing", |_, _| {}),
    ("every third left out", |count, work| {
        (0..count).filter(|index| index % 3 != 1).for_each(work);
    }),
    ("each twice", |count, work| {
        (0..2 * count).for_each(|index| work(index / 2));
    }),
    ("each twice at once", |count, work| {
        let both = Barrier::new(2);
        let call_all = || {
            for index in 0..count {
                both.wait();
                work(index);
            }
        };
        thread::scope(|scope| {
            scope.spawn(call_all);
            call_all();
        });
    }),
    ("all on more threads than it has", |count, work| {
        thread::scope(|scope| {
            for first in 0..6 {
                scope.spawn(move || (first..count).chain(0..first).for_each(work));
            }
        });
    }),
    ("numbers that are too large", |count, work| {
        (0..=count).for_each(work);
        work(usize::MAX);
    }),
    ("only numbers that are too large", |count, work| {
        work(count);
        work(isize::MAX.unsigned_abs());
    }),
];

/// Data that each kernel shares between threads, and its reverse.
struct Case {
    plan: Plan,
    lengths: Vec<i64>,
    input: Vec<u8>,
    expected: Vec<u8>,
}

impl Case {
    /// Packed sizes but for `spread`, by which all strides are multiplied.
    fn new(data_type: DataType, sizes: &[u64], axis: usize, batch: usize, spread: u64) -> Self {
        let mut desc = ReverseSubsequencesDesc::reverse_sequence(
            data_type,
            sizes,
            batch as u32,
            axis as u32,
            DataType::Int64,
        )
        .unwrap();
        for tensor in [&mut desc.input, &mut desc.output] {
            let strides = tensor.effective_strides().unwrap();
            tensor.strides = Some(strides.iter().map(|stride| stride * spread).collect());
        }
        let plan = Plan::new(&desc).unwrap();
        // The last is the longest, so that in place, too, there is something to share.
        let longest = sizes[axis];
        let lengths: Vec<_> = (1..=sizes[batch])
            .map(|index| (longest - (sizes[batch] - index) * 7919 % longest) as i64)
            .collect();
        let input: Vec<_> = (0..plan.input_bytes() as u32)
            .map(|index| index.wrapping_mul(2_654_435_761).to_be_bytes()[0])
            .collect();
        let mut expected = input.clone();
        reference::reverse_subsequences(&desc, &input, &lengths, &mut expected);
        Self {
            plan,
            lengths,
            input,
            expected,
        }
    }

    /// Runs out of place and in place by a host's loop, and checks that it shares.
    fn check(&self, name: &str, threads: usize, host: impl Fn(usize, Work<'_>) + Sync) {
        let most = AtomicUsize::new(0);
        let parallel_for = |count: usize, work: Work<'_>| {
            most.fetch_max(count, Ordering::Relaxed);
            host(count, work);
        };
        let threads = Threads::Host {
            threads,
            parallel_for: &parallel_for,
        };
        let plan = &self.plan;
        let lengths = SequenceLengths::new(plan, &self.lengths, LengthsPolicy::Reject).unwrap();

        // Every byte is another one, but for those between the strides.
        let mut output = self.input.clone();
        for (output, expected) in output.iter_mut().zip(&self.expected) {
            if *output != *expected {
                *output = !*expected;
            }
        }
        cpu::run(plan, &lengths, &self.input, &mut output, threads).unwrap();
        assert!(output == self.expected, "out of place, {name}, {plan:?}");
        assert!(most.swap(0, Ordering::Relaxed) > 1, "{plan:?}");

        let mut data = self.input.clone();
        cpu::run_in_place(plan, &lengths, &mut data, threads).unwrap();
        assert!(data == self.expected, "in place, {name}, {plan:?}");
        assert!(most.load(Ordering::Relaxed) > 1, "{plan:?}");
    }
}

static CASES: LazyLock<[Case; 6]> = LazyLock::new(|| {
    [
        // Rows, elements, narrow rows, columns, and one by one.
        Case::new(DataType::Float32, &[30, 70, 600], 1, 0, 1),
        Case::new(DataType::Float32, &[70, 30, 600], 0, 1, 1),
        Case::new(DataType::Float32, &[1300, 1000], 1, 0, 1),
        Case::new(DataType::Uint8, &[1800, 1000, 3], 1, 0, 1),
        Case::new(DataType::Float32, &[1000, 1300], 0, 1, 1),
        Case::new(DataType::Float32, &[500, 400], 1, 0, 2),
    ]
});

#[test]
fn every_piece_is_done_once_for_any_host() {
    for case in &*CASES {
        case.check("sound", 3, sound);
        for (name, host) in UNSOUND {
            case.check(name, 3, host);
        }
    }
}

#[test]
fn a_host_has_any_number_of_threads() {
    let case = Case::new(DataType::Float32, &[1300, 1000], 1, 0, 1);
    for threads in [2, 1000, usize::MAX / 2, usize::MAX] {
        case.check("sound", threads, sound);
    }
}

#[test]
fn a_panic_of_a_host_ends_the_run() {
    for case in &*CASES {
        let lengths =
            SequenceLengths::new(&case.plan, &case.lengths, LengthsPolicy::Reject).unwrap();
        let parallel_for = |count: usize, work: Work<'_>| {
            (0..count / 2).for_each(work);
            std::panic::resume_unwind(Box::new("host"));
        };
        let threads = Threads::Host {
            threads: 3,
            parallel_for: &parallel_for,
        };
        let mut data = case.input.clone();
        let run = || cpu::run_in_place(&case.plan, &lengths, &mut data, threads);
        let payload = catch_unwind(AssertUnwindSafe(run)).unwrap_err();
        assert_eq!(payload.downcast_ref(), Some(&"host"));
        assert!(data != case.expected);
    }
}
