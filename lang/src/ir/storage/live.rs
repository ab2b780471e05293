//! The live headers made by this copy of the crate. A pointer from outside is looked up here before it is dereferenced, so invalid and
//! stale pointers are detected.

use super::body_handle::BodyHdr;
use super::module_handle::ModuleHdr;
use super::tensor::{SharedHdr, TensorHdr};
use foldhash::fast::FixedState;
use std::collections::HashSet;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Number of locks per kind of header. With 64 locks, threads that work on different functions seldom contend.
const SHARDS: usize = 64;

type Addresses = HashSet<usize, FixedState>;

/// The addresses of one kind of header, sharded by some of their bits.
#[doc(hidden)]
pub struct Live([Mutex<Addresses>; SHARDS]);

impl Live {
    const fn new() -> Live {
        Live([const { Mutex::new(HashSet::with_hasher(FixedState::with_seed(0))) }; SHARDS])
    }

    fn shard(&self, address: usize) -> MutexGuard<'_, Addresses> {
        // Allocations are aligned, so the lowest bits are constant.
        let at = (address >> 5) ^ (address >> 11);
        // No foreign code runs under the lock, and the set is consistent even after a panic.
        self.0[at % SHARDS].lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn has(&self, address: usize) -> bool {
        self.shard(address).contains(&address)
    }
}

/// A header whose handles cross the boundary.
#[doc(hidden)]
pub trait Header: Sized + 'static {
    /// The live headers of this kind, made by this copy of the crate.
    const LIVE: &'static Live;

    /// Moves the header to the heap and registers it.
    fn leak(self) -> *mut Self {
        let header = Box::into_raw(Box::new(self));
        Self::LIVE.shard(header as usize).insert(header as usize);
        header
    }

    /// Takes a header back from the heap and unregisters it.
    ///
    /// # Safety
    /// The pointer must come from [`Header::leak`], and may be passed only once.
    unsafe fn take(header: *mut Self) -> Box<Self> {
        Self::LIVE.shard(header as usize).remove(&(header as usize));
        // SAFETY: guaranteed by the caller.
        unsafe { Box::from_raw(header) }
    }

    /// Returns true if this copy of the crate made the header and has not dropped it. The pointer may be arbitrary.
    fn is_live(header: *const Self) -> bool {
        Self::LIVE.has(header as usize)
    }
}

static BODIES: Live = Live::new();
static MODULES: Live = Live::new();
static TENSORS: Live = Live::new();

impl Header for BodyHdr {
    const LIVE: &'static Live = &BODIES;
}
impl Header for ModuleHdr {
    const LIVE: &'static Live = &MODULES;
}
impl Header for TensorHdr {
    const LIVE: &'static Live = &TENSORS;
}
/// A handle to a shared header is a handle to the tensor header at its beginning.
impl Header for SharedHdr {
    const LIVE: &'static Live = &TENSORS;
}
