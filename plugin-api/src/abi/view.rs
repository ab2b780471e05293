//! Sections as they lie in memory, and the reference-counted headers of bodies, modules and tensors.
//!
//! The process-local header holds pointer and length pairs; everything that reads them is here, so that the rest of
//! the crate is safe code over slices.

use super::layout::layout;
use super::live::Header;
use crate::ir::records::*;
use abi_stable::StableAbi;
use std::marker::PhantomData;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU64, Ordering};

/// Pointer and number of records of one section.
#[repr(C)]
#[derive(Clone, Copy, Debug, StableAbi)]
pub struct RawSlice {
    ptr: *const u8,
    len: usize,
}

impl RawSlice {
    /// No records.
    pub const EMPTY: RawSlice = RawSlice { ptr: std::ptr::null(), len: 0 };

    /// The records of a slice, as long as it lives.
    pub fn of<T>(slice: &[T]) -> RawSlice {
        RawSlice { ptr: slice.as_ptr().cast(), len: slice.len() }
    }

    /// Whether there can be so many records of type `T` there. What is no slice at all must not be read, not even to
    /// refuse it.
    fn plausible<T>(self, section: &str) -> Result<(), String> {
        let found = |why: &str| Err(format!("section `{section}` says it has {} records, {why}", self.len));
        if self.len == 0 {
            return Ok(());
        }
        if self.len > MOST_BYTES / std::mem::size_of::<T>() {
            return found("more than the 1 GiB that a section can have; split the function");
        }
        if self.ptr.is_null() {
            return found("but it has no address");
        }
        if !self.ptr.cast::<T>().is_aligned() {
            return found("but its address is not aligned for them");
        }
        Ok(())
    }

    /// # Safety
    /// The pointer must be valid for `len` records of type `T` for as long as `'a`, and aligned for it.
    unsafe fn get<'a, T>(self) -> &'a [T] {
        if self.len == 0 {
            return &[];
        }
        // SAFETY: the caller vouches for pointer, length and alignment.
        unsafe { std::slice::from_raw_parts(self.ptr.cast(), self.len) }
    }
}

/// No section of a function is longer.
const MOST_BYTES: usize = 1 << 30;

/// Number of section slots in a header, some of them reserved.
pub const SLOTS: usize = 24;

macro_rules! sections {
    ($($(#[$doc:meta])* $slot:literal $name:ident: $ty:ty;)*) => {
        /// Slot, name and record of every section.
        #[cfg(test)]
        pub(super) const SECTIONS: &[(usize, &str, &str)] = &[$(($slot, stringify!($name), stringify!($ty)),)*];

        /// Sections by name, owned: what a builder fills and `seal` takes.
        #[derive(Clone, Debug, Default)]
        pub struct Sections {
            $($(#[$doc])* pub $name: Vec<$ty>,)*
            /// Data of the constants, one each.
            pub tensors: Vec<Tensor>,
        }

        impl Sections {
            /// Borrows every section.
            pub fn raw(&self) -> RawView<'_> {
                let mut slots = [RawSlice::EMPTY; SLOTS];
                $(slots[$slot] = RawSlice::of(&self.$name);)*
                RawView { slots, tensors: RawSlice::of(&self.tensors), life: PhantomData }
            }

            /// Copies every section.
            pub fn copy_of(raw: &RawView<'_>) -> Sections {
                Sections { $($name: raw.$name().to_vec(),)* tensors: raw.tensors().to_vec() }
            }

            /// Number of bytes in all sections.
            pub fn byte_len(&self) -> usize {
                0 $(+ std::mem::size_of_val(self.$name.as_slice()))*
            }
        }

        impl<'a> RawView<'a> {
            $($(#[$doc])* #[inline]
            pub fn $name(&self) -> &'a [$ty] {
                // SAFETY: a view is only made from slices of these types that live for 'a.
                unsafe { self.slots[$slot].get::<$ty>() }
            })*

            /// Number of bytes in all sections.
            pub fn byte_len(&self) -> usize {
                0 $(+ std::mem::size_of_val(self.$name()))*
            }

            /// Whether every section can be one, before any is read.
            ///
            /// # Errors
            /// The first that cannot.
            pub(crate) fn plausible(&self) -> Result<(), String> {
                $(self.slots[$slot].plausible::<$ty>(stringify!($name))?;)*
                self.tensors.plausible::<Tensor>("tensors")
            }

            /// Copies every section into `buffer` (16-aligned offsets) and points a new view at the copies.
            fn copy_into(&self, buffer: &mut [u128]) -> [RawSlice; SLOTS] {
                let mut slots = [RawSlice::EMPTY; SLOTS];
                let mut at = 0usize;
                $({
                    let source = self.$name();
                    let bytes = std::mem::size_of_val(source);
                    if bytes > 0 {
                        let room = &mut buffer[at..at + bytes.div_ceil(16)];
                        // SAFETY: `room` has at least `bytes` bytes, the two do not overlap, and records are plain data.
                        unsafe {
                            std::ptr::copy_nonoverlapping(source.as_ptr().cast::<u8>(), room.as_mut_ptr().cast::<u8>(), bytes);
                        }
                        slots[$slot] = RawSlice { ptr: room.as_ptr().cast(), len: source.len() };
                        at += bytes.div_ceil(16);
                    }
                })*
                let _ = at;
                slots
            }

            /// Number of 16-byte units that `copy_into` needs.
            fn units(&self) -> usize {
                0 $(+ std::mem::size_of_val(self.$name()).div_ceil(16))*
            }
        }
    };
}

/// Borrowed sections: of a sealed body, or of a builder at work.
#[repr(C)]
#[derive(Clone, Copy, Debug, StableAbi)]
pub struct RawView<'a> {
    slots: [RawSlice; SLOTS],
    tensors: RawSlice,
    #[sabi(unsafe_opaque_field)]
    life: PhantomData<&'a [u8]>,
}

sections! {
    /// Nodes in program order.
    0 nodes: NodeRec;
    /// Operands of the nodes.
    1 operands: u32;
    /// Leaves.
    2 leaves: LeafRec;
    /// Types.
    3 types: TypeRec;
    /// Lists of types and dimensions.
    4 lists: u32;
    /// Dimension expressions.
    5 prims: PrimRec;
    /// Strings.
    6 strs: StrRec;
    /// Bytes of the strings.
    7 str_bytes: u8;
    /// Dicts.
    8 dicts: DictRec;
    /// Attribute entries.
    9 attrs: AttrRec;
    /// Constants.
    10 consts: ConstRec;
    /// Buffers.
    11 buffers: BufferRec;
    /// Names of nodes: one offset into `name_bytes` each, or `NONE`. Not semantic.
    12 names: u32;
    /// Names: length (u16), then UTF-8. Not semantic.
    13 name_bytes: u8;
    /// Names of symbolic variables: one offset into `name_bytes` each, or `NONE`. Not semantic.
    14 var_names: u32;
    /// Places in the text that the nodes were read from, one each, or empty. Not semantic.
    15 spans: u32;
}

// SAFETY: the sections are immutable for the life of the view.
unsafe impl Send for RawView<'_> {}
// SAFETY: as above.
unsafe impl Sync for RawView<'_> {}

impl<'a> RawView<'a> {
    /// Data of the constants.
    #[inline]
    pub fn tensors(&self) -> &'a [Tensor] {
        // SAFETY: a view is only made from slices of tensors that live for 'a.
        unsafe { self.tensors.get::<Tensor>() }
    }

    /// New handles of the data of all constants. Each address is read once, and is of this copy of the crate. The
    /// sections must be plausible.
    ///
    /// # Errors
    /// The first that is not.
    pub(crate) fn own_tensors(&self) -> Result<Vec<Tensor>, String> {
        // SAFETY: the list lives for 'a; a tensor is a transparent pointer, which may have any value as long as it is one.
        let handles: &[*const TensorHdr] = unsafe { self.tensors.get() };
        let own = |(at, handle): (usize, &*const TensorHdr)| {
            Tensor::borrowed(*handle).ok_or_else(|| format!("the data of constant {at} was not made by this host"))
        };
        handles.iter().enumerate().map(own).collect()
    }

    /// The same sections with other data of constants.
    pub(crate) fn with_tensors(self, tensors: &'a [Tensor]) -> RawView<'a> {
        RawView { tensors: RawSlice::of(tensors), ..self }
    }

    /// A string of the string table; empty if the id is out of range.
    #[inline]
    pub fn str(&self, id: u32) -> &'a str {
        let Some(rec) = self.strs().get(id as usize) else { return "" };
        let bytes = self.str_bytes().get(rec.off as usize..(rec.off as usize).saturating_add(rec.len as usize));
        std::str::from_utf8(bytes.unwrap_or(&[])).unwrap_or("")
    }

    /// The name at an offset of the name bytes; `None` for `NONE` or an offset out of range.
    #[inline]
    pub fn name_at(&self, off: u32) -> Option<&'a str> {
        let bytes = self.name_bytes().get(off as usize..)?;
        let (len, rest) = bytes.split_first_chunk::<2>()?;
        std::str::from_utf8(rest.get(..u16::from_le_bytes(*len) as usize)?).ok()
    }

    /// A list of types or dimensions; empty if out of range.
    #[inline]
    pub fn list(&self, off: u32, len: u32) -> &'a [u32] {
        self.lists().get(off as usize..(off as usize).saturating_add(len as usize)).unwrap_or(&[])
    }
}

/// Header of a sealed body. Made by the host alone; plugins hold handles to it.
#[repr(C)]
#[derive(StableAbi)]
pub struct BodyHdr {
    #[sabi(unsafe_opaque_field)]
    rc: AtomicU64,
    drop_fn: extern "C" fn(*mut BodyHdr),
    /// 0. Copies of the crate from version 0.1 of the API write here; nothing reads it.
    #[sabi(unsafe_opaque_field)]
    hash: AtomicU64,
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
    pub(super) fn owners(&self) -> u64 {
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
            hash: AtomicU64::new(0),
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
    pub(crate) fn as_ptr(&self) -> *const BodyHdr {
        self.0.as_ptr()
    }

    /// Gives the handle away as a pointer, for the boundary.
    pub(crate) fn into_ptr(self) -> *const BodyHdr {
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
    pub(crate) fn borrowed(ptr: *const BodyHdr) -> Option<Body> {
        // SAFETY: a header that lives, and somebody holds a handle of.
        if BodyHdr::is_live(ptr) { unsafe { Body::clone_ptr(ptr) } } else { None }
    }

    /// # Safety
    /// `ptr` came from `into_ptr`, and its ownership passes to the result.
    pub(crate) unsafe fn from_ptr(ptr: *const BodyHdr) -> Option<Body> {
        NonNull::new(ptr.cast_mut()).map(Body)
    }
}

impl std::fmt::Debug for Body {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Body({} nodes)", self.raw().nodes().len())
    }
}

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

/// Data of a constant: immutable, 16-aligned, reference-counted, with its content hash.
#[repr(transparent)]
#[derive(StableAbi)]
pub struct Tensor(NonNull<TensorHdr>);

// SAFETY: immutable but for the atomic counter.
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
    /// Copies `bytes`, through the host where there is one.
    pub fn new(bytes: &[u8]) -> Tensor {
        super::services::tensor(bytes).unwrap_or_else(|| Tensor::new_here(bytes))
    }

    /// # Safety
    /// `ptr` came from `into_ptr`, and its ownership passes to the result.
    pub(crate) unsafe fn from_ptr(ptr: *const TensorHdr) -> Option<Tensor> {
        NonNull::new(ptr.cast_mut()).map(Tensor)
    }

    /// A new handle of the tensor behind a pointer that somebody else gave, who keeps his own; `None` if this copy of
    /// the crate did not make it.
    fn borrowed(ptr: *const TensorHdr) -> Option<Tensor> {
        if !TensorHdr::is_live(ptr) {
            return None;
        }
        // SAFETY: a header that lives, and somebody holds a handle of; it is cloned and then forgotten, so that its
        // count stays right.
        let borrowed = std::mem::ManuallyDrop::new(unsafe { Tensor::from_ptr(ptr) }?);
        Some(Tensor::clone(&borrowed))
    }

    /// Gives the handle away as a pointer, for the boundary.
    pub(crate) fn into_ptr(self) -> *const TensorHdr {
        let ptr = self.0.as_ptr();
        std::mem::forget(self);
        ptr
    }

    /// Copies `bytes` in this library.
    pub(crate) fn new_here(bytes: &[u8]) -> Tensor {
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
        // SAFETY: what is on the heap is not null.
        Tensor(unsafe { NonNull::new_unchecked(hdr.leak()) })
    }

    fn hdr(&self) -> &TensorHdr {
        // SAFETY: the handle counts as one owner, so the header lives.
        unsafe { self.0.as_ref() }
    }

    /// The data.
    pub fn bytes(&self) -> &[u8] {
        let hdr = self.hdr();
        // SAFETY: `data` was allocated with at least `bytes` bytes and lives as long as the header.
        unsafe { std::slice::from_raw_parts(hdr.data.cast(), hdr.bytes) }
    }

    /// Content hash: low half, high half.
    pub fn hash128(&self) -> (u64, u64) {
        (self.hdr().hash_lo, self.hdr().hash_hi)
    }
}

impl std::fmt::Debug for Tensor {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Tensor({} bytes)", self.bytes().len())
    }
}

/// Records as bytes.
pub(crate) fn bytes_of<T: Record>(records: &[T]) -> &[u8] {
    // SAFETY: `Record` types have no padding, so every byte is initialized.
    unsafe { std::slice::from_raw_parts(records.as_ptr().cast(), std::mem::size_of_val(records)) }
}

/// Records from bytes; `None` if their number is not whole.
pub(crate) fn records_from<T: Record>(bytes: &[u8]) -> Option<Vec<T>> {
    let size = std::mem::size_of::<T>();
    if !bytes.len().is_multiple_of(size) {
        return None;
    }
    let n = bytes.len() / size;
    let mut out: Vec<T> = Vec::with_capacity(n);
    // SAFETY: room for `n` records was reserved, every bit pattern is a valid record, and the two do not overlap.
    unsafe {
        std::ptr::copy_nonoverlapping(bytes.as_ptr(), out.as_mut_ptr().cast::<u8>(), bytes.len());
        out.set_len(n);
    }
    Some(out)
}

/// # Safety
/// `#[repr(C)]`, any bit pattern is valid, plain data, without implicit padding.
pub(crate) unsafe trait Record: Copy {}

macro_rules! records {
    ($($ty:ty = $size:literal),*) => {$(
        // SAFETY: the fields' sizes add up to the size of the record, so there is no padding.
        unsafe impl Record for $ty {}
        const _: () = assert!(std::mem::size_of::<$ty>() == $size);
    )*};
}
records!(
    NodeRec = 24,
    LeafRec = 16,
    TypeRec = 24,
    PrimRec = 16,
    DictRec = 8,
    AttrRec = 24,
    StrRec = 8,
    ConstRec = 32,
    BufferRec = 40,
    u32 = 4,
    u8 = 1
);

layout!(RawSlice { ptr, len });
layout!(RawView as RawView<'static> { slots, tensors, life });
layout!(BodyHdr { rc, drop_fn, hash, view, buffer, units, tensors, n_tensors });
layout!(TensorHdr { rc, drop_fn, hash_lo, hash_hi, data, units, bytes });

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ir::records::{NONE, kind};
    use crate::ir::{BodyBuilder, NodeSpec};

    /// The slot in the header, where copies of the crate from version 0.1 write their hash, counts for nothing.
    #[test]
    fn hashes_of_other_copies_are_not_read() {
        let body = || {
            let mut b = BodyBuilder::new();
            b.node(NodeSpec::new(kind::MODULE).a(NONE), &[], None);
            b.finish().expect("a body")
        };
        let (one, two) = (body(), body());
        one.hdr().hash.store(1, Ordering::Relaxed);
        two.hdr().hash.store(2, Ordering::Relaxed);
        assert!(one.structural_eq(&two));
        assert!(one.structural_hash() == two.structural_hash() && one.structural_hash() != 1);
        assert_eq!(one.cached_hash().map(|hash| hash.load(Ordering::Relaxed)), Some(two.structural_hash()));
        assert!(one.structural_eq(&two));
    }
}
