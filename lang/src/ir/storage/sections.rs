//! Sections in memory.
//!
//! The process-local header contains pairs of pointer and length. All code that dereferences these is here; the rest of the crate is safe
//! code over slices.

use super::layout::layout;
use super::tensor::{Tensor, TensorHdr};
use crate::ir::records::*;
use abi_stable::StableAbi;
use std::marker::PhantomData;

/// Pointer and number of records of one section.
#[repr(C)]
#[derive(Clone, Copy, Debug, StableAbi)]
#[doc(hidden)]
pub struct RawSlice {
    ptr: *const u8,
    len: usize,
}

impl RawSlice {
    /// No records.
    pub(crate) const EMPTY: RawSlice = RawSlice { ptr: std::ptr::null(), len: 0 };

    /// Describes the records of a slice; valid as long as the slice lives.
    pub(crate) fn of<T>(slice: &[T]) -> RawSlice {
        RawSlice { ptr: slice.as_ptr().cast(), len: slice.len() }
    }

    /// Checks that `len` records of type `T` can exist at the address. Even creating an invalid slice is undefined behaviour.
    fn plausible<T>(self, section: &str) -> Result<(), String> {
        let found = |why: &str| Err(format!("section `{section}` has {} records, {why}", self.len));
        if self.len == 0 {
            return Ok(());
        }
        if self.len > MOST_BYTES / std::mem::size_of::<T>() {
            return found("more than a section of 1 GiB can hold; split the function");
        }
        if self.ptr.is_null() {
            return found("but its address is null");
        }
        if !self.ptr.cast::<T>().is_aligned() {
            return found("but its address is misaligned for them");
        }
        Ok(())
    }

    /// Returns `bytes` as records; `None` if the length is not a multiple of the record size, or the bytes are
    /// misaligned.
    fn within<T: Record>(bytes: &[u8]) -> Option<RawSlice> {
        let whole = bytes.len().is_multiple_of(std::mem::size_of::<T>());
        let slice = RawSlice { ptr: bytes.as_ptr().cast(), len: bytes.len() / std::mem::size_of::<T>() };
        (whole && (slice.len == 0 || slice.ptr.cast::<T>().is_aligned())).then_some(slice)
    }

    /// # Safety
    /// The pointer must be valid for `len` records of type `T` for as long as `'a`, and aligned for it.
    unsafe fn get<'a, T>(self) -> &'a [T] {
        if self.len == 0 {
            return &[];
        }
        // SAFETY: the caller guarantees pointer, length and alignment.
        unsafe { std::slice::from_raw_parts(self.ptr.cast(), self.len) }
    }
}

/// Maximum length of a section of a function, in bytes.
const MOST_BYTES: usize = 1 << 30;

/// Number of section slots in a header; some are reserved.
pub(crate) const SLOTS: usize = 24;

impl Sections {
    /// Creates empty sections with room for `nodes` nodes and the usual number of entries to which they refer.
    pub(crate) fn with_capacity(nodes: usize) -> Sections {
        let entries = nodes / 4;
        Sections {
            nodes: Vec::with_capacity(nodes),
            names: Vec::with_capacity(nodes),
            operands: Vec::with_capacity(3 * nodes),
            name_bytes: Vec::with_capacity(4 * nodes),
            leaves: Vec::with_capacity(entries),
            types: Vec::with_capacity(entries),
            prims: Vec::with_capacity(entries),
            lists: Vec::with_capacity(2 * entries),
            ..Sections::default()
        }
    }
}

macro_rules! sections {
    ($($(#[$doc:meta])* $slot:literal $name:ident: $ty:ty;)*) => {
        /// The slot, name and record type of every section.
        #[doc(hidden)]
        pub const SECTIONS: &[(usize, &str, &str)] = &[$(($slot, stringify!($name), stringify!($ty)),)*];

        /// Owned sections by name: a builder fills them and `seal` takes them.
        #[derive(Clone, Debug, Default)]
        pub struct Sections {
            $($(#[$doc])* pub $name: Vec<$ty>,)*
            /// The data of the constants, one tensor each.
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

            /// Returns the number of bytes in all sections.
            pub fn byte_len(&self) -> usize {
                0 $(+ std::mem::size_of_val(self.$name.as_slice()))*
            }
        }

        impl<'a> RawView<'a> {
            $($(#[$doc])* #[inline]
            pub fn $name(&self) -> &'a [$ty] {
                // SAFETY: a view is made only from slices of these types that live for 'a.
                unsafe { self.slots[$slot].get::<$ty>() }
            })*

            /// Returns the number of bytes in all sections.
            pub fn byte_len(&self) -> usize {
                0 $(+ std::mem::size_of_val(self.$name()))*
            }

            /// Checks that every section has a plausible address and length, before any is read.
            ///
            /// # Errors
            /// An error about the first section without one.
            #[doc(hidden)]
            pub fn plausible(&self) -> Result<(), String> {
                $(self.slots[$slot].plausible::<$ty>(stringify!($name))?;)*
                self.tensors.plausible::<Tensor>("tensors")
            }

            /// Calls `f` with the bytes of each section, in the order of this list.
            #[doc(hidden)]
            pub fn each_section(&self, mut f: impl FnMut(&'a [u8])) {
                $(f(bytes_of(self.$name()));)*
            }

            /// Creates a view of the sections that `next` returns, in the same order. The records may have any value. Returns `None` if the
            /// size of a section is not a multiple of the record size.
            #[doc(hidden)]
            pub fn of_sections(
                mut next: impl FnMut() -> Option<&'a [u8]>,
                tensors: &'a [Tensor],
            ) -> Option<RawView<'a>> {
                let mut slots = [RawSlice::EMPTY; SLOTS];
                $(slots[$slot] = RawSlice::within::<$ty>(next()?)?;)*
                let view = RawView { slots, tensors: RawSlice::of(tensors), life: PhantomData };
                view.plausible().is_ok().then_some(view)
            }

            /// Copies every section into `buffer` (16-aligned offsets) and returns the addresses of the copies.
            pub(super) fn copy_into(&self, buffer: &mut [u128]) -> [RawSlice; SLOTS] {
                let mut slots = [RawSlice::EMPTY; SLOTS];
                let mut at = 0usize;
                $({
                    let source = self.$name();
                    let bytes = std::mem::size_of_val(source);
                    if bytes > 0 {
                        let room = &mut buffer[at..at + bytes.div_ceil(16)];
                        // SAFETY: `room` has at least `bytes` bytes, source and target do not overlap, and records are plain data.
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

            /// Returns the number of 16-byte units that `copy_into` needs.
            pub(super) fn units(&self) -> usize {
                0 $(+ std::mem::size_of_val(self.$name()).div_ceil(16))*
            }
        }
    };
}

/// Borrowed sections of a sealed body, or of a builder.
#[repr(C)]
#[derive(Clone, Copy, Debug, StableAbi)]
pub struct RawView<'a> {
    pub(super) slots: [RawSlice; SLOTS],
    pub(super) tensors: RawSlice,
    #[sabi(unsafe_opaque_field)]
    pub(super) life: PhantomData<&'a [u8]>,
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
    /// Positions of the nodes in the source text, one per node, or empty. Not semantic.
    15 spans: u32;
    /// The origins of the nodes, one per node, or empty unless the host requests them: see [`Origin`](crate::ir::origins::Origin). Not
    /// semantic.
    16 origins: u32;
    /// The sources of nodes: lists of numbers, each preceded by its length. Not semantic.
    17 origin_lists: u32;
    /// The number of rewrites that edits of the body apply, or empty for all: see [`Body::limited_to`](crate::ir::Body::limited_to). Not semantic.
    18 limit: u32;
}

// SAFETY: the sections are immutable for the life of the view.
unsafe impl Send for RawView<'_> {}
// SAFETY: as above.
unsafe impl Sync for RawView<'_> {}

impl<'a> RawView<'a> {
    /// Returns the data of the constants.
    #[inline]
    pub fn tensors(&self) -> &'a [Tensor] {
        // SAFETY: a view is made only from slices of tensors that live for 'a.
        unsafe { self.tensors.get::<Tensor>() }
    }

    /// Returns new handles to the data of all constants. Each address is read once, and must be a tensor of this copy of the crate. The
    /// sections must be plausible.
    ///
    /// # Errors
    /// An error about the first address that is not such a tensor.
    #[doc(hidden)]
    pub fn own_tensors(&self) -> Result<Vec<Tensor>, String> {
        // SAFETY: the list lives for 'a; a tensor is a transparent pointer, which may have any value as long as it is only read as a pointer.
        let handles: &[*const TensorHdr] = unsafe { self.tensors.get() };
        let own = |(at, handle): (usize, &*const TensorHdr)| {
            Tensor::borrowed(*handle).ok_or_else(|| format!("the data of constant {at} does not come from this host"))
        };
        handles.iter().enumerate().map(own).collect()
    }

    /// Returns the sections with the data of constants replaced.
    #[doc(hidden)]
    pub fn with_tensors(self, tensors: &'a [Tensor]) -> RawView<'a> {
        RawView { tensors: RawSlice::of(tensors), ..self }
    }

    /// Returns the same tables with other nodes, without source positions.
    pub(crate) fn with_nodes<'b>(
        &'b self,
        nodes: &'b [NodeRec],
        operands: &'b [u32],
        (names, origins): (&'b [u32], &'b [u32]),
    ) -> RawView<'b> {
        let mut slots = self.slots;
        (slots[0], slots[1], slots[12]) = (RawSlice::of(nodes), RawSlice::of(operands), RawSlice::of(names));
        (slots[15], slots[16]) = (RawSlice::EMPTY, RawSlice::of(origins));
        RawView { slots, tensors: self.tensors, life: PhantomData }
    }

    /// Returns the same sections with the given origins and limit of rewrites.
    pub(crate) fn with_notes<'b>(&'b self, origins: &'b [u32], lists: &'b [u32], limit: &'b [u32]) -> RawView<'b> {
        let mut slots = self.slots;
        (slots[16], slots[17], slots[18]) = (RawSlice::of(origins), RawSlice::of(lists), RawSlice::of(limit));
        RawView { slots, tensors: self.tensors, life: PhantomData }
    }

    /// Returns a string of the string table; empty if the id is out of range.
    #[inline]
    pub fn str(&self, id: u32) -> &'a str {
        let Some(rec) = self.strs().get(id as usize) else { return "" };
        let bytes = self.str_bytes().get(rec.off as usize..(rec.off as usize).saturating_add(rec.len as usize));
        std::str::from_utf8(bytes.unwrap_or(&[])).unwrap_or("")
    }

    /// Returns the name at an offset of the name bytes; `None` for `NONE` or an offset out of range.
    #[inline]
    pub fn name_at(&self, off: u32) -> Option<&'a str> {
        let bytes = self.name_bytes().get(off as usize..)?;
        let (len, rest) = bytes.split_first_chunk::<2>()?;
        std::str::from_utf8(rest.get(..u16::from_le_bytes(*len) as usize)?).ok()
    }

    /// Returns a list of types or dimensions; empty if out of range.
    #[inline]
    pub fn list(&self, off: u32, len: u32) -> &'a [u32] {
        self.lists().get(off as usize..(off as usize).saturating_add(len as usize)).unwrap_or(&[])
    }
}

/// Returns records as bytes.
#[doc(hidden)]
pub fn bytes_of<T: Record>(records: &[T]) -> &[u8] {
    // SAFETY: `Record` types have no padding, so every byte is initialized.
    unsafe { std::slice::from_raw_parts(records.as_ptr().cast(), std::mem::size_of_val(records)) }
}

/// Copies records from bytes; `None` if the length is not a multiple of the record size.
#[doc(hidden)]
pub fn records_from<T: Record>(bytes: &[u8]) -> Option<Vec<T>> {
    let size = std::mem::size_of::<T>();
    if !bytes.len().is_multiple_of(size) {
        return None;
    }
    let n = bytes.len() / size;
    let mut out: Vec<T> = Vec::with_capacity(n);
    // SAFETY: room for `n` records was reserved, every bit pattern is a valid record, and source and target do not overlap.
    unsafe {
        std::ptr::copy_nonoverlapping(bytes.as_ptr(), out.as_mut_ptr().cast::<u8>(), bytes.len());
        out.set_len(n);
    }
    Some(out)
}

/// # Safety
/// `#[repr(C)]`, any bit pattern is valid, plain data, without implicit padding.
#[doc(hidden)]
pub unsafe trait Record: Copy {}

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
