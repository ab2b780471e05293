//! Bytes of tensors, aligned to 8.

use crate::fault::{Fault, FaultKind};
use crate::limits::{Charge, Limits};

/// Bytes in words of 8, the last one filled up with zeros.
#[derive(Debug)]
pub(crate) struct Storage {
    words: Vec<u64>,
    _charge: Charge,
}

impl Clone for Storage {
    fn clone(&self) -> Storage {
        Storage { words: self.words.clone(), _charge: Charge::default() }
    }
}

impl Storage {
    pub(super) fn of(bytes: &[u8]) -> Storage {
        let mut words = vec![0u64; super::copy_len(bytes.len())];
        bytemuck::cast_slice_mut(&mut words)[..bytes.len()].copy_from_slice(bytes);
        Storage { words, _charge: Charge::default() }
    }

    pub(super) fn zeros(bytes: u64, limits: &Limits) -> Result<Storage, Fault> {
        let charge = limits.memory(bytes)?;
        let too_much = || -> Fault { FaultKind::OutOfMemory { needed: bytes, limit: limits.memory_limit() }.into() };
        let words = usize::try_from(bytes.div_ceil(8)).map_err(|_| too_much())?;
        // What the machine does not have is a fault; `vec!` alone would end the process.
        Vec::<u64>::new().try_reserve_exact(words).map_err(|_| too_much())?;
        Ok(Storage { words: vec![0; words], _charge: charge })
    }

    pub(super) fn bytes(&self) -> &[u8] {
        bytemuck::cast_slice(&self.words)
    }

    pub(super) fn bytes_mut(&mut self) -> &mut [u8] {
        bytemuck::cast_slice_mut(&mut self.words)
    }

    pub(super) fn words(&self) -> &[u64] {
        &self.words
    }

    pub(super) fn words_mut(&mut self) -> &mut [u64] {
        &mut self.words
    }
}
