//! Which headers this copy of the crate made and has not dropped yet. A pointer that comes from outside is looked up
//! here before anything behind it is read, so one that was made up, or whose header is gone, is found and does no harm.

use super::body_handle::BodyHdr;
use super::module_handle::ModuleHdr;
use super::tensor::TensorHdr;
use foldhash::fast::FixedState;
use std::collections::HashSet;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Locks for one kind of header: enough that threads at work on different functions seldom wait for each other.
const SHARDS: usize = 64;

type Addresses = HashSet<usize, FixedState>;

/// The addresses of one kind of header, by some of their bits.
#[doc(hidden)]
pub struct Live([Mutex<Addresses>; SHARDS]);

impl Live {
    const fn new() -> Live {
        Live([const { Mutex::new(HashSet::with_hasher(FixedState::with_seed(0))) }; SHARDS])
    }

    fn shard(&self, address: usize) -> MutexGuard<'_, Addresses> {
        // Allocators hand out neighbours; the lowest bits say nothing.
        let at = (address >> 5) ^ (address >> 11);
        // No code of others runs under the lock, and a set that a panic left is still one.
        self.0[at % SHARDS].lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn has(&self, address: usize) -> bool {
        self.shard(address).contains(&address)
    }
}

/// A header whose handles cross the boundary.
#[doc(hidden)]
pub trait Header: Sized + 'static {
    /// Those that this copy of the crate made.
    const LIVE: &'static Live;

    /// The header on the heap, known from now on.
    fn leak(self) -> *mut Self {
        let header = Box::into_raw(Box::new(self));
        Self::LIVE.shard(header as usize).insert(header as usize);
        header
    }

    /// Takes a header back from the heap; nobody can give it back any more.
    ///
    /// # Safety
    /// It came from [`Header::leak`], and this is the only call.
    unsafe fn take(header: *mut Self) -> Box<Self> {
        Self::LIVE.shard(header as usize).remove(&(header as usize));
        // SAFETY: the caller vouches for it.
        unsafe { Box::from_raw(header) }
    }

    /// Whether this copy of the crate made it, and it lives. Any pointer may be asked.
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
