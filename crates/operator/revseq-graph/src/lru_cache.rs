//! A cache of values, such as plans, for the most recent shapes.

use std::hash::{Hash, Hasher};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Number of values that are kept: programs that batch by length have some buckets of it.
const CAPACITY: usize = 8;

/// The eight values used last, such as the plans of a node for different shapes: what a host keeps
/// from run to run.
///
/// A value knows its own key. The cache is not part of an op's identity, so any two are equal, and
/// a clone is empty.
#[derive(Debug)]
pub struct LruCache<T> {
    /// The one used last comes first. The lock is held to look, never to make a value.
    values: Mutex<Vec<Arc<T>>>,
}

impl<T> LruCache<T> {
    /// Returns the value that matches, or inserts the result of `make`.
    ///
    /// # Errors
    /// Those of `make`; the cache then stays as it was.
    #[inline]
    pub fn get_or_try_insert<E>(
        &self,
        is_wanted: impl Fn(&T) -> bool,
        make: impl FnOnce() -> Result<T, E>,
    ) -> Result<Arc<T>, E> {
        if let Some(kept) = use_first(&mut self.lock(), &is_wanted) {
            return Ok(kept);
        }
        let made = Arc::new(make()?);
        let mut values = self.lock();
        // Another thread may have been faster.
        if let Some(kept) = use_first(&mut values, &is_wanted) {
            return Ok(kept);
        }
        let dropped = (values.len() == CAPACITY).then(|| values.pop());
        values.insert(0, Arc::clone(&made));
        drop(values);
        drop(dropped);
        Ok(made)
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Arc<T>>> {
        // The list is whole at any time, whatever panicked elsewhere.
        self.values.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The value that is wanted, moved to the front.
#[inline]
fn use_first<T>(values: &mut [Arc<T>], is_wanted: impl Fn(&T) -> bool) -> Option<Arc<T>> {
    let index = values.iter().position(|value| is_wanted(value))?;
    values[..=index].rotate_right(1);
    Some(Arc::clone(&values[0]))
}

impl<T> Default for LruCache<T> {
    fn default() -> Self {
        Self {
            values: Mutex::default(),
        }
    }
}

impl<T> Clone for LruCache<T> {
    fn clone(&self) -> Self {
        Self::default()
    }
}

impl<T> PartialEq for LruCache<T> {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

impl<T> Eq for LruCache<T> {}

impl<T> Hash for LruCache<T> {
    fn hash<H: Hasher>(&self, _: &mut H) {}
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;
    use std::convert::Infallible;

    use super::*;

    /// Requests each number in order, and counts how many had to be made.
    fn made(cache: &LruCache<usize>, wanted: impl IntoIterator<Item = usize>) -> usize {
        let made = Cell::new(0);
        for number in wanted {
            let make = || {
                made.set(made.get() + 1);
                Ok::<_, Infallible>(number)
            };
            let Ok(found) = cache.get_or_try_insert(|&kept| kept == number, make);
            assert_eq!(*found, number);
        }
        made.get()
    }

    #[test]
    fn each_of_a_few_values_is_made_once() {
        for count in 1..=CAPACITY {
            let cache = LruCache::default();
            assert_eq!(made(&cache, (0..count).cycle().take(100)), count);
        }
    }

    #[test]
    fn the_least_recently_used_value_is_dropped() {
        let cache = LruCache::default();
        assert_eq!(made(&cache, 0..CAPACITY), CAPACITY);
        // 0 was used again, so 1 is evicted.
        assert_eq!(made(&cache, [0, 100]), 1);
        assert_eq!(made(&cache, [0, 100]), 0);
        assert_eq!(made(&cache, 2..CAPACITY), 0);
        assert_eq!(made(&cache, [1]), 1);
        assert_eq!(cache.lock().len(), CAPACITY);
    }

    #[test]
    fn a_failed_creation_changes_nothing() {
        let cache = LruCache::default();
        made(&cache, 0..CAPACITY);
        let failed = cache.get_or_try_insert(|&kept| kept == 100, || Err("no"));
        assert_eq!(failed, Err("no"));
        assert_eq!(made(&cache, 0..CAPACITY), 0);
    }

    #[test]
    fn threads_that_make_one_value_at_once_get_the_same() {
        let cache = LruCache::default();
        let inner = Cell::new(None);
        let outer = cache.get_or_try_insert(
            |&kept| kept == 1,
            || {
                let Ok(made) =
                    cache.get_or_try_insert(|&kept| kept == 1, || Ok::<_, Infallible>(1));
                inner.set(Some(made));
                Ok::<_, Infallible>(1)
            },
        );
        assert!(Arc::ptr_eq(&outer.unwrap(), &inner.take().unwrap()));
        assert_eq!(cache.lock().len(), 1);
    }

    #[test]
    fn a_clone_is_equal_and_empty() {
        let cache = LruCache::default();
        assert_eq!(made(&cache, [1]), 1);
        let clone = cache.clone();
        assert_eq!(clone, cache);
        assert_eq!(made(&clone, [1]), 1);
        assert_eq!(made(&cache, [1]), 0);
    }
}
