//! Waiting, for futures and for locks.

use std::future::Future;
use std::pin::pin;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::task::{Poll, Waker};

/// The result of a future of wgpu's, which on native platforms is ready at once.
pub(super) fn ready<T>(future: impl Future<Output = T>) -> T {
    let mut future = pin!(future);
    let mut task = std::task::Context::from_waker(Waker::noop());
    loop {
        match future.as_mut().poll(&mut task) {
            Poll::Ready(result) => return result,
            Poll::Pending => std::thread::yield_now(),
        }
    }
}

/// Locks a cache, which a thread that panicked leaves whole.
pub(super) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
