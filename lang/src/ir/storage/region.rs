//! Memory outside the IR, such as a mapped file, whose bytes tensors can share.

use std::any::Any;
use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::{Arc, PoisonError, RwLock, Weak};
use xxhash_rust::xxh3::xxh3_128;

/// Memory that tensors can share.
///
/// # Safety
/// [`Region::bytes`] returns the same slice each time, for as long as the region lives, even if the region is moved.
#[doc(hidden)]
pub unsafe trait Region: Any + Send + Sync {
    /// Returns the memory.
    fn bytes(&self) -> &[u8];

    /// Returns the name under which a process with the same input can open the region: empty for the input itself,
    /// otherwise the name of a file next to it.
    fn name(&self) -> Option<&str> {
        None
    }

    /// Returns the content hash of a part, as computed by [`xxh3_128`].
    fn hash(&self, part: Range<usize>) -> u128 {
        xxh3_128(&self.bytes()[part])
    }
}

/// A region that is looked up by address until its last user drops it.
#[doc(hidden)]
pub struct Shared(Box<dyn Region>);

/// The regions of this copy of the crate, by first address, each with its length.
static REGIONS: RwLock<BTreeMap<usize, (usize, Weak<Shared>)>> = RwLock::new(BTreeMap::new());

impl Shared {
    /// Registers a region.
    pub fn new(region: Box<dyn Region>) -> Arc<Shared> {
        let shared = Arc::new(Shared(region));
        let bytes = shared.bytes();
        if !bytes.is_empty() {
            let entry = (bytes.len(), Arc::downgrade(&shared));
            REGIONS.write().unwrap_or_else(PoisonError::into_inner).insert(bytes.as_ptr().addr(), entry);
        }
        shared
    }

    /// Returns the region that contains all of `bytes`, and their offset in it.
    pub(super) fn around(bytes: &[u8]) -> Option<(Arc<Shared>, usize)> {
        let at = bytes.as_ptr().addr();
        let regions = REGIONS.read().unwrap_or_else(PoisonError::into_inner);
        let (start, (len, region)) = regions.range(..=at).next_back()?;
        let offset = at - start;
        (offset.checked_add(bytes.len())? <= *len).then(|| Some((region.upgrade()?, offset)))?
    }

    /// Returns the memory.
    pub fn bytes(&self) -> &[u8] {
        self.0.bytes()
    }

    /// Returns the region if it has type `R`.
    pub fn region<R: Region>(&self) -> Option<&R> {
        let region: &dyn Any = &*self.0;
        region.downcast_ref()
    }

    /// Returns the name under which a different process can open the region, if any.
    pub fn name(&self) -> Option<&str> {
        self.0.name()
    }

    pub(super) fn hash(&self, part: Range<usize>) -> u128 {
        self.0.hash(part)
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        let bytes = self.0.bytes();
        if !bytes.is_empty() {
            REGIONS.write().unwrap_or_else(PoisonError::into_inner).remove(&bytes.as_ptr().addr());
        }
    }
}
