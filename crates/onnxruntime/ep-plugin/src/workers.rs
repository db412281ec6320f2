//! The threads of a run, and loops on them.

use std::cell::Cell;
use std::ffi::c_void;
use std::marker::PhantomData;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};

use ort_sys::OrtKernelContext;

use super::error::Error;
use super::fence;
use super::host::{Host, ort_try};

/// The threads of a run that goes on for `'a`: those of its session.
#[derive(Clone, Copy)]
pub struct Workers<'a> {
    host: Host,
    context: *mut OrtKernelContext,
    run: PhantomData<&'a OrtKernelContext>,
}

// SAFETY: this calls ONNX Runtime's `ParallelFor` alone, which any thread may.
unsafe impl Sync for Workers<'_> {}

thread_local! {
    /// The threads that a run around lends to this thread, and which go on as long as this is set.
    static LENT: Cell<Option<Workers<'static>>> = const { Cell::new(None) };
}

/// The number of this thread, which no other has as long as this one goes on. Unlike `ThreadId`, it leaves
/// nothing in the thread.
pub fn this_thread() -> usize {
    LENT.with(|lent| std::ptr::from_ref(lent).addr())
}

impl<'a> Workers<'a> {
    /// # Safety
    /// `context` is that of a run that goes on for `'a`, on a host of this `host`.
    pub(super) unsafe fn new(host: Host, context: *mut OrtKernelContext) -> Self {
        Self {
            host,
            context,
            run: PhantomData,
        }
    }

    /// Calls `run`, in which loops of this thread are on these threads.
    pub fn lend<T>(self, run: impl FnOnce() -> T) -> T {
        /// Sets the threads back, even after a panic.
        struct Restore(Option<Workers<'static>>);

        impl Drop for Restore {
            fn drop(&mut self) {
                LENT.set(self.0);
            }
        }

        // SAFETY: they are lent no longer than `run` takes.
        let lent = unsafe { Workers::new(self.host, self.context) };
        let _restore = Restore(LENT.replace(Some(lent)));
        run()
    }

    /// These, or those that a run around lends to this thread.
    fn or_lent(self) -> Self {
        let lent = LENT.get();
        // Another ONNX Runtime in the process has other threads.
        let lent = lent.filter(|lent| lent.host == self.host);
        lent.unwrap_or(self)
    }

    /// Calls `body` with each number below `pieces`, on as many of the threads as are free.
    fn parallel_for(self, pieces: usize, body: &Body<'_>) -> Result<(), Error> {
        let body = std::ptr::from_ref(body).cast_mut().cast();
        // A batch for each piece, so that a thread that is done takes the next.
        // SAFETY: the context is that of a run that goes on; the call returns
        // when all calls of the body have, so the body outlives them.
        unsafe {
            ort_try!(
                self.host,
                KernelContext_ParallelFor(self.context, call, pieces, pieces, body)
            );
        }
        Ok(())
    }
}

/// A parallel loop on the threads of a run.
pub struct ParallelLoop<'a> {
    workers: Workers<'a>,
    panicked: AtomicBool,
    failed: OnceLock<Error>,
}

/// The argument of every call of the loop's body.
struct Body<'a> {
    work: &'a (dyn Fn(usize) + Sync),
    panicked: &'a AtomicBool,
}

impl<'a> ParallelLoop<'a> {
    /// A loop on these threads, or on those that a run around lends.
    pub fn new(workers: Workers<'a>) -> Self {
        Self {
            workers: workers.or_lent(),
            panicked: AtomicBool::new(false),
            failed: OnceLock::new(),
        }
    }

    /// Calls `work` with each number below `pieces`, on as many of the threads as are free.
    pub fn run(&self, pieces: usize, work: &(dyn Fn(usize) + Sync)) {
        let body = Body {
            work,
            panicked: &self.panicked,
        };
        if let Err(error) = self.workers.parallel_for(pieces, &body) {
            // A second error of the same run says no more than the first.
            let _ = self.failed.set(error);
        }
    }

    /// Whether all went well.
    pub fn finish(self) -> Result<(), Error> {
        if self.panicked.load(Ordering::Relaxed) {
            return Err(Error::Panic {
                message: String::from("in a parallel loop"),
            });
        }
        self.failed.into_inner().map_or(Ok(()), Err)
    }
}

/// # Safety
/// `body` is a [`Body`] that lives until this returns.
unsafe extern "C" fn call(body: *mut c_void, piece: usize) {
    // SAFETY: the caller's; other threads, too, have shared references only.
    let body = unsafe { &*body.cast_const().cast::<Body<'_>>() };
    let done = fence::value(false, || {
        fence::fault("parallel");
        (body.work)(piece);
        true
    });
    if !done {
        body.panicked.store(true, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use std::ptr;

    use super::*;
    use crate::fake_host;

    #[test]
    fn threads_are_lent_to_runs_of_the_same_host() {
        let (one, other) = (fake_host::host(), fake_host::host());
        let mut contexts = [0_u8; 2];
        let [outer, inner] = contexts.each_mut().map(|it| ptr::from_mut(it).cast());
        // SAFETY: nothing is called.
        let workers = |host, context| unsafe { Workers::new(host, context) };
        let found = |host| workers(host, inner).or_lent().context;
        workers(one, outer).lend(|| {
            assert_eq!(found(one), outer);
            assert_eq!(found(other), inner);
            workers(other, outer).lend(|| assert_eq!(found(one), inner));
            assert_eq!(found(one), outer);
        });
        assert_eq!(found(one), inner);
    }
}
