//! Runs loops on threads. The caller executes a share of each loop. The other threads keep polling for work for a
//! while, because waking a thread takes longer than many loops.
//!
//! The caller never waits for a thread that has not begun: it executes all parts that no other thread has taken, closes
//! the loop, and waits only for threads inside. If the system interrupts one of the threads inside, for example to run
//! another process, the caller executes its loops alone for a while ([`Restraint`]).

mod restraint;

use restraint::{Lap, Restraint};

use rayon::{ThreadPool, ThreadPoolBuilder};
use std::cell::Cell;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError, TryLockError};
use std::time::{Duration, Instant};

/// The threads for the loops of some kernels.
#[derive(Debug)]
pub(crate) struct Threads {
    /// Maximum number of polling threads; more threads than processors would slow each other down.
    most: usize,
    /// Number of threads that poll for work or will do so soon.
    looking: AtomicUsize,
    /// Number of started loops.
    loops: AtomicU64,
    restraint: Restraint,
    /// The pool for callers outside any pool.
    beside: Beside,
}

/// The pool for callers outside any pool. It has one thread fewer than rayon, because the caller also works. Threads
/// are started on first use. A forked process does not inherit them, and starts its own.
#[derive(Debug, Default)]
struct Beside(Mutex<Option<(u32, Option<Arc<ThreadPool>>)>>);

impl Beside {
    /// Returns the pool; `None` if it cannot be started or would be empty, so that the caller executes everything.
    /// `looking` counts threads of this process.
    fn get(&self, looking: &AtomicUsize) -> Option<Arc<ThreadPool>> {
        let process = std::process::id();
        // A thread lost in a fork may hold the lock for ever.
        let mut known = match self.0.try_lock() {
            Ok(known) => known,
            Err(TryLockError::Poisoned(known)) => known.into_inner(),
            Err(TryLockError::WouldBlock) => return None,
        };
        if let Some((_, pool)) = known.as_ref().filter(|(of, _)| *of == process) {
            return pool.clone();
        }
        let pool = match rayon::current_num_threads() - 1 {
            0 => None,
            others => ThreadPoolBuilder::new().num_threads(others).build().ok().map(Arc::new),
        };
        // The threads of the parent's pool do not exist in this process; dropping the pool would wait for them.
        if let Some(of_parent) = known.replace((process, pool.clone())) {
            std::mem::forget(of_parent);
            looking.store(0, Ordering::Relaxed);
        }
        pool
    }
}

/// The threads that help the current thread.
enum Helpers {
    /// The threads of the pool for callers outside any pool.
    Own,
    Beside(Arc<ThreadPool>),
}

impl Helpers {
    fn spawn(&self, op: impl FnOnce() + Send + 'static) {
        match self {
            Helpers::Own => rayon::spawn(op),
            Helpers::Beside(pool) => pool.spawn(op),
        }
    }
}

/// A loop that other threads can join until its caller closes it. It outlives the call, because a thread that comes
/// late must still see that it is closed.
struct Open {
    /// Number of threads inside, and `CLOSED` when no more threads can join.
    inside: AtomicUsize,
    /// The share of one thread, and its data. Both are used only by threads inside.
    share: unsafe fn(*const (), usize),
    data: *const (),
}

const CLOSED: usize = 1 << (usize::BITS - 1);

// SAFETY: `data` points to a `Sync` value, and `Open::new` requires that it lives until the loop is closed.
unsafe impl Send for Open {}
// SAFETY: as above.
unsafe impl Sync for Open {}

impl Open {
    /// # Safety
    /// `close` must be called on the loop before `share` ends.
    unsafe fn new<F: Fn(usize) + Sync>(share: &F) -> Open {
        unsafe fn call<F: Fn(usize)>(data: *const (), thread: usize) {
            // SAFETY: `Open::new` got a reference to this type, which is valid while a thread is inside.
            unsafe { (*data.cast::<F>())(thread) }
        }
        Open { inside: AtomicUsize::new(0), share: call::<F>, data: (&raw const *share).cast() }
    }

    /// Executes the share of a thread, unless the loop is closed.
    fn join(&self, thread: usize) {
        let one_more = |inside: usize| (inside & CLOSED == 0).then_some(inside + 1);
        if self.inside.fetch_update(Ordering::Acquire, Ordering::Relaxed, one_more).is_ok() {
            // SAFETY: the loop is not closed before this thread leaves.
            unsafe { (self.share)(self.data, thread) };
            self.inside.fetch_sub(1, Ordering::Release);
        }
    }

    /// Closes the loop to other threads, and waits until all have left. It spins first, because waking a thread takes
    /// long, and then gives up the processor, because the other thread may be waiting for it.
    fn close(&self) {
        let mut inside = self.inside.fetch_or(CLOSED, Ordering::AcqRel);
        let since = Instant::now();
        while inside & !CLOSED != 0 {
            match since.elapsed() {
                waited if waited < SPIN => (0..16).for_each(|_| std::hint::spin_loop()),
                waited if waited < AWAKE => std::thread::yield_now(),
                _ => std::thread::sleep(NAP),
            }
            inside = self.inside.load(Ordering::Acquire);
        }
    }
}

/// Closes a loop also when the caller's share panics.
struct Closing<'o>(&'o Open);

impl Drop for Closing<'_> {
    fn drop(&mut self) {
        self.0.close();
    }
}

/// Number of parts per thread. With several parts, a slow thread can execute fewer of them.
const PARTS: usize = 8;
/// Time for which threads poll for work after the last loop.
const AWAKE: Duration = Duration::from_micros(500);
/// Time for which the caller of a loop spins.
const SPIN: Duration = Duration::from_micros(20);
/// Duration of each sleep of a caller that has waited for `AWAKE`.
const NAP: Duration = Duration::from_micros(50);

thread_local! {
    /// True while this thread executes its share of a loop, waits for the others, or polls for work.
    static IS_BUSY: Cell<bool> = const { Cell::new(false) };
}

impl Default for Threads {
    fn default() -> Threads {
        // Determining the number of processors reads files, so it is cached.
        let most = std::thread::available_parallelism().map_or(1, usize::from) - 1;
        Threads {
            most,
            looking: AtomicUsize::new(0),
            loops: AtomicU64::new(0),
            restraint: Restraint::default(),
            beside: Beside::default(),
        }
    }
}

impl Threads {
    /// Returns the number of threads, including this one, for a loop that this thread starts, and its helpers. The system
    /// grants at most `most` other threads.
    fn helpers(&self) -> (usize, Helpers) {
        if self.most == 0 || self.restraint.holds() {
            return (1, Helpers::Own);
        }
        let (threads, helpers) = self.all_helpers();
        (threads.min(self.most + 1), helpers)
    }

    fn all_helpers(&self) -> (usize, Helpers) {
        if rayon::current_thread_index().is_some() {
            return (rayon::current_num_threads(), Helpers::Own);
        }
        let beside = self.beside.get(&self.looking);
        beside.map_or((1, Helpers::Own), |pool| (pool.current_num_threads() + 1, Helpers::Beside(pool)))
    }

    /// Executes a loop. `work` is called once per thread, with a function that returns the next range of iterations
    /// (first and end). If a call returns a result, the other threads stop, and one of the results is returned.
    ///
    /// Each thread starts with the same part every time, so that the data that it wrote earlier is in its caches.
    pub(crate) fn share<T: Send>(
        self: &Arc<Self>,
        extent: usize,
        work: impl Fn(&mut dyn FnMut() -> Option<(usize, usize)>) -> Option<T> + Sync,
    ) -> Option<T> {
        let (threads, helpers) = self.helpers();
        let parts = extent.min(threads * PARTS);
        let threads = threads.min(parts);
        let taken: Vec<AtomicBool> = (0..parts).map(|_| AtomicBool::new(false)).collect();
        let (stop, result) = (AtomicBool::new(false), Mutex::new(None));
        let shortest = AtomicU64::new(u64::MAX);
        let share = |thread: usize| {
            let first = thread * parts / threads;
            let mut order = (first..parts).chain(0..first);
            let mut lap = Lap::default();
            let mut next = || {
                if threads > 1 && lap.is_interrupted(&shortest) {
                    self.restraint.begin();
                }
                let part = order.find(|part| !taken[*part].swap(true, Ordering::Relaxed))?;
                let bound = |part: usize| (extent as u128 * part as u128 / parts as u128) as usize;
                (!stop.load(Ordering::Relaxed)).then(|| (bound(part), bound(part + 1)))
            };
            if let Some(ended) = work(&mut next) {
                stop.store(true, Ordering::Relaxed);
                result.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(ended);
            }
        };
        match threads {
            0 => {}
            1 => share(0),
            _ => self.awake(&helpers, threads - 1, || {
                // SAFETY: `Closing` closes the loop, and `share` ends later.
                let open = Arc::new(unsafe { Open::new(&share) });
                let closing = Closing(&open);
                (1..threads).for_each(|thread| {
                    let open = Arc::clone(&open);
                    helpers.spawn(move || open.join(thread));
                });
                share(0);
                drop(closing);
            }),
        }
        result.into_inner().unwrap_or_else(PoisonError::into_inner)
    }

    /// Executes a loop, and keeps `others` threads polling for work afterwards.
    fn awake(self: &Arc<Self>, helpers: &Helpers, others: usize, a_loop: impl FnOnce()) {
        self.loops.fetch_add(1, Ordering::Relaxed);
        let before = IS_BUSY.replace(true);
        a_loop();
        let one_more = |looking: usize| (looking < others.min(self.most)).then_some(looking + 1);
        while self.looking.fetch_update(Ordering::Relaxed, Ordering::Relaxed, one_more).is_ok() {
            let threads = Arc::clone(self);
            helpers.spawn(move || threads.look());
        }
        IS_BUSY.set(before);
    }

    /// Executes available work until no loop has been submitted for a while. Returns immediately if the thread is
    /// already in a loop or polling.
    fn look(&self) {
        if !IS_BUSY.replace(true) {
            self.look_for_a_while();
            IS_BUSY.set(false);
        }
        self.looking.fetch_sub(1, Ordering::Relaxed);
    }

    fn look_for_a_while(&self) {
        let (mut seen, mut since) = (self.loops.load(Ordering::Relaxed), Instant::now());
        while since.elapsed() < AWAKE {
            let has_worked = rayon::yield_now() == Some(rayon::Yield::Executed);
            if !has_worked {
                std::hint::spin_loop();
            }
            let loops = self.loops.load(Ordering::Relaxed);
            if has_worked || loops != seen {
                (seen, since) = (loops, Instant::now());
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Executes a loop, and returns the number of executions of each iteration.
    fn counts(threads: &Arc<Threads>, extent: usize) -> Vec<usize> {
        let counts: Vec<AtomicUsize> = (0..extent).map(|_| AtomicUsize::new(0)).collect();
        let none = threads.share(extent, |next| {
            while let Some((first, end)) = next() {
                for count in &counts[first..end] {
                    count.fetch_add(1, Ordering::Relaxed);
                }
            }
            None::<()>
        });
        assert!(none.is_none());
        counts.into_iter().map(AtomicUsize::into_inner).collect()
    }

    #[test]
    fn each_iteration_is_executed_once() {
        for n in [1, 2, 3, 7] {
            let pool = rayon::ThreadPoolBuilder::new().num_threads(n).build().expect("threads");
            let threads = Arc::new(Threads::default());
            for extent in [0, 1, 2, 5, 64, 1000] {
                assert_eq!(pool.install(|| counts(&threads, extent)), vec![1; extent], "{n} threads");
                assert_eq!(counts(&threads, extent), vec![1; extent], "from outside of the pool");
            }
        }
    }

    #[test]
    fn many_loops_take_no_more_stack_than_one() {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(4).stack_size(128 << 10).build().expect("threads");
        let threads = Arc::new(Threads::default());
        pool.install(|| (0..10_000).for_each(|_| assert_eq!(counts(&threads, 8), [1; 8])));
        assert!(threads.looking.load(Ordering::Relaxed) <= 4);
    }

    #[test]
    fn a_loop_does_not_wait_for_threads_that_do_something_else() {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(2).build().expect("threads");
        let threads = Arc::new(Threads { most: 1, ..Threads::default() });
        let (ends, ended) = std::sync::mpsc::channel();
        pool.install(|| {
            rayon::spawn(move || ended.recv().expect("a message"));
            assert_eq!(counts(&threads, 64), [1; 64]);
            ends.send(()).expect("a thread that waits for it");
        });
    }

    #[test]
    fn a_thread_that_comes_late_finds_the_loop_closed() {
        let calls = AtomicUsize::new(0);
        let share = |_: usize| {
            calls.fetch_add(1, Ordering::Relaxed);
        };
        // SAFETY: the loop is closed below, and `share` lives longer.
        let open = unsafe { Open::new(&share) };
        open.join(1);
        open.close();
        open.join(2);
        assert_eq!(calls.load(Ordering::Relaxed), 1);
    }

    #[test]
    fn a_result_ends_the_loop() {
        let threads = Arc::new(Threads::default());
        let found = threads.share(1000, |next| {
            while let Some((first, end)) = next() {
                if (first..end).contains(&500) {
                    return Some(500);
                }
            }
            None
        });
        assert_eq!(found, Some(500));
    }
}
