//! A run allocates nothing, once a thread has the scratch memory that it needs.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

use revseq_kernels::cpu::{self, SimdLevel, Threads};
use revseq_kernels::{DataType, LengthsPolicy, Plan, ReverseSubsequencesDesc, SequenceLengths};

thread_local! {
    static ALLOCATED: Cell<usize> = const { Cell::new(0) };
}

/// The system's allocator, which counts the bytes of each thread.
struct Counting;

#[global_allocator]
static ALLOCATOR: Counting = Counting;

// SAFETY: everything is handed on to the system's allocator.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATED.set(ALLOCATED.get() + layout.size());
        // SAFETY: the caller's.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, memory: *mut u8, layout: Layout) {
        // SAFETY: the caller's.
        unsafe { System.dealloc(memory, layout) };
    }
}

/// The bytes that `work` allocates on this thread.
fn allocated(work: impl FnOnce()) -> usize {
    let before = ALLOCATED.get();
    work();
    ALLOCATED.get() - before
}

#[test]
fn runs_allocate_nothing_but_scratch_memory_once() {
    // The level is found once, from the environment, which is copied for it.
    assert!(SimdLevel::current().is_supported());
    let mut scratch = 0;
    for (data_type, sizes, axis, batch) in [
        (DataType::Float32, vec![4, 4], 0, 1),
        (DataType::Float32, vec![64, 32, 256], 0, 1),
        (DataType::Float32, vec![32, 64, 256], 1, 0),
        (DataType::Uint8, vec![100, 3000], 1, 0),
        (DataType::Uint8, vec![100, 3000, 3], 1, 0),
        (DataType::Uint8, vec![3000, 100], 0, 1),
        (DataType::Float32, vec![4096, 300], 0, 1),
        (DataType::Float16, vec![3, 500, 7, 64], 1, 2),
        (DataType::Float32, vec![4000, 4096], 1, 0),
    ] {
        let desc = ReverseSubsequencesDesc::reverse_sequence(
            data_type,
            &sizes,
            batch as u32,
            axis as u32,
            DataType::Int64,
        )
        .unwrap();
        let plan = Plan::new(&desc).unwrap();
        let input = vec![1; plan.input_bytes()];
        let mut output = vec![0; plan.output_bytes()];
        for equal in [false, true] {
            let lengths: Vec<i64> = (0..sizes[batch])
                .map(|index| match equal {
                    true => sizes[axis] as i64 / 2,
                    false => (index * 7919 % (sizes[axis] + 1)) as i64,
                })
                .collect();
            let mut run = || {
                let lengths = SequenceLengths::new(&plan, &lengths, LengthsPolicy::Reject).unwrap();
                cpu::run(&plan, &lengths, &input, &mut output, Threads::Serial).unwrap();
                cpu::run_in_place(&plan, &lengths, &mut output, Threads::Serial).unwrap();
            };
            // A thread that needs more drops what it had.
            scratch = scratch.max(allocated(&mut run));
            assert_eq!(allocated(run), 0, "{plan:?}");
        }
    }
    assert!((1..=1 << 20).contains(&scratch), "{scratch} bytes");
}
