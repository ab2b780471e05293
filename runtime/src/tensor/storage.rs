//! Bytes of tensors, aligned to 64: to the lines of caches, and to the widest vectors.

use crate::fault::{Fault, FaultKind};
use crate::limits::{Charge, Limits};
use std::ops::Range;

/// Bytes in words of 8, the last one filled up with zeros.
#[derive(Debug)]
pub(crate) struct Storage {
    /// More words than are needed.
    room: Vec<u64>,
    /// Those that are aligned.
    used: Range<usize>,
    _charge: Charge,
}

/// Words of a line of a cache.
const LINE: usize = 8;

impl Clone for Storage {
    fn clone(&self) -> Storage {
        let mut copy = Storage::aligned(vec![0; self.used.len() + LINE - 1], self.used.len(), Charge::default());
        copy.words_mut().copy_from_slice(self.words());
        copy
    }
}

impl Storage {
    pub(super) fn of(bytes: &[u8]) -> Storage {
        let words = super::copy_len(bytes.len());
        let mut out = Storage::aligned(vec![0; words + LINE - 1], words, Charge::default());
        out.bytes_mut()[..bytes.len()].copy_from_slice(bytes);
        out
    }

    /// The aligned words among those of some room.
    fn aligned(room: Vec<u64>, words: usize, charge: Charge) -> Storage {
        let start = room.as_ptr().align_offset(LINE * size_of::<u64>()).min(LINE - 1);
        Storage { used: start..start + words, room, _charge: charge }
    }

    pub(super) fn zeros(bytes: u64, limits: &Limits) -> Result<Storage, Fault> {
        let charge = limits.memory(bytes)?;
        let too_much = || -> Fault { FaultKind::OutOfMemory { needed: bytes, limit: limits.memory_limit() }.into() };
        let words = usize::try_from(bytes.div_ceil(8)).map_err(|_| too_much())?;
        // What the machine does not have is a fault; `vec!` alone would end the process.
        Vec::<u64>::new().try_reserve_exact(words.saturating_add(LINE)).map_err(|_| too_much())?;
        Ok(Storage::aligned(vec![0; words + LINE - 1], words, charge))
    }

    pub(super) fn bytes(&self) -> &[u8] {
        bytemuck::cast_slice(self.words())
    }

    pub(super) fn bytes_mut(&mut self) -> &mut [u8] {
        bytemuck::cast_slice_mut(self.words_mut())
    }

    pub(super) fn words(&self) -> &[u64] {
        &self.room[self.used.clone()]
    }

    pub(super) fn words_mut(&mut self) -> &mut [u64] {
        &mut self.room[self.used.clone()]
    }
}
