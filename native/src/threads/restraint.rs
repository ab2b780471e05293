//! Recognizes that other work needs the processors, and leaves them to it.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// Periods in which loops are executed by their callers alone.
///
/// With more runnable threads than processors, a thread in the middle of a loop waits for its processor for several
/// milliseconds, and so does the caller of the loop. So each interruption begins a period, and the period doubles if
/// the next interruption follows soon after it.
#[derive(Debug)]
pub(super) struct Restraint {
    start: Instant,
    /// End of the current period, in microseconds since `start`.
    until: AtomicU64,
    /// Duration of the last period, in microseconds.
    last: AtomicU64,
}

const SHORTEST: Duration = Duration::from_millis(1);
const LONGEST: Duration = Duration::from_millis(256);
/// Interruptions are frequent if the next one happens within this time after the last period.
const SOON: Duration = Duration::from_millis(30);
/// A part of a loop is suspiciously long if it takes this much longer than twice the shortest part.
const PAUSE: Duration = Duration::from_micros(300);

fn micros(time: Duration) -> u64 {
    u64::try_from(time.as_micros()).unwrap_or(u64::MAX)
}

impl Default for Restraint {
    fn default() -> Restraint {
        Restraint { start: Instant::now(), until: AtomicU64::new(0), last: AtomicU64::new(0) }
    }
}

impl Restraint {
    /// Returns true in a period in which callers execute their loops alone.
    pub(super) fn holds(&self) -> bool {
        let until = self.until.load(Ordering::Relaxed);
        until != 0 && micros(self.start.elapsed()) < until
    }

    /// Begins a period, because a thread was interrupted.
    pub(super) fn begin(&self) {
        self.begin_at(micros(self.start.elapsed()));
    }

    fn begin_at(&self, now: u64) {
        let until = self.until.load(Ordering::Relaxed);
        if now < until {
            return;
        }
        let is_soon = until != 0 && now < until + micros(SOON);
        let last = if is_soon { 2 * self.last.load(Ordering::Relaxed) } else { 0 };
        let next = last.clamp(micros(SHORTEST), micros(LONGEST));
        self.last.store(next, Ordering::Relaxed);
        self.until.store(now + next, Ordering::Relaxed);
    }
}

/// Measures the parts that one thread executes.
#[derive(Default)]
pub(super) struct Lap {
    /// Start of the current part; `None` before the first one.
    since: Option<Instant>,
}

impl Lap {
    /// Ends a part, and begins the next one. Returns true if the system interrupted the thread during a part that
    /// took much longer than the shortest part of the loop. `shortest` contains the time of that part, in microseconds.
    pub(super) fn is_interrupted(&mut self, shortest: &AtomicU64) -> bool {
        let now = Instant::now();
        let Some(since) = self.since.replace(now) else { return false };
        let took = micros(now - since);
        let least = shortest.fetch_min(took, Ordering::Relaxed).min(took);
        took > 2 * least + micros(PAUSE) && was_interrupted()
    }
}

/// Returns true if the system has interrupted this thread since the last call.
#[cfg(target_os = "linux")]
fn was_interrupted() -> bool {
    use std::cell::Cell;

    thread_local! {
        static KNOWN: Cell<libc::c_long> = const { Cell::new(0) };
    }
    let mut usage = std::mem::MaybeUninit::<libc::rusage>::uninit();
    // SAFETY: the call fills the structure if it returns 0.
    let count = unsafe {
        match libc::getrusage(libc::RUSAGE_THREAD, usage.as_mut_ptr()) {
            0 => usage.assume_init().ru_nivcsw,
            _ => return false,
        }
    };
    KNOWN.replace(count) != count
}

/// Other systems do not count interruptions per thread, so only the time decides.
#[cfg(not(target_os = "linux"))]
fn was_interrupted() -> bool {
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn periods_double_while_interruptions_are_frequent() {
        let restraint = Restraint::default();
        let lasts = |now: u64| {
            restraint.begin_at(now);
            restraint.until.load(Ordering::Relaxed) - now
        };
        let ms = |n: u64| n * 1000;
        assert_eq!(lasts(ms(1)), ms(1));
        assert_eq!(lasts(ms(5)), ms(2));
        assert_eq!(lasts(ms(8)), ms(4));
        // An interruption in a period does not extend it.
        assert_eq!(lasts(ms(9)), ms(3));
        assert_eq!(lasts(ms(100)), ms(1), "a long time after the last period");
        let longest = (0..20).map(|_| lasts(restraint.until.load(Ordering::Relaxed) + 1)).last();
        assert_eq!(longest, Some(micros(LONGEST)));
    }

    #[test]
    fn short_parts_are_no_interruptions() {
        let shortest = AtomicU64::new(u64::MAX);
        let mut lap = Lap::default();
        assert!((0..100).all(|_| !lap.is_interrupted(&shortest)));
        assert!(shortest.load(Ordering::Relaxed) < micros(PAUSE));
    }
}
