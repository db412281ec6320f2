//! Allocations and copies of a step.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

use revseq_tract_operators::Limits;
use tract_onnx::prelude::*;

use crate::build::{Optimize, parse, parse_within, whole};

thread_local! {
    static ALLOCATIONS: Cell<usize> = const { Cell::new(0) };
    static BYTES: Cell<usize> = const { Cell::new(0) };
}

/// The system allocator, counting the allocations of each thread.
struct Counting;

// SAFETY: every call goes to the system allocator unchanged; counting in a thread-local that needs
// no initialisation and no drop does not allocate.
#[expect(unsafe_code, reason = "an allocator cannot be counted otherwise")]
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATIONS.set(ALLOCATIONS.get() + 1);
        BYTES.set(BYTES.get() + layout.size());
        // SAFETY: the caller upholds the contract of `alloc`, which is the system allocator's.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // SAFETY: the memory came from the system allocator, with this layout.
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// The number and bytes of allocations in a step, for a state of this many elements.
fn a_step(elements: usize) -> (usize, usize) {
    let model = whole(&format!(
        "n:i64[] s:f32[{elements}] -> y
         y = Loop<body=@body>(n, _, s)
         @body: i c s -> c s1
         s1 = Neg(s)"
    ));
    let model = parse(model).unwrap().optimized().unwrap();
    let mut state = model.into_runnable().unwrap().spawn().unwrap();
    let mut taken = |steps: i64| {
        let s = Tensor::zero::<f32>(&[elements]).unwrap();
        let inputs = tvec![tensor0(steps).into(), s.into()];
        let before = (ALLOCATIONS.get(), BYTES.get());
        state.run(inputs).unwrap();
        (ALLOCATIONS.get() - before.0, BYTES.get() - before.1)
    };
    taken(1);
    let (few, many) = (taken(10), taken(110));
    assert_eq!((many.0 - few.0) % 100, 0, "each step allocates as often");
    ((many.0 - few.0) / 100, (many.1 - few.1) / 100)
}

#[test]
fn a_step_copies_no_state() {
    let (small, large) = (a_step(1), a_step(1 << 20));
    assert_eq!(small.0, large.0, "the size of a state changes how often");
    assert_eq!(small.1, large.1, "a state is copied");
    assert!(large.0 <= 8, "a step allocates {} times", large.0);
}

/// A step is not run if its values would be too large.
#[test]
fn bytes_are_counted_before_they_are_allocated() {
    let model = whole(
        "s:f32[2] -> y
         y = Loop<body=@body>(_, _, s)
         @body: i c s -> c s1
         s1 = Concat<axis=0>(s, s)",
    );
    let limits = Limits::none().with_bytes(1 << 20);
    let model = parse_within(limits, model).unwrap();
    let model = model.optimized().unwrap().into_runnable().unwrap();
    let before = BYTES.get();
    let error = model.run(tvec![tensor1(&[1_f32, 2.]).into()]);
    let taken = BYTES.get() - before;
    let error = format!("{:#}", error.expect_err("it is endless"));
    assert!(
        error.contains("take 2097152 bytes, more than the 1048576"),
        "{error}"
    );
    // All states up to the largest allowed one, each twice the size of the one before.
    assert!(taken < 3 << 20, "{taken} bytes");
}
