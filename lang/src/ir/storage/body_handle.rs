//! The reference-counted header of a body.

use super::layout::layout;
use super::live::Header;
use super::sections::{RawSlice, RawView};
use super::tensor::Tensor;
use abi_stable::StableAbi;
use std::marker::PhantomData;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU64, Ordering};

/// Header of a sealed body. Only the host creates headers; plugins hold handles.
#[repr(C)]
#[derive(StableAbi)]
pub struct BodyHdr {
    #[sabi(unsafe_opaque_field)]
    rc: AtomicU64,
    drop_fn: extern "C" fn(*mut BodyHdr),
    view: RawView<'static>,
    /// The buffer under `view`, in units of 16 bytes, owned by the side that sealed the body. The last unit holds the structural hash.
    #[sabi(unsafe_opaque_field)]
    buffer: *mut u128,
    units: usize,
    tensors: *mut Tensor,
    n_tensors: usize,
}

/// A sealed function: immutable, validated, reference-counted. Cloning costs one atomic addition.
#[repr(transparent)]
#[derive(StableAbi)]
pub struct Body(NonNull<BodyHdr>);

// SAFETY: a sealed body is immutable except for its atomic counters.
unsafe impl Send for Body {}
// SAFETY: as above.
unsafe impl Sync for Body {}

impl Clone for Body {
    #[inline]
    fn clone(&self) -> Self {
        self.hdr().rc.fetch_add(1, Ordering::Relaxed);
        Body(self.0)
    }
}

impl Drop for Body {
    #[inline]
    fn drop(&mut self) {
        let (rc, drop_fn) = (&self.hdr().rc, self.hdr().drop_fn);
        if rc.fetch_sub(1, Ordering::Release) == 1 {
            std::sync::atomic::fence(Ordering::Acquire);
            drop_fn(self.0.as_ptr());
        }
    }
}

extern "C" fn drop_body(hdr: *mut BodyHdr) {
    // SAFETY: called once, by the last owner, on a header that `Body::seal_with` of this library made.
    unsafe {
        let hdr = BodyHdr::take(hdr);
        drop(Vec::from_raw_parts(hdr.buffer, hdr.units, hdr.units));
        drop(Vec::from_raw_parts(hdr.tensors, hdr.n_tensors, hdr.n_tensors));
    }
}

impl Body {
    fn hdr(&self) -> &BodyHdr {
        // SAFETY: the handle counts as one owner, so the header lives.
        unsafe { self.0.as_ref() }
    }

    /// Returns the size of the body in bytes: its header and sections. Only the handles of constants are counted, because bodies share
    /// their data.
    pub fn byte_size(&self) -> usize {
        let hdr = self.hdr();
        size_of::<BodyHdr>() + hdr.units * size_of::<u128>() + hdr.n_tensors * size_of::<Tensor>()
    }

    /// Returns the sections.
    #[inline]
    pub fn raw(&self) -> &RawView<'_> {
        &self.hdr().view
    }

    /// Returns true if two handles refer to the same body, not merely to equal bodies.
    #[inline]
    pub fn same(&self, other: &Body) -> bool {
        self.0 == other.0
    }

    /// Returns a number that is unique among live bodies.
    #[inline]
    pub fn addr(&self) -> usize {
        self.0.as_ptr() as usize
    }

    /// Returns the current number of handles.
    #[doc(hidden)]
    pub fn owners(&self) -> u64 {
        self.hdr().rc.load(Ordering::Relaxed)
    }

    /// Returns the cached structural hash; 0 if it has not been computed. Available only in the copy of the crate that made the body,
    /// because other copies may hash differently.
    pub(crate) fn cached_hash(&self) -> Option<&AtomicU64> {
        let hdr = self.hdr();
        if !std::ptr::fn_addr_eq(hdr.drop_fn, drop_body as extern "C" fn(*mut BodyHdr)) {
            return None;
        }
        // SAFETY: `seal_with` of this copy made the buffer; its last unit is aligned to 16 bytes, is accessed only here, and lives as long
        // as the header.
        Some(unsafe { AtomicU64::from_ptr(hdr.buffer.add(hdr.units - 1).cast()) })
    }

    /// Copies the sections, and calls `check` with the copy before making it a body.
    pub(crate) fn seal_with<E>(
        raw: &RawView<'_>,
        check: impl FnOnce(&RawView<'_>) -> Result<(), E>,
    ) -> Result<Body, E> {
        // The last unit of the buffer is reserved for the hash.
        let mut buffer = vec![0u128; raw.units() + 1].into_boxed_slice();
        let slots = raw.copy_into(&mut buffer);
        let tensors = raw.tensors().to_vec().into_boxed_slice();
        let view = RawView { slots, tensors: RawSlice::of(&tensors), life: PhantomData };
        check(&view)?;
        let (units, n_tensors) = (buffer.len(), tensors.len());
        let hdr = BodyHdr {
            rc: AtomicU64::new(1),
            drop_fn: drop_body,
            view,
            buffer: Box::into_raw(buffer).cast(),
            units,
            tensors: Box::into_raw(tensors).cast(),
            n_tensors,
        };
        // SAFETY: a heap allocation is not null.
        Ok(Body(unsafe { NonNull::new_unchecked(hdr.leak()) }))
    }

    /// Returns the pointer of the handle, which keeps its ownership.
    #[doc(hidden)]
    pub fn as_ptr(&self) -> *const BodyHdr {
        self.0.as_ptr()
    }

    /// Converts the handle to a pointer that owns it, for the plugin boundary.
    #[doc(hidden)]
    pub fn into_ptr(self) -> *const BodyHdr {
        let ptr = self.0.as_ptr();
        std::mem::forget(self);
        ptr
    }

    /// # Safety
    /// `ptr` is the pointer of a live handle owned by someone else; it is cloned.
    pub(crate) unsafe fn clone_ptr(ptr: *const BodyHdr) -> Option<Body> {
        // SAFETY: the borrowed handle is cloned and never dropped, so that the count stays correct.
        let borrowed = std::mem::ManuallyDrop::new(unsafe { Body::from_ptr(ptr) }?);
        Some(Body::clone(&borrowed))
    }

    /// Returns a new handle to the body at a pointer, whose owner keeps its own handle; `None` if this copy of the crate did not make the
    /// body.
    #[doc(hidden)]
    #[expect(clippy::not_unsafe_ptr_arg_deref, reason = "a pointer that is not of a live handle is not followed")]
    pub fn borrowed(ptr: *const BodyHdr) -> Option<Body> {
        // SAFETY: the header is live, because its owner holds a handle.
        if BodyHdr::is_live(ptr) { unsafe { Body::clone_ptr(ptr) } } else { None }
    }

    /// # Safety
    /// `ptr` came from `into_ptr`, and its ownership passes to the result.
    #[doc(hidden)]
    pub unsafe fn from_ptr(ptr: *const BodyHdr) -> Option<Body> {
        NonNull::new(ptr.cast_mut()).map(Body)
    }
}

impl std::fmt::Debug for Body {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Body({} nodes)", self.raw().nodes().len())
    }
}

layout!(BodyHdr { rc, drop_fn, view, buffer, units, tensors, n_tensors });
