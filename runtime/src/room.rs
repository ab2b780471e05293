//! Memory of tensors and PrimFuncs. Aligned to 64 bytes, the size of a cache line and of the widest vectors.

use crate::fault::{Fault, FaultKind};
use crate::limits::{Charge, Limits};
use std::ops::Range;

/// Words of 8 bytes, which count against the limits of a run until they are dropped. The run keeps dropped memory
/// for reuse, because the system provides new memory more slowly than most kernels fill it.
#[derive(Debug)]
pub struct Room {
    /// The words, with padding for alignment.
    all: Vec<u64>,
    /// The range of the aligned words.
    used: Range<usize>,
    charge: Charge,
}

/// Number of words in a cache line.
const LINE: usize = 8;

impl Room {
    /// Allocates memory with unspecified content.
    ///
    /// # Errors
    /// Fails if the limits do not allow it, or the machine has too little memory.
    pub fn any(bytes: u64, limits: &Limits) -> Result<Room, Fault> {
        Ok(Room::made(bytes, limits)?.0)
    }

    /// Allocates memory filled with one byte.
    ///
    /// # Errors
    /// Fails like [`Room::any`].
    pub fn filled(byte: u8, bytes: u64, limits: &Limits) -> Result<Room, Fault> {
        let (mut out, is_zero) = Room::made(bytes, limits)?;
        if byte != 0 || !is_zero {
            out.words_mut().fill(u64::from_ne_bytes([byte; 8]));
        }
        Ok(out)
    }

    /// Returns memory, and true if it is newly allocated and therefore zero.
    fn made(bytes: u64, limits: &Limits) -> Result<(Room, bool), Fault> {
        let charge = limits.memory(bytes)?;
        let too_much = || -> Fault { FaultKind::OutOfMemory { needed: bytes, limit: limits.memory_limit() }.into() };
        let words = usize::try_from(bytes.div_ceil(8)).map_err(|_| too_much())?;
        let room = words.checked_next_multiple_of(LINE).and_then(|lines| lines.checked_add(LINE - 1));
        let room = room.ok_or_else(too_much)?;
        let kept = limits.take_spare(room, limits.memory_limit().saturating_sub(limits.memory_used()));
        let is_new = kept.is_none();
        if is_new {
            // Turns a lack of memory into a fault; `vec!` would abort the process.
            Vec::<u64>::new().try_reserve_exact(room).map_err(|_| too_much())?;
        }
        Ok((Room::aligned(kept.unwrap_or_else(|| vec![0; room]), words, charge), is_new))
    }

    /// Copies bytes without counting them in a limit. The last word is padded with zeros.
    pub(crate) fn of(bytes: &[u8]) -> Room {
        let words = bytes.len().div_ceil(8);
        let mut out = Room::aligned(vec![0; words + LINE - 1], words, Charge::default());
        out.bytes_mut()[..bytes.len()].copy_from_slice(bytes);
        out
    }

    /// Selects `words` aligned words from `all`.
    fn aligned(all: Vec<u64>, words: usize, charge: Charge) -> Room {
        let start = all.as_ptr().align_offset(LINE * size_of::<u64>()).min(LINE - 1);
        Room { used: start..start + words, all, charge }
    }

    /// Returns the content as bytes, including all of the last word.
    pub fn bytes(&self) -> &[u8] {
        bytemuck::cast_slice(self.words())
    }

    /// Returns the content as mutable bytes.
    pub fn bytes_mut(&mut self) -> &mut [u8] {
        bytemuck::cast_slice_mut(self.words_mut())
    }

    /// Returns the address of the first word, for code that writes while this struct is not read.
    pub(crate) fn address(&self) -> usize {
        self.all.as_ptr().wrapping_add(self.used.start).expose_provenance()
    }

    /// Returns the words.
    pub fn words(&self) -> &[u64] {
        &self.all[self.used.clone()]
    }

    /// Returns the words, mutably.
    pub fn words_mut(&mut self) -> &mut [u64] {
        &mut self.all[self.used.clone()]
    }
}

impl Clone for Room {
    /// Copies the memory without counting the copy in a limit.
    fn clone(&self) -> Room {
        Room::of(self.bytes())
    }
}

impl Drop for Room {
    fn drop(&mut self) {
        self.charge.give_back(std::mem::take(&mut self.all));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dropped_memory_is_used_again() {
        let limits = Limits::unlimited();
        let mut room = Room::filled(7, 100_000, &limits).expect("memory");
        assert!(room.bytes().iter().all(|byte| *byte == 7));
        room.words_mut()[0] = 9;
        let place = room.words().as_ptr();
        assert!(place.addr().is_multiple_of(64));
        drop(room);
        assert_eq!(limits.memory_used(), 0);
        let larger = Room::any(200_000, &limits).expect("memory");
        assert_ne!(larger.words().as_ptr(), place);
        let again = Room::any(99_000, &limits).expect("memory");
        assert_eq!((again.words().as_ptr(), again.words()[0]), (place, 9));
    }

    #[test]
    fn kept_memory_and_memory_in_use_stay_within_the_limit() {
        let limits = Limits::new(1 << 20, u64::MAX);
        let rooms: Vec<Room> = (0..4).map(|_| Room::any(200_000, &limits).expect("memory")).collect();
        drop(rooms);
        assert!(limits.spare().bytes() >= 600_000);
        let large = Room::any(900_000, &limits).expect("memory");
        assert!(limits.spare().bytes() + limits.memory_used() <= 1 << 20);
        drop(large);
        assert!(limits.spare().bytes() <= 1 << 20);
    }

    #[test]
    fn memory_that_outlives_its_run_keeps_nothing_else() {
        let limits = Limits::unlimited();
        let spare = std::sync::Arc::downgrade(limits.spare_of_runs());
        let [kept, dropped] = [200_000; 2].map(|bytes| Room::any(bytes, &limits).expect("memory"));
        drop(dropped);
        assert!(limits.spare().bytes() >= 200_000);
        drop(limits);
        assert!(spare.upgrade().is_none());
        drop(kept);
    }

    #[test]
    fn a_copy_counts_against_no_limit() {
        let limits = Limits::unlimited();
        let room = Room::filled(1, 24, &limits).expect("memory");
        let copy = room.clone();
        assert_eq!((copy.words(), limits.memory_used()), (room.words(), 24));
    }
}
