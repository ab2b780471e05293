//! The reference-counted header of a module.

use super::body_handle::Body;
use super::layout::layout;
use super::live::Header;
use super::sealer;
use crate::ir::SealError;
use abi_stable::StableAbi;
use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// A function of a module: the address of its name, and its body.
#[repr(C)]
#[derive(StableAbi)]
#[doc(hidden)]
pub struct FuncEntry {
    name: *const u8,
    name_len: usize,
    body: Body,
}

impl FuncEntry {
    /// Returns name and body.
    pub(crate) fn parts(&self) -> (&str, &Body) {
        // SAFETY: the name lies in the name block of the module, which lives as long as the entry, and is UTF-8.
        let name = unsafe { std::str::from_utf8_unchecked(std::slice::from_raw_parts(self.name, self.name_len)) };
        (name, &self.body)
    }
}

/// Header of a module.
#[repr(C)]
#[derive(StableAbi)]
#[doc(hidden)]
pub struct ModuleHdr {
    #[sabi(unsafe_opaque_field)]
    rc: AtomicU64,
    drop_fn: extern "C" fn(*mut ModuleHdr),
    entries: *mut FuncEntry,
    n_entries: usize,
    meta: Option<Body>,
    /// The owner of the names; only the side that made the header accesses it.
    #[sabi(unsafe_opaque_field)]
    names: *const String,
}

/// A module: an immutable, reference-counted map from names to functions. Cloning costs one atomic addition.
///
/// ```
/// use plugin_api::prelude::*;
/// use plugin_api::ir::{AttrsId, BodyBuilder, SealError};
///
/// # let mut b = BodyBuilder::new();
/// # b.begin_function(0, AttrsId::NONE, None);
/// # let ty = b.ty(&Type::tensor([2, 3], DType::F32));
/// # let (x, relu, exp) = (b.param("x", ty), b.op("relax.nn.relu"), b.op("relax.exp"));
/// # b.begin_block();
/// # let a = b.call(relu, &[x], AttrsId::NONE, ty, false, Some("a"));
/// # let c = b.call(exp, &[a], AttrsId::NONE, ty, false, Some("c"));
/// # b.end();
/// # b.end_function(c, ty);
/// # let body = b.finish()?;
/// let module = Module::new([("main", body)]);
/// // A module pass changes some functions and keeps the others.
/// let mut edit = module.edit();
/// let helper = edit.add("main", module.get("main").expect("`main`").clone());
/// let changed = edit.finish();
/// assert_eq!(helper, "main_1"); // names are unique
/// assert_eq!(changed.functions().map(|(name, _)| name).collect::<Vec<_>>(), ["main", "main_1"]);
/// assert_eq!((module.len(), changed.len()), (1, 2));
///
/// // `map_functions` returns the same handle if nothing changed.
/// let same = module.map_functions(|_, body| Ok::<_, PassError>(body.clone())).expect("no error");
/// assert!(same.same(&module));
/// # Ok::<(), SealError>(())
/// ```
#[repr(transparent)]
pub struct Module(NonNull<ModuleHdr>);

// SAFETY: a module is immutable except for its atomic counter.
unsafe impl Send for Module {}
// SAFETY: as above.
unsafe impl Sync for Module {}

impl Clone for Module {
    #[inline]
    fn clone(&self) -> Self {
        self.hdr().rc.fetch_add(1, Ordering::Relaxed);
        Module(self.0)
    }
}

impl Drop for Module {
    #[inline]
    fn drop(&mut self) {
        let (rc, drop_fn) = (&self.hdr().rc, self.hdr().drop_fn);
        if rc.fetch_sub(1, Ordering::Release) == 1 {
            std::sync::atomic::fence(Ordering::Acquire);
            drop_fn(self.0.as_ptr());
        }
    }
}

extern "C" fn drop_module(hdr: *mut ModuleHdr) {
    // SAFETY: called once, by the last owner, on a header that `Module::make` of this library made.
    unsafe {
        let hdr = ModuleHdr::take(hdr);
        drop(Vec::from_raw_parts(hdr.entries, hdr.n_entries, hdr.n_entries));
        drop(Arc::from_raw(hdr.names));
    }
}

impl std::fmt::Debug for Module {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_map().entries(self.functions()).finish()
    }
}

impl Module {
    fn hdr(&self) -> &ModuleHdr {
        // SAFETY: the handle counts as one owner, so the header is still alive.
        unsafe { self.0.as_ref() }
    }

    pub(crate) fn entries(&self) -> &[FuncEntry] {
        let hdr = self.hdr();
        // SAFETY: made from a vector of that length, which lives as long as the header.
        unsafe { std::slice::from_raw_parts(hdr.entries, hdr.n_entries) }
    }

    /// Returns the body that holds the attributes and global infos of the module, if there are any.
    pub fn meta(&self) -> Option<&Body> {
        self.hdr().meta.as_ref()
    }

    /// Returns true if two handles refer to the same module, not merely to equal modules.
    #[inline]
    pub fn same(&self, other: &Module) -> bool {
        self.0 == other.0
    }

    /// Returns the current number of handles.
    #[doc(hidden)]
    pub fn owners(&self) -> u64 {
        self.hdr().rc.load(Ordering::Relaxed)
    }

    /// Returns a number that is unique among live modules.
    pub fn addr(&self) -> usize {
        self.0.as_ptr() as usize
    }

    /// Creates a module from functions sorted by name; in a plugin, the host creates it.
    pub(crate) fn from_parts(functions: Vec<(String, Body)>, meta: Option<Body>) -> Module {
        let by_host = sealer::host().and_then(|host| host.module(&functions, meta.as_ref()));
        by_host.unwrap_or_else(|| Module::from_parts_here(functions, meta))
    }

    /// Returns this module with some bodies replaced, by position. Returns the same handle if `changed` is empty.
    ///
    /// # Errors
    /// If the host rejects a body, or this copy of the crate did not make the module.
    pub(crate) fn with_bodies(&self, changed: Vec<(usize, Body)>) -> Result<Module, SealError> {
        if changed.is_empty() {
            return Ok(self.clone());
        }
        match sealer::host().and_then(|host| host.module_with(self, &changed)) {
            Some(module) => Ok(module),
            None if ModuleHdr::is_live(self.as_ptr()) => Ok(self.with_bodies_here(changed)),
            None => Err(SealError::Host("it did not make the module, or one of its new functions".to_string())),
        }
    }

    /// Makes a module from functions sorted by name, in this library.
    #[doc(hidden)]
    pub fn from_parts_here(functions: Vec<(String, Body)>, meta: Option<Body>) -> Module {
        let mut names = String::with_capacity(functions.iter().map(|(name, _)| name.len()).sum());
        functions.iter().for_each(|(name, _)| names.push_str(name));
        let names = Arc::new(names);
        let mut at = 0;
        let entry = |(name, body): (String, Body)| {
            let start = at;
            at += name.len();
            FuncEntry { name: names[start..].as_ptr(), name_len: name.len(), body }
        };
        let entries = functions.into_iter().map(entry).collect();
        Module::make(entries, meta, names)
    }

    /// Returns this module with some bodies replaced, in this library. Only for modules that this library made, because the reference count
    /// of the names belongs to the library that made them.
    #[doc(hidden)]
    pub fn with_bodies_here(&self, changed: Vec<(usize, Body)>) -> Module {
        let mut changed = changed.into_iter().peekable();
        let mut entries = Vec::with_capacity(self.entries().len());
        for (i, old) in self.entries().iter().enumerate() {
            let body = match changed.next_if(|(at, _)| *at == i) {
                Some((_, body)) => body,
                None => old.body.clone(),
            };
            entries.push(FuncEntry { name: old.name, name_len: old.name_len, body });
        }
        // SAFETY: `names` came from `Arc::into_raw` of this library, as `self` is one of its modules, and is alive as long as `self`; the count is
        // incremented for the new header.
        let names = unsafe {
            Arc::increment_strong_count(self.hdr().names);
            Arc::from_raw(self.hdr().names)
        };
        Module::make(entries, self.meta().cloned(), names)
    }

    fn make(entries: Vec<FuncEntry>, meta: Option<Body>, names: Arc<String>) -> Module {
        let entries = entries.into_boxed_slice();
        let n_entries = entries.len();
        let hdr = ModuleHdr {
            rc: AtomicU64::new(1),
            drop_fn: drop_module,
            entries: Box::into_raw(entries).cast(),
            n_entries,
            meta,
            names: Arc::into_raw(names),
        };
        // SAFETY: a heap allocation is not null.
        Module(unsafe { NonNull::new_unchecked(hdr.leak()) })
    }

    /// Returns the pointer of the handle, which keeps its ownership.
    #[doc(hidden)]
    pub fn as_ptr(&self) -> *const ModuleHdr {
        self.0.as_ptr()
    }

    /// # Safety
    /// `ptr` is the pointer of a live handle owned by someone else; it is cloned.
    #[doc(hidden)]
    pub unsafe fn clone_ptr(ptr: *const ModuleHdr) -> Option<Module> {
        // SAFETY: the borrowed handle is cloned and never dropped, so that the count stays correct.
        let borrowed = std::mem::ManuallyDrop::new(unsafe { Module::from_ptr(ptr) }?);
        Some(Module::clone(&borrowed))
    }

    /// Returns a new handle to the module at a pointer, whose owner keeps its own handle; `None` if this copy of the crate did not make the
    /// module.
    #[doc(hidden)]
    #[expect(clippy::not_unsafe_ptr_arg_deref, reason = "a pointer that is not of a live handle is not followed")]
    pub fn borrowed(ptr: *const ModuleHdr) -> Option<Module> {
        // SAFETY: the header is live, because its owner holds a handle.
        if ModuleHdr::is_live(ptr) { unsafe { Module::clone_ptr(ptr) } } else { None }
    }

    /// Converts the handle to a pointer that owns it, for the plugin boundary.
    #[doc(hidden)]
    pub fn into_ptr(self) -> *const ModuleHdr {
        let ptr = self.0.as_ptr();
        std::mem::forget(self);
        ptr
    }

    /// # Safety
    /// `ptr` came from `into_ptr`, and its ownership passes to the result.
    #[doc(hidden)]
    pub unsafe fn from_ptr(ptr: *const ModuleHdr) -> Option<Module> {
        NonNull::new(ptr.cast_mut()).map(Module)
    }
}

layout!(FuncEntry { name, name_len, body });
layout!(ModuleHdr { rc, drop_fn, entries, n_entries, meta, names });
