//! Threads that look for work for a while after a loop: to wake one up takes longer than many loops do.

use std::cell::Cell;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

/// What is known of the loops of some kernels.
#[derive(Debug, Default)]
pub(crate) struct Awake {
    /// Threads that look for work.
    looking: AtomicUsize,
    /// Loops so far.
    loops: AtomicU64,
}

/// How long threads look for work after the last loop.
const AWAKE: Duration = Duration::from_micros(500);

thread_local! {
    /// Whether this thread waits for others to finish their parts of a loop.
    static WAITS: Cell<bool> = const { Cell::new(false) };
}

impl Awake {
    /// Executes a loop over threads. Those that have nothing to do afterwards look for work for a while.
    pub(crate) fn during<T>(self: &Arc<Self>, a_loop: impl FnOnce() -> T) -> T {
        self.loops.fetch_add(1, Ordering::Relaxed);
        let before = WAITS.replace(true);
        let out = a_loop();
        if self.looking.load(Ordering::Relaxed) == 0 {
            let awake = Arc::clone(self);
            rayon::spawn_broadcast(move |_| awake.look());
        }
        WAITS.set(before);
        out
    }

    /// Executes what there is to do. Returns when there was no loop for a while, and at once in a thread that waits itself.
    fn look(&self) {
        if WAITS.get() {
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
