//! The reference-counted header of a constant's data.

use super::layout::layout;
use super::live::Header;
use super::region::Shared;
use super::sealer;
use abi_stable::StableAbi;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};
use std::thread;

/// Header of a tensor.
#[repr(C)]
#[derive(StableAbi)]
pub struct TensorHdr {
    #[sabi(unsafe_opaque_field)]
    rc: AtomicU64,
    drop_fn: extern "C" fn(*mut TensorHdr),
    hash_lo: u64,
    hash_hi: u64,
    #[sabi(unsafe_opaque_field)]
    data: *mut u128,
    units: usize,
    bytes: usize,
}

/// Header of a tensor whose bytes are part of a region. Handles point to the first field.
#[doc(hidden)]
#[repr(C)]
pub struct SharedHdr {
    hdr: TensorHdr,
    region: Arc<Shared>,
    offset: usize,
}

/// Smaller tensors are copied out of regions, because a handle to a region costs more and keeps the whole region alive.
const LEAST: usize = 4096;

/// The data of a constant: immutable, reference-counted, with its content hash. Data in its own memory is aligned to 16 bytes; data in a
/// mapped file may be unaligned.
#[repr(transparent)]
#[derive(StableAbi)]
pub struct Tensor(NonNull<TensorHdr>);

// SAFETY: immutable except for the atomic counter.
unsafe impl Send for Tensor {}
// SAFETY: as above.
unsafe impl Sync for Tensor {}

impl Clone for Tensor {
    fn clone(&self) -> Self {
        self.hdr().rc.fetch_add(1, Ordering::Relaxed);
        Tensor(self.0)
    }
}

impl Drop for Tensor {
    fn drop(&mut self) {
        let (rc, drop_fn) = (&self.hdr().rc, self.hdr().drop_fn);
        if rc.fetch_sub(1, Ordering::Release) == 1 {
            std::sync::atomic::fence(Ordering::Acquire);
            drop_fn(self.0.as_ptr());
        }
    }
}

extern "C" fn drop_tensor(hdr: *mut TensorHdr) {
    // SAFETY: called once, by the last owner, on a header that `Tensor::new` of this library made.
    unsafe {
        let hdr = TensorHdr::take(hdr);
        drop(Vec::from_raw_parts(hdr.data, hdr.units, hdr.units));
    }
}

extern "C" fn drop_shared(hdr: *mut TensorHdr) {
    // SAFETY: called once, by the last owner, on a header that `Tensor::part` of this library made as the first field of a `SharedHdr`.
    drop(unsafe { SharedHdr::take(hdr.cast()) });
}

impl Tensor {
    /// Creates a tensor of these bytes, through the host if there is one. Bytes in a file mapped by the host are shared; other bytes are
    /// copied.
    pub fn new(bytes: &[u8]) -> Tensor {
        sealer::host().and_then(|host| host.tensor(bytes)).unwrap_or_else(|| Tensor::new_here(bytes))
    }

    /// Creates a tensor of each part, like [`Tensor::new`]. Several threads share the work if the parts are large.
    ///
    /// ```
    /// use plugin_api::prelude::*;
    ///
    /// let tensors = Tensor::of_parts(&[vec![0u8; 3 << 20], vec![1, 2, 3, 4]]);
    /// assert_eq!(tensors[1].bytes(), [1, 2, 3, 4]);
    /// assert_eq!(tensors[0].hash128(), Tensor::new(&vec![0; 3 << 20]).hash128());
    /// ```
    pub fn of_parts<B: AsRef<[u8]> + Sync>(parts: &[B]) -> Vec<Tensor> {
        /// Number of bytes from which hashing on an additional thread pays.
        const WORTH_A_THREAD: usize = 1 << 20;

        let bytes: usize = parts.iter().map(|part| part.as_ref().len()).sum();
        let helpers = (bytes / WORTH_A_THREAD).min(parts.len()).saturating_sub(1);
        let made: Vec<OnceLock<Tensor>> = parts.iter().map(|_| OnceLock::new()).collect();
        let next = AtomicUsize::new(0);
        let work = || loop {
            let at = next.fetch_add(1, Ordering::Relaxed);
            let (Some(part), Some(made)) = (parts.get(at), made.get(at)) else { return };
            made.get_or_init(|| Tensor::new(part.as_ref()));
        };
        thread::scope(|scope| {
            let cores = if helpers > 0 { thread::available_parallelism().map_or(1, usize::from) } else { 1 };
            // If no thread can be started, the current thread does all the work.
            let _ = (0..helpers.min(cores - 1))
                .try_for_each(|_| thread::Builder::new().spawn_scoped(scope, work).map(drop));
            work();
        });
        let tensors = parts.iter().zip(made);
        tensors.map(|(part, made)| made.into_inner().unwrap_or_else(|| Tensor::new(part.as_ref()))).collect()
    }

    /// # Safety
    /// `ptr` came from `into_ptr`, and its ownership passes to the result.
    #[doc(hidden)]
    pub unsafe fn from_ptr(ptr: *const TensorHdr) -> Option<Tensor> {
        NonNull::new(ptr.cast_mut()).map(Tensor)
    }

    /// Returns a new handle to a tensor, whose owner keeps its own handle. Returns `None` if this copy of the crate did not make the
    /// tensor.
    pub(super) fn borrowed(ptr: *const TensorHdr) -> Option<Tensor> {
        if !TensorHdr::is_live(ptr) {
            return None;
        }
        // SAFETY: the header is live, because its owner holds a handle; the borrowed handle is cloned and never dropped, so that the count stays
        // correct.
        let borrowed = std::mem::ManuallyDrop::new(unsafe { Tensor::from_ptr(ptr) }?);
        Some(Tensor::clone(&borrowed))
    }

    /// Converts the handle to a pointer that owns it, for the plugin boundary.
    #[doc(hidden)]
    pub fn into_ptr(self) -> *const TensorHdr {
        let ptr = self.0.as_ptr();
        std::mem::forget(self);
        ptr
    }

    /// Creates a tensor in this library: a handle to the region with these bytes, otherwise a copy.
    #[doc(hidden)]
    pub fn new_here(bytes: &[u8]) -> Tensor {
        let region = if bytes.len() >= LEAST { Shared::around(bytes) } else { None };
        match region {
            Some((region, offset)) => {
                let hash = region.hash(offset..offset + bytes.len());
                Tensor::part(region, offset, bytes.len(), hash)
            }
            None => Tensor::copied(bytes),
        }
    }

    /// Creates a handle to all bytes of a region, without their hash. The tensor keeps the region alive; it is not a constant.
    #[doc(hidden)]
    pub fn whole(region: Arc<Shared>) -> Tensor {
        let bytes = region.bytes().len();
        Tensor::part(region, 0, bytes, 0)
    }

    /// Creates a handle to bytes of a region; `hash` must be their hash.
    fn part(region: Arc<Shared>, offset: usize, bytes: usize, hash: u128) -> Tensor {
        let data = region.bytes()[offset..offset + bytes].as_ptr().cast_mut().cast();
        let (rc, drop_fn) = (AtomicU64::new(1), drop_shared as extern "C" fn(*mut TensorHdr));
        let (hash_lo, hash_hi) = (hash as u64, (hash >> 64) as u64);
        let hdr = TensorHdr { rc, drop_fn, hash_lo, hash_hi, data, units: 0, bytes };
        let hdr = SharedHdr { hdr, region, offset }.leak();
        // SAFETY: a heap allocation is not null.
        Tensor(unsafe { NonNull::new_unchecked(hdr.cast()) })
    }

    /// Returns the region that contains the bytes, and their offset in it; `None` for bytes in their own memory.
    #[doc(hidden)]
    pub fn region(&self) -> Option<(&Arc<Shared>, usize)> {
        // A tensor whose header has bytes but no units is a handle to a region. Another copy of the crate may have made
        // the header.
        let shared = self.hdr().units == 0 && self.hdr().bytes > 0 && TensorHdr::is_live(self.0.as_ptr());
        // SAFETY: `Tensor::part` of this copy of the crate made the header, as the first field of a `SharedHdr`, and
        // the handle keeps it alive.
        let shared = shared.then(|| unsafe { self.0.cast::<SharedHdr>().as_ref() })?;
        Some((&shared.region, shared.offset))
    }

    /// Returns true if both tensors have equal bytes. Bytes at the same address are not read.
    pub(super) fn same_bytes(&self, other: &Tensor) -> bool {
        let (a, b) = (self.bytes(), other.bytes());
        std::ptr::eq(a, b) || a == b
    }

    /// Copies `bytes` into a tensor of this library.
    fn copied(bytes: &[u8]) -> Tensor {
        let hash = xxhash_rust::xxh3::xxh3_128(bytes);
        let mut data = vec![0u128; bytes.len().div_ceil(16)].into_boxed_slice();
        // SAFETY: `data` has room for the bytes, and source and target do not overlap.
        unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), data.as_mut_ptr().cast(), bytes.len()) };
        let units = data.len();
        let hdr = TensorHdr {
            rc: AtomicU64::new(1),
            drop_fn: drop_tensor,
            hash_lo: hash as u64,
            hash_hi: (hash >> 64) as u64,
            data: Box::into_raw(data).cast(),
            units,
            bytes: bytes.len(),
        };
        // SAFETY: a heap allocation is not null.
        Tensor(unsafe { NonNull::new_unchecked(hdr.leak()) })
    }

    /// Returns a number that is unique among live tensors.
    #[doc(hidden)]
    pub fn addr(&self) -> usize {
        self.0.as_ptr() as usize
    }

    fn hdr(&self) -> &TensorHdr {
        // SAFETY: the handle counts as one owner, so the header lives.
        unsafe { self.0.as_ref() }
    }

    /// Returns the data.
    pub fn bytes(&self) -> &[u8] {
        let hdr = self.hdr();
        // SAFETY: `data` has at least `bytes` bytes, in its own memory or in a region, and lives as long as the header.
        unsafe { std::slice::from_raw_parts(hdr.data.cast(), hdr.bytes) }
    }

    /// Returns the content hash: low half, high half.
    pub fn hash128(&self) -> (u64, u64) {
        (self.hdr().hash_lo, self.hdr().hash_hi)
    }
}

impl std::fmt::Debug for Tensor {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Tensor({} bytes)", self.bytes().len())
    }
}

layout!(TensorHdr { rc, drop_fn, hash_lo, hash_hi, data, units, bytes });

#[cfg(test)]
mod tests {
    use super::super::region::Region;
    use super::*;

    struct Held(Vec<u8>);

    // SAFETY: the memory of an unmodified vector does not move.
    unsafe impl Region for Held {
        fn bytes(&self) -> &[u8] {
            &self.0
        }
    }

    fn held(bytes: usize) -> Arc<Shared> {
        Shared::new(Box::new(Held((0..bytes).map(|at| (at % 251) as u8).collect())))
    }

    #[test]
    fn bytes_of_a_region_stay_there() {
        let region = held(3 * LEAST);
        let part = &region.bytes()[5..5 + LEAST];
        let copy = part.to_vec();
        let (shared, copied) = (Tensor::new(part), Tensor::new(&copy));
        assert_eq!((shared.bytes().as_ptr(), copied.bytes().as_ptr() == part.as_ptr()), (part.as_ptr(), false));
        assert_eq!(shared.hash128(), copied.hash128(), "the hash is that of the content");
        assert!(shared.same_bytes(&copied) && copied.region().is_none());
        assert_eq!(shared.region().map(|(of, at)| (Arc::ptr_eq(of, &region), at)), Some((true, 5)));
        let few = Tensor::new(&region.bytes()[..16]);
        assert!(few.region().is_none(), "few bytes are copied");
        assert!(Tensor::whole(Arc::clone(&region)).region().is_some());
    }

    #[test]
    fn a_tensor_keeps_its_region_and_nothing_else_is_found_there() {
        let region = held(2 * LEAST);
        let outer = region.bytes().as_ptr();
        let (tensor, copy) = (Tensor::new(&region.bytes()[LEAST..]), region.bytes()[LEAST..].to_vec());
        let weak = Arc::downgrade(&region);
        drop(region);
        assert_eq!(tensor.bytes(), copy);
        let again = tensor.clone();
        drop(tensor);
        assert!(weak.upgrade().is_some_and(|region| region.bytes().as_ptr() == outer));
        drop(again);
        assert!(weak.upgrade().is_none(), "the last tensor drops the region");
        assert!(Tensor::new(&copy).region().is_none());
    }
}
