//! What ends a run early: a deadline, or another thread that asks for it.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use recurrent_layers::Stop;

/// What may end a run: a flag that any thread raises, and a deadline.
///
/// Clones share the flag.
///
/// ```
/// use std::time::Duration;
/// use revseq_tract_operators::Interrupt;
///
/// let interrupt = Interrupt::new().with_time(Duration::from_secs(2));
/// let raised_elsewhere = interrupt.clone();
/// std::thread::spawn(move || raised_elsewhere.raise()).join().unwrap();
/// assert!(interrupt.is_raised());
/// ```
#[derive(Clone, Debug, Default)]
pub struct Interrupt {
    own: End,
    /// Those of the scopes around it, which end the run as well, each of them once.
    around: Vec<End>,
}

/// What ends a run.
#[derive(Clone, Debug, Default)]
struct End {
    flag: Arc<AtomicBool>,
    deadline: Option<Deadline>,
}

impl PartialEq for End {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.flag, &other.flag) && self.deadline == other.deadline
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Deadline {
    at: Instant,
    /// The time from when it was set.
    time: Option<Duration>,
}

/// The reason why a run has ended early.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Interrupted {
    /// [`Interrupt::raise`] was called.
    #[error("the run was interrupted")]
    Raised,
    /// The time of [`Interrupt::with_time`] or [`Limits::with_time`](crate::Limits::with_time) was over.
    #[error("the run took longer than the {0:?} that are allowed")]
    Time(Duration),
    /// The deadline of [`Interrupt::with_deadline`] had passed.
    #[error("the run did not end before its deadline")]
    Deadline,
}

impl Interrupt {
    /// Nothing ends a run until it is [raised](Self::raise).
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Ends runs after a time from now.
    #[must_use]
    pub fn with_time(self, time: Duration) -> Self {
        match Instant::now().checked_add(time) {
            Some(at) => self.until(Deadline {
                at,
                time: Some(time),
            }),
            // No clock reaches it.
            None => self,
        }
    }

    /// Ends runs at a deadline.
    #[must_use]
    pub fn with_deadline(self, at: Instant) -> Self {
        self.until(Deadline { at, time: None })
    }

    /// The earlier of two deadlines counts.
    fn until(mut self, deadline: Deadline) -> Self {
        let earlier = self.own.deadline.filter(|it| it.at <= deadline.at);
        self.own.deadline = Some(earlier.unwrap_or(deadline));
        self
    }

    /// Ends all runs that look at this or a clone, now and later.
    pub fn raise(&self) {
        self.own.flag.store(true, Ordering::Relaxed);
    }

    /// Whether it was raised.
    #[must_use]
    pub fn is_raised(&self) -> bool {
        self.own.flag.load(Ordering::Relaxed)
    }

    /// The same within a scope, which ends runs as well.
    pub(crate) fn within(&self, scope: Option<&Self>) -> Self {
        let mut inner = self.clone();
        for end in scope.into_iter().flat_map(Self::ends) {
            if inner.ends().all(|it| it != end) {
                inner.around.push(end.clone());
            }
        }
        inner
    }

    /// All that ends the run, the innermost first.
    fn ends(&self) -> impl Iterator<Item = &End> {
        std::iter::once(&self.own).chain(&self.around)
    }

    /// Checks whether a run may go on.
    ///
    /// # Errors
    /// The reason why not.
    pub fn check(&self) -> Result<(), Interrupted> {
        self.ends().try_for_each(End::check)
    }
}

impl End {
    fn check(&self) -> Result<(), Interrupted> {
        if self.flag.load(Ordering::Relaxed) {
            return Err(Interrupted::Raised);
        }
        match self.deadline {
            Some(Deadline { at, time }) if Instant::now() >= at => {
                Err(time.map_or(Interrupted::Deadline, Interrupted::Time))
            }
            _ => Ok(()),
        }
    }
}

impl Stop for Interrupt {
    fn is_wanted(&self) -> bool {
        self.check().is_err()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::run::check;

    #[test]
    fn the_earliest_deadline_and_any_flag_count() {
        let (soon, late) = (Duration::ZERO, Duration::from_secs(3600));
        let both = Interrupt::new().with_time(late).with_time(soon);
        assert_eq!(both.check(), Err(Interrupted::Time(soon)));
        let both = Interrupt::new().with_time(soon).with_time(late);
        assert_eq!(both.check(), Err(Interrupted::Time(soon)));
        let passed = Interrupt::new().with_deadline(Instant::now());
        assert_eq!(passed.check(), Err(Interrupted::Deadline));
        let never = Interrupt::new().with_time(Duration::MAX);
        assert_eq!(never.check(), Ok(()));
        never.clone().raise();
        assert_eq!(never.check(), Err(Interrupted::Raised));
    }

    #[test]
    fn scopes_end_what_is_in_them_on_other_threads_too() {
        let (outer, inner) = (Interrupt::new(), Interrupt::new());
        assert!(Interrupt::current().is_none());
        outer.scope(|| {
            inner.scope(|| {
                check().unwrap();
                let taken = Interrupt::current().unwrap();
                outer.raise();
                check().unwrap_err();
                let found = std::thread::spawn(move || {
                    check().unwrap();
                    taken.scope(|| check().is_err())
                });
                assert!(found.join().unwrap());
                Interrupt::suspended(check).unwrap();
            });
        });
        check().unwrap();
        inner.scope(check).unwrap();
    }

    #[test]
    fn what_was_taken_from_a_scope_keeps_the_one_that_it_is_entered_in() {
        for is_here in [false, true] {
            let [there, here, own] = [(); 3].map(|()| Interrupt::new());
            let mut taken = there.scope(|| own.scope(Interrupt::current)).unwrap();
            // The scopes around it count once each.
            for _ in 0..3 {
                taken = here.scope(|| taken.scope(Interrupt::current)).unwrap();
            }
            assert_eq!(taken.around.len(), 2, "{taken:?}");
            taken.check().unwrap();
            let raised = if is_here { &here } else { &there };
            raised.raise();
            taken.check().unwrap_err();
        }
    }
}
