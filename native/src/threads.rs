//! Loops over threads. The caller does a share of each. The others look for work for a while afterwards: to wake one up takes
//! longer than many loops do.

use std::cell::Cell;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// What is known of the loops of some kernels.
#[derive(Debug, Default)]
pub(crate) struct Threads {
    /// Threads that look for work.
    looking: AtomicUsize,
    /// Loops so far.
    loops: AtomicU64,
}

/// Parts for each thread: more than one, so that a slow thread does less.
const PARTS: usize = 4;
/// How long threads look for work after the last loop.
const AWAKE: Duration = Duration::from_micros(500);

thread_local! {
    /// Whether this thread does its share of a loop, or waits for the others.
    static IN_LOOP: Cell<bool> = const { Cell::new(false) };
}

impl Threads {
    /// Executes a loop. `work` is called once in each thread, with what says which iterations to do next: the first one, and
    /// the one after the last. If it returns something, the other threads stop, and one of the results is returned.
    ///
    /// A thread begins with the same part each time, so that it finds what it wrote before in its caches.
    pub(crate) fn share<T: Send>(
        self: &Arc<Self>,
        extent: usize,
        work: impl Fn(&mut dyn FnMut() -> Option<(usize, usize)>) -> Option<T> + Sync,
    ) -> Option<T> {
        let threads = rayon::current_num_threads();
        let parts = extent.min(threads * PARTS);
        let threads = threads.min(parts);
        let taken: Vec<AtomicBool> = (0..parts).map(|_| AtomicBool::new(false)).collect();
        let (stop, result) = (AtomicBool::new(false), Mutex::new(None));
        let share = |thread: usize| {
            let first = thread * parts / threads;
            let mut order = (first..parts).chain(0..first);
            let mut next = || {
                let part = order.find(|part| !taken[*part].swap(true, Ordering::Relaxed))?;
                let bound = |part: usize| (extent as u128 * part as u128 / parts as u128) as usize;
                (!stop.load(Ordering::Relaxed)).then(|| (bound(part), bound(part + 1)))
            };
            if let Some(ended) = work(&mut next) {
                stop.store(true, Ordering::Relaxed);
                result.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(ended);
            }
        };
        let share = &share;
        match threads {
            0 => {}
            1 => share(0),
            _ => self.awake(threads - 1, || {
                rayon::in_place_scope(|scope| {
                    (1..threads).for_each(|thread| scope.spawn(move |_| share(thread)));
                    share(0);
                });
            }),
        }
        result.into_inner().unwrap_or_else(PoisonError::into_inner)
    }

    /// Executes a loop, after which so many threads look for work.
    fn awake(self: &Arc<Self>, others: usize, a_loop: impl FnOnce()) {
        self.loops.fetch_add(1, Ordering::Relaxed);
        let before = IN_LOOP.replace(true);
        a_loop();
        for _ in self.looking.load(Ordering::Relaxed)..others {
            let threads = Arc::clone(self);
            rayon::spawn(move || threads.look());
        }
        IN_LOOP.set(before);
    }

    /// Executes what there is to do. Returns when there was no loop for a while, and at once in a thread that waits itself.
    fn look(&self) {
        if IN_LOOP.get() {
            return;
        }
        self.looking.fetch_add(1, Ordering::Relaxed);
        let (mut seen, mut since) = (self.loops.load(Ordering::Relaxed), Instant::now());
        while since.elapsed() < AWAKE {
            if rayon::yield_now() != Some(rayon::Yield::Executed) {
                std::hint::spin_loop();
            }
            let loops = self.loops.load(Ordering::Relaxed);
            if loops != seen {
                (seen, since) = (loops, Instant::now());
            }
        }
        self.looking.fetch_sub(1, Ordering::Relaxed);
    }
}
