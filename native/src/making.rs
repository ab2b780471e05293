//! Code that is being compiled or loaded: each piece by one thread, and the time for which some thread was busy.

use std::collections::HashSet;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// Statistics on compiled and loaded code.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Made {
    /// Number of functions compiled.
    pub compiled: usize,
    /// Time for which at least one thread was compiling.
    pub compiling: Duration,
    /// Number of functions taken from the cache.
    pub cached: usize,
    /// Time for which at least one thread was loading code from the cache.
    pub loading: Duration,
}

/// The code in the making. Threads that need the same code wait for the first of them.
#[derive(Debug, Default)]
pub(crate) struct Making {
    state: Mutex<State>,
    ended: Condvar,
}

#[derive(Debug, Default)]
struct State {
    keys: HashSet<String>,
    made: Made,
    /// Ends of the periods that are part of `made`.
    until: [Option<Instant>; 2],
}

/// The only thread that makes the code of a key, until it is dropped.
pub(crate) struct Only<'m> {
    making: &'m Making,
    key: &'m str,
}

impl Making {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until no other thread makes the code of `key`.
    pub(crate) fn only<'m>(&'m self, key: &'m str) -> Only<'m> {
        let mut state = self.state();
        while state.keys.contains(key) {
            state = self.ended.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        state.keys.insert(key.to_string());
        Only { making: self, key }
    }

    /// Returns the current statistics.
    pub(crate) fn made(&self) -> Made {
        self.state().made
    }

    /// Counts a function that was made from `start` until now. Of periods that overlap, each moment counts once.
    pub(crate) fn count(&self, is_known: bool, start: Instant) {
        let mut state = self.state();
        // Taken under the lock, so that periods are counted in the order of their ends.
        let now = Instant::now();
        let State { made: Made { compiled, compiling, cached, loading }, until, .. } = &mut *state;
        let (n, time) = if is_known { (cached, loading) } else { (compiled, compiling) };
        let until = &mut until[usize::from(is_known)];
        *n += 1;
        *time += now - until.map_or(start, |until| until.max(start));
        *until = Some(now);
    }
}

impl Drop for Only<'_> {
    fn drop(&mut self) {
        self.making.state().keys.remove(self.key);
        self.making.ended.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::thread;

    #[test]
    fn threads_that_need_the_same_code_take_turns() {
        let (making, inside) = (Making::default(), [AtomicUsize::new(0), AtomicUsize::new(0)]);
        thread::scope(|scope| {
            for thread in 0..8 {
                let (making, inside) = (&making, &inside[thread % 2]);
                scope.spawn(move || {
                    for _ in 0..100 {
                        let _only = making.only(["a", "b"][thread % 2]);
                        assert_eq!(inside.fetch_add(1, Ordering::SeqCst), 0);
                        thread::yield_now();
                        inside.fetch_sub(1, Ordering::SeqCst);
                    }
                });
            }
        });
        assert!(making.state().keys.is_empty());
    }

    #[test]
    fn a_moment_counts_once_however_many_threads_are_busy() {
        let (making, start) = (Making::default(), Instant::now());
        thread::sleep(Duration::from_millis(20));
        (0..10).for_each(|_| making.count(false, start));
        making.count(true, start);
        let (made, all) = (making.made(), start.elapsed());
        assert_eq!((made.compiled, made.cached), (10, 1));
        assert!(made.compiling <= all && made.loading <= all, "{made:?} of {all:?}");
        assert!(made.compiling >= Duration::from_millis(20) && made.loading >= Duration::from_millis(20), "{made:?}");
    }
}
