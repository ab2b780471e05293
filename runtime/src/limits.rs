//! The limits of a run: memory, work, and cancellation.

use crate::fault::{Fault, FaultKind};
use crate::fork;
use crate::spare::{Spare, bytes_of};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};

#[derive(Debug)]
struct Shared {
    memory: u64,
    work: u64,
    used: AtomicU64,
    peak: AtomicU64,
    done: AtomicU64,
    cancelled: AtomicBool,
    unwritten: AtomicBool,
    overflowed: AtomicBool,
}

/// Default limit of work; a release build of the interpreter reaches it in at most about two minutes.
pub const USUAL_WORK: u64 = 1_500_000_000_000;
/// Units of work per byte of new memory.
const BYTE: u64 = 2;

/// Limits of a run. Clones share the same counters, so all threads and kernels of a run count together.
///
/// Work is counted in units. A unit is about the time of a `float32` operation in a vectorized loop, less than a
/// tenth of a nanosecond. Slower operations count more: an operation outside such a loop about 200, an exponential
/// 100, a byte of new memory 2, a call of an operator by name 200,000. These weights are fixed, so the count
/// depends on the module and its inputs, not on the machine.
///
/// ```
/// use runtime::{Fault, FaultKind, Limits, Tensor};
/// use plugin_api::prelude::DType;
///
/// let limits = Limits::new(1_000, 1_000_000);
/// let small = Tensor::zeros(DType::F32, &[100], &limits)?;
/// let error = Tensor::zeros(DType::F32, &[200], &limits).expect_err("more than the limit");
/// assert_eq!(error.kind, FaultKind::OutOfMemory { needed: 1200, limit: 1000 });
/// drop(small);
/// assert_eq!(limits.memory_used(), 0);
/// # Ok::<(), Fault>(())
/// ```
#[derive(Clone, Debug)]
pub struct Limits {
    shared: Arc<Shared>,
    /// Memory dropped during the run, for reuse.
    spare: Arc<Mutex<Spare>>,
    /// The fill byte of new memory.
    fresh: u8,
}

impl Default for Limits {
    fn default() -> Limits {
        Limits::unlimited()
    }
}

impl Limits {
    /// Creates limits of `memory` bytes in use at any time, and `work` units of work in total.
    pub fn new(memory: u64, work: u64) -> Limits {
        Limits::with_fresh_bytes(memory, work, 0)
    }

    /// Creates limits that fill new memory with `fresh` instead of 0. A result that depends on unwritten memory
    /// then differs between runs with different bytes.
    pub fn with_fresh_bytes(memory: u64, work: u64, fresh: u8) -> Limits {
        Limits::sharing(Arc::default(), (memory, work), fresh)
    }

    /// Creates limits for a further run; both runs reuse each other's dropped memory.
    #[must_use]
    pub fn of_next_run(&self, memory: u64, work: u64, fresh: u8) -> Limits {
        Limits::sharing(Arc::clone(&self.spare), (memory, work), fresh)
    }

    fn sharing(spare: Arc<Mutex<Spare>>, (memory, work): (u64, u64), fresh: u8) -> Limits {
        let (used, peak, done) = (AtomicU64::new(0), AtomicU64::new(0), AtomicU64::new(0));
        let [cancelled, unwritten, overflowed] = [false; 3].map(AtomicBool::new);
        Limits {
            shared: Arc::new(Shared { memory, work, used, peak, done, cancelled, unwritten, overflowed }),
            spare,
            fresh,
        }
    }

    /// Returns the same limits with a different fill byte for new memory.
    #[must_use]
    pub fn with_other_fresh_bytes(&self) -> Limits {
        Limits { fresh: !self.fresh, ..self.clone() }
    }

    /// Returns the fill byte of new memory.
    pub fn fresh_byte(&self) -> u8 {
        self.fresh
    }

    /// Creates limits that are never reached; memory and work are still counted.
    pub fn unlimited() -> Limits {
        Limits::new(u64::MAX, u64::MAX)
    }

    /// Returns the maximum number of bytes in use at any time.
    pub fn memory_limit(&self) -> u64 {
        self.shared.memory
    }

    /// Returns the number of bytes in use.
    pub fn memory_used(&self) -> u64 {
        self.shared.used.load(Ordering::Relaxed)
    }

    /// Returns the peak number of bytes in use.
    pub fn memory_peak(&self) -> u64 {
        self.shared.peak.load(Ordering::Relaxed)
    }

    /// Returns the maximum number of units of work.
    pub fn work_limit(&self) -> u64 {
        self.shared.work
    }

    /// Returns the units of work done.
    pub fn work_done(&self) -> u64 {
        self.shared.done.load(Ordering::Relaxed)
    }

    /// Records that unwritten memory may affect the result, because a loop had no iterations or unwritten memory
    /// was read.
    pub fn note_unwritten(&self) {
        self.shared.unwritten.store(true, Ordering::Relaxed);
    }

    /// Returns true if unwritten memory may affect the result, and clears the record.
    pub fn take_unwritten(&self) -> bool {
        self.shared.unwritten.swap(false, Ordering::Relaxed)
    }

    /// Records that a signed integer of 32 or 64 bits overflowed.
    pub fn note_overflow(&self) {
        self.shared.overflowed.store(true, Ordering::Relaxed);
    }

    /// Returns true if a signed integer overflowed. Recorded only in watched runs.
    pub fn has_overflowed(&self) -> bool {
        self.shared.overflowed.load(Ordering::Relaxed)
    }

    /// Ends the run at its next step; callable from any thread.
    pub fn cancel(&self) {
        self.shared.cancelled.store(true, Ordering::Relaxed);
    }

    /// Returns true if the run was cancelled.
    pub fn is_cancelled(&self) -> bool {
        self.shared.cancelled.load(Ordering::Relaxed)
    }

    /// Checks that `units` units of work are left, without counting them.
    ///
    /// # Errors
    /// Fails if fewer units are left.
    pub fn has_work(&self, units: u64) -> Result<(), Fault> {
        match self.work_done().saturating_add(units) > self.shared.work {
            true => Err(FaultKind::TooMuchWork { limit: self.shared.work }.into()),
            false => Ok(()),
        }
    }

    /// Counts units of work.
    ///
    /// # Errors
    /// Fails if the limit is exceeded, or the run was cancelled.
    pub fn work(&self, units: u64) -> Result<(), Fault> {
        let before = self.shared.done.fetch_add(units, Ordering::Relaxed);
        if before.saturating_add(units) > self.shared.work {
            return Err(FaultKind::TooMuchWork { limit: self.shared.work }.into());
        }
        if self.is_cancelled() {
            return Err(FaultKind::Cancelled.into());
        }
        Ok(())
    }

    /// Counts bytes until the charge is dropped, and counts the work of providing them.
    ///
    /// # Errors
    /// Fails if the memory or work limit is exceeded.
    pub fn memory(&self, bytes: u64) -> Result<Charge, Fault> {
        let before = self.shared.used.fetch_add(bytes, Ordering::Relaxed);
        let charge = Charge { counted: Some((Arc::clone(&self.shared), Arc::downgrade(&self.spare))), bytes };
        let needed = before.saturating_add(bytes);
        if needed > self.shared.memory {
            return Err(FaultKind::OutOfMemory { needed, limit: self.shared.memory }.into());
        }
        self.shared.peak.fetch_max(needed, Ordering::Relaxed);
        self.work(bytes.saturating_mul(BYTE))?;
        Ok(charge)
    }

    #[cfg(test)]
    pub(crate) fn spare_of_runs(&self) -> &Arc<Mutex<Spare>> {
        &self.spare
    }

    /// Takes memory with room for `words` words from the memory dropped in this run. Shrinks the remaining spare
    /// memory to `most` bytes.
    pub(crate) fn take_spare(&self, words: usize, most: u64) -> Option<Vec<u64>> {
        fork::inside(|| self.spare.lock().unwrap_or_else(PoisonError::into_inner).take(words, most))
    }

    #[cfg(test)]
    pub(crate) fn spare(&self) -> std::sync::MutexGuard<'_, Spare> {
        self.spare.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Bytes of dropped memory that are kept even if a run never used half as many. The results of a convolution net have
/// many sizes, and memory for one size rarely fits another.
const KEPT: u64 = 64 << 20;

/// Bytes that count as used until the charge is dropped.
#[derive(Debug, Default)]
pub struct Charge {
    /// The counters and the store of dropped memory, owned by the run or its executor.
    counted: Option<(Arc<Shared>, Weak<Mutex<Spare>>)>,
    bytes: u64,
}

impl Charge {
    /// Returns charged memory to the store of spare memory, or to the system.
    pub(crate) fn give_back(&self, room: Vec<u64>) {
        let Some((shared, spare)) = &self.counted else { return };
        let Some(spare) = spare.upgrade() else { return };
        let others = shared.used.load(Ordering::Relaxed).saturating_sub(bytes_of(&room));
        let twice = shared.peak.load(Ordering::Relaxed).saturating_mul(2);
        let most = twice.max(KEPT).min(shared.memory.saturating_sub(others));
        fork::inside(|| spare.lock().unwrap_or_else(PoisonError::into_inner).keep(room, most));
    }
}

impl Drop for Charge {
    fn drop(&mut self) {
        if let Some((shared, _)) = &self.counted {
            shared.used.fetch_sub(self.bytes, Ordering::Relaxed);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_refused_is_not_counted() {
        let limits = Limits::new(10, u64::MAX);
        let six = limits.memory(6).expect("6 of 10");
        assert!(limits.memory(5).is_err());
        assert_eq!((limits.memory_used(), limits.memory_peak()), (6, 6));
        drop(six);
        assert!(limits.memory(10).is_ok());
    }

    #[test]
    fn work_ends_at_its_limit_and_when_cancelled() {
        let limits = Limits::new(0, 10);
        assert!(limits.work(10).is_ok());
        assert!(matches!(limits.work(1), Err(Fault { kind: FaultKind::TooMuchWork { limit: 10, .. }, .. })));
        let limits = Limits::unlimited();
        limits.clone().cancel();
        assert!(matches!(limits.work(1), Err(Fault { kind: FaultKind::Cancelled, .. })));
    }
}
