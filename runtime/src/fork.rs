//! Makes `fork` safe in a process whose other threads execute modules.
//!
//! A forked process has a single thread. Locks held by other threads at the time of the fork stay locked for ever, and
//! data being changed by them stays half-changed. Therefore, a thread in code that takes locks counts as *inside*, and
//! a fork waits until no other thread is inside. A thread is *outside* while it runs loop programs or calls functions
//! of the embedding program, because these may take long, and may need a lock held by the forking thread. The host
//! installs [`before`], [`after_in_parent`] and [`after_in_child`] as handlers.

use std::cell::Cell;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

/// Number of threads that are inside.
static INSIDE: AtomicUsize = AtomicUsize::new(0);
/// True while a thread forks, or waits to fork.
static FORKS: AtomicBool = AtomicBool::new(false);
/// Maximum wait before a fork. Afterwards, the fork proceeds, because waiting for ever would be worse.
const PATIENCE: Duration = Duration::from_secs(5);

thread_local! {
    /// Number of nested entries of this thread.
    static DEPTH: Cell<usize> = const { Cell::new(0) };
}

fn go_in() {
    loop {
        while FORKS.load(Ordering::SeqCst) {
            thread::sleep(Duration::from_micros(20));
        }
        INSIDE.fetch_add(1, Ordering::SeqCst);
        if !FORKS.load(Ordering::SeqCst) {
            return;
        }
        INSIDE.fetch_sub(1, Ordering::SeqCst);
    }
}

fn go_out() {
    INSIDE.fetch_sub(1, Ordering::SeqCst);
}

/// Sets this thread's number of nested entries, updates the count for other threads, and returns the previous number.
fn set_depth(depth: usize) -> usize {
    let before = DEPTH.replace(depth);
    match (before, depth) {
        (0, 1..) => go_in(),
        (1.., 0) => go_out(),
        _ => {}
    }
    before
}

/// Restores the depth when dropped, also after a panic.
struct Restored(usize);

impl Drop for Restored {
    fn drop(&mut self) {
        set_depth(self.0);
    }
}

/// Calls a function that takes locks. Other threads cannot fork in the meantime.
pub fn inside<R>(act: impl FnOnce() -> R) -> R {
    let _restored = Restored(set_depth(DEPTH.get() + 1));
    act()
}

/// Calls a function that may take long and holds no locks. Other threads may fork in the meantime.
pub fn outside<R>(act: impl FnOnce() -> R) -> R {
    let _restored = Restored(set_depth(0));
    act()
}

/// Prepares a fork by this thread; must be called before the fork.
pub fn before() {
    while FORKS.swap(true, Ordering::SeqCst) {
        thread::sleep(Duration::from_micros(20));
    }
    let own = usize::from(DEPTH.get() > 0);
    let since = Instant::now();
    while INSIDE.load(Ordering::SeqCst) > own && since.elapsed() < PATIENCE {
        thread::sleep(Duration::from_micros(20));
    }
}

/// Ends a fork in the parent process; must be called after the fork.
pub fn after_in_parent() {
    FORKS.store(false, Ordering::SeqCst);
}

/// Ends a fork in the child process, where the other threads no longer exist; must be called after the fork.
pub fn after_in_child() {
    INSIDE.store(usize::from(DEPTH.get() > 0), Ordering::SeqCst);
    FORKS.store(false, Ordering::SeqCst);
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::AtomicU32;

    #[test]
    fn a_fork_waits_for_others_inside() {
        let inner = AtomicU32::new(0);
        let is_over = AtomicBool::new(false);
        thread::scope(|scope| {
            for _ in 0..3 {
                scope.spawn(|| {
                    while !is_over.load(Ordering::SeqCst) {
                        inside(|| {
                            inside(|| inner.fetch_add(1, Ordering::SeqCst));
                            outside(|| {
                                inner.fetch_sub(1, Ordering::SeqCst);
                                inside(|| ());
                                thread::yield_now();
                                inner.fetch_add(1, Ordering::SeqCst);
                            });
                            inner.fetch_sub(1, Ordering::SeqCst);
                        });
                    }
                });
            }
            for turn in 0..200 {
                let fork = || {
                    before();
                    // Threads that are just entering or leaving are not counted.
                    assert_eq!(INSIDE.load(Ordering::SeqCst), usize::from(turn % 2 == 0), "others are inside");
                    after_in_parent();
                };
                if turn % 2 == 0 { inside(fork) } else { fork() }
            }
            is_over.store(true, Ordering::SeqCst);
        });
        assert_eq!(inner.load(Ordering::SeqCst), 0);
    }
}
