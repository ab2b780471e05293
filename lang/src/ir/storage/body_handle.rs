//! The reference-counted header of a body.

use super::layout::layout;
use super::live::Header;
use super::sections::{RawSlice, RawView};
use super::tensor::Tensor;
use abi_stable::StableAbi;
use std::marker::PhantomData;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU64, Ordering};

/// Header of a sealed body. Made by the host alone; plugins hold handles to it.
#[repr(C)]
#[derive(StableAbi)]
pub struct BodyHdr {
    #[sabi(unsafe_opaque_field)]
    rc: AtomicU64,
    drop_fn: extern "C" fn(*mut BodyHdr),
    view: RawView<'static>,
    /// Owned by the side that sealed: the buffer under `view`, in units of 16 bytes. The last one has the structural hash.
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

// SAFETY: a sealed body is immutable but for its atomic counters.
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
    // SAFETY: called once, by the last owner, on a header that `Body::seal_with` of this same library made.
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

    /// Bytes that the body takes: its header and sections. Constants count with their handles only, as bodies share them.
    pub fn byte_size(&self) -> usize {
        let hdr = self.hdr();
        size_of::<BodyHdr>() + hdr.units * size_of::<u128>() + hdr.n_tensors * size_of::<Tensor>()
    }

    /// The sections.
    #[inline]
    pub fn raw(&self) -> &RawView<'_> {
        &self.hdr().view
    }

    /// Whether two handles are the same body, not only equal ones.
    #[inline]
    pub fn same(&self, other: &Body) -> bool {
        self.0 == other.0
    }

    /// A number that tells this body from every other one that is alive.
    #[inline]
    pub fn addr(&self) -> usize {
        self.0.as_ptr() as usize
    }

    /// Number of handles, as of this moment.
    #[doc(hidden)]
    pub fn owners(&self) -> u64 {
        self.hdr().rc.load(Ordering::Relaxed)
    }

    /// The structural hash if it was computed before, else 0. Only in the copy of the crate that made the body: another
    /// one may hash in another way.
    pub(crate) fn cached_hash(&self) -> Option<&AtomicU64> {
        let hdr = self.hdr();
        if !std::ptr::fn_addr_eq(hdr.drop_fn, drop_body as extern "C" fn(*mut BodyHdr)) {
            return None;
        }
        // SAFETY: made here, by `seal_with`: behind the sections the buffer has one more unit, aligned to 16 bytes, which
        // nothing else looks at, and it lives as long as the header.
        Some(unsafe { AtomicU64::from_ptr(hdr.buffer.add(hdr.units - 1).cast()) })
    }

    /// Copies the sections and lets `check` see the copy before it becomes a body.
    pub(crate) fn seal_with<E>(
        raw: &RawView<'_>,
        check: impl FnOnce(&RawView<'_>) -> Result<(), E>,
    ) -> Result<Body, E> {
        // The last unit is for the hash.
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
        // SAFETY: what is on the heap is not null.
        Ok(Body(unsafe { NonNull::new_unchecked(hdr.leak()) }))
    }

    /// The pointer of the handle, which stays with its owner.
    #[doc(hidden)]
    pub fn as_ptr(&self) -> *const BodyHdr {
        self.0.as_ptr()
    }

    /// Gives the handle away as a pointer, for the boundary.
    #[doc(hidden)]
    pub fn into_ptr(self) -> *const BodyHdr {
        let ptr = self.0.as_ptr();
        std::mem::forget(self);
        ptr
    }

    /// # Safety
    /// `ptr` is the pointer of a live handle of somebody else; it is cloned.
    pub(crate) unsafe fn clone_ptr(ptr: *const BodyHdr) -> Option<Body> {
        // SAFETY: the borrowed handle is cloned and then forgotten, so that its count stays right.
        let borrowed = std::mem::ManuallyDrop::new(unsafe { Body::from_ptr(ptr) }?);
        Some(Body::clone(&borrowed))
    }

    /// A new handle of the body behind a pointer that somebody else gave, who keeps his own; `None` if this copy of
    /// the crate did not make it.
    #[doc(hidden)]
    #[expect(clippy::not_unsafe_ptr_arg_deref, reason = "a pointer that is not of a live handle is not followed")]
    pub fn borrowed(ptr: *const BodyHdr) -> Option<Body> {
        // SAFETY: a header that lives, and somebody holds a handle of.
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
