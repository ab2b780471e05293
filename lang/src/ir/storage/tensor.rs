//! The reference-counted header of a constant's data.

use super::layout::layout;
use super::live::Header;
use super::sealer;
use abi_stable::StableAbi;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU64, Ordering};

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

/// The data of a constant: immutable, 16-aligned, reference-counted, with its content hash.
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
    // SAFETY: called once, by the last owner, on a header that `Tensor::new` of this same library made.
    unsafe {
        let hdr = TensorHdr::take(hdr);
        drop(Vec::from_raw_parts(hdr.data, hdr.units, hdr.units));
    }
}

impl Tensor {
    /// Copies `bytes` into a tensor, through the host where there is one.
    pub fn new(bytes: &[u8]) -> Tensor {
        sealer::host().and_then(|host| host.tensor(bytes)).unwrap_or_else(|| Tensor::new_here(bytes))
    }

    /// # Safety
    /// `ptr` came from `into_ptr`, and its ownership passes to the result.
    #[doc(hidden)]
    pub unsafe fn from_ptr(ptr: *const TensorHdr) -> Option<Tensor> {
        NonNull::new(ptr.cast_mut()).map(Tensor)
    }

    /// Returns a new handle of the tensor at a pointer whose owner keeps its own handle; `None` if this copy of the crate did not make the tensor.
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

    /// Copies `bytes` into a tensor of this library.
    #[doc(hidden)]
    pub fn new_here(bytes: &[u8]) -> Tensor {
        let hash = xxhash_rust::xxh3::xxh3_128(bytes);
        let mut data = vec![0u128; bytes.len().div_ceil(16)].into_boxed_slice();
        // SAFETY: `data` has room for the bytes, and the two do not overlap.
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

    /// Returns a number that differs from those of all other live tensors.
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
        // SAFETY: `data` was allocated with at least `bytes` bytes and lives as long as the header.
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
