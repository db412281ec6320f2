//! The memory that threads keep after they have run a session.

use std::alloc::{GlobalAlloc, Layout, System};
use std::path::Path;
use std::sync::atomic::{AtomicIsize, Ordering};
use std::sync::mpsc;
use std::thread;

use revseq_tract::{Session, Size};
use tract_onnx::prelude::*;

/// The bytes that are allocated.
static LIVE: AtomicIsize = AtomicIsize::new(0);

/// The system allocator, counting the bytes that are in use.
struct Counting;

// SAFETY: every call goes to the system allocator unchanged, and counting does not allocate.
#[expect(unsafe_code, reason = "an allocator cannot be counted otherwise")]
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        LIVE.fetch_add(layout.size().cast_signed(), Ordering::Relaxed);
        // SAFETY: the caller upholds the contract of `alloc`, which is the system allocator's.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        LIVE.fetch_sub(layout.size().cast_signed(), Ordering::Relaxed);
        // SAFETY: the memory came from the system allocator, with this layout.
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// The most bytes that a thread may keep.
const MOST: isize = 16 << 10;

/// The bytes that a session may keep for the runs that were in progress at once, whose number varies:
/// less than a run of each thread takes.
const MOST_OF_SESSION: isize = 1 << 20;

/// Threads that have run once.
const THREADS: usize = 8;

/// Threads that run at once.
const MANY_THREADS: usize = 40;

/// Inputs of a session, with so many elements where the model leaves a size open.
fn inputs(session: &Session, open: usize) -> Vec<(String, Tensor)> {
    let inputs = session.inputs().iter().map(|input| {
        let sizes = input.sizes.iter().flatten().map(|size| match size {
            Size::Known(size) => *size,
            _ => open,
        });
        let sizes: Vec<usize> = sizes.collect();
        let value = Tensor::zero_dt(input.datum_type.unwrap(), &sizes);
        (input.name.clone(), value.unwrap())
    });
    inputs.collect()
}

/// Returns the bytes that each of some threads has kept after a run of a session, while none has ended.
fn kept_by_thread(session: &Session, inputs: &[(String, Tensor)]) -> isize {
    let (done, finished) = mpsc::channel();
    thread::scope(|scope| {
        let mut ends = vec![];
        let mut first = 0;
        for thread in 0..=THREADS {
            let (end, wait) = mpsc::channel::<()>();
            let (done, inputs) = (done.clone(), inputs.to_vec());
            scope.spawn(move || {
                session.run(inputs).unwrap();
                done.send(()).unwrap();
                wait.recv().unwrap_err();
            });
            finished.recv().unwrap();
            ends.push(end);
            if thread == 0 {
                first = LIVE.load(Ordering::Relaxed);
            }
        }
        (LIVE.load(Ordering::Relaxed) - first) / THREADS.cast_signed()
    })
}

/// Runs a session of a model on many threads at once, with sizes of each; returns the bytes that are kept
/// when all have ended.
fn kept_by_session(session: &Session, sizes: std::ops::Range<usize>) -> isize {
    thread::scope(|scope| {
        for thread in 0..MANY_THREADS {
            let sizes = sizes.clone();
            scope.spawn(move || {
                for size in sizes.filter(|size| size % 4 == thread % 4) {
                    session.run(inputs(session, size)).unwrap();
                }
            });
        }
    });
    LIVE.load(Ordering::Relaxed)
}

#[test]
fn threads_keep_little_of_what_their_runs_took() {
    let models = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../models");
    for (model, size) in [
        ("exported/keras_bilstm_masked", 200),
        ("exported/tf_speech_bigru_timemajor", 200),
        ("exported/tf_while_reverse_sequence", 100),
        ("exported/mxnet_sequence_reverse_encoder", 100),
    ] {
        let session = Session::open(models.join(model).join("model.onnx")).unwrap();
        let inputs = inputs(&session, size);
        let kept = kept_by_thread(&session, &inputs);
        assert!(kept < MOST, "{model}: a thread keeps {kept} bytes");
        // Sizes and threads come and go.
        let few = kept_by_session(&session, 1..5);
        let many = kept_by_session(&session, 1..13);
        let kept = many - few;
        assert!(
            kept < MOST_OF_SESSION,
            "{model}: the session keeps {kept} bytes more"
        );
    }
}
