//! Loads object code into memory.

use super::api::Ref;
use super::{Llvm, LlvmError};
use crate::call::Entry;
use std::collections::HashMap;
use std::ffi::CString;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::thread;

/// Loaded code; dropping it unloads the code.
pub(crate) struct Loaded {
    llvm: Arc<Llvm>,
    name: String,
    tracker: Ref,
    entry: Entry,
}

/// The loaded code, by name of the entry.
pub(super) type InMemory = Mutex<HashMap<String, Weak<Loaded>>>;

// SAFETY: the tracker is used only when this is dropped, and LLVM's loader locks itself; the code may run on any thread.
unsafe impl Send for Loaded {}
// SAFETY: as above.
unsafe impl Sync for Loaded {}

impl Loaded {
    /// Loads object code. `name` is a hash of the content, so loaded code is shared.
    pub(crate) fn new(llvm: &Arc<Llvm>, object: &[u8], name: &str) -> Result<Arc<Loaded>, LlvmError> {
        loop {
            let mut known = llvm.in_memory();
            match known.get(name).map(Weak::upgrade) {
                Some(Some(loaded)) => return Ok(loaded),
                // Another thread is dropping the loaded code.
                Some(None) => {
                    drop(known);
                    thread::yield_now();
                }
                None => {
                    let loaded = Arc::new(Loaded::load(llvm, object, name)?);
                    known.insert(name.to_string(), Arc::downgrade(&loaded));
                    return Ok(loaded);
                }
            }
        }
    }

    fn load(llvm: &Arc<Llvm>, object: &[u8], name: &str) -> Result<Loaded, LlvmError> {
        let api = &llvm.api;
        let symbol = CString::new(name).map_err(|error| LlvmError::Load(error.to_string()))?;
        let mut address = 0u64;
        // SAFETY: the buffer copies the code, and the loader takes the buffer; the tracker is released when this is
        // dropped.
        let tracker = unsafe {
            let tracker = (api.LLVMOrcJITDylibCreateResourceTracker)((api.LLVMOrcLLJITGetMainJITDylib)(llvm.jit));
            let make = api.LLVMCreateMemoryBufferWithMemoryRangeCopy;
            let buffer = make(object.as_ptr().cast(), object.len(), symbol.as_ptr());
            let added = api.error((api.LLVMOrcLLJITAddObjectFileWithRT)(llvm.jit, tracker, buffer));
            let mut find = || api.error((api.LLVMOrcLLJITLookup)(llvm.jit, &raw mut address, symbol.as_ptr()));
            if let Err(message) = added.and_then(|()| find()) {
                let _ = api.error((api.LLVMOrcResourceTrackerRemove)(tracker));
                (api.LLVMOrcReleaseResourceTracker)(tracker);
                return Err(LlvmError::Load(message));
            }
            tracker
        };
        // SAFETY: the code was compiled from a module whose entry has this signature.
        let entry = unsafe { std::mem::transmute::<usize, Entry>(address as usize) };
        Ok(Loaded { llvm: Arc::clone(llvm), name: name.to_string(), tracker, entry })
    }

    /// Returns the entry. The entry must not be called after `self` is dropped.
    pub(crate) fn entry(&self) -> Entry {
        self.entry
    }
}

impl Llvm {
    /// Returns loaded code by its name, if it is in memory.
    pub(crate) fn loaded(&self, name: &str) -> Option<Arc<Loaded>> {
        self.in_memory().get(name)?.upgrade()
    }

    fn in_memory(&self) -> MutexGuard<'_, HashMap<String, Weak<Loaded>>> {
        self.in_memory.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Loaded {
    fn drop(&mut self) {
        let (api, mut known) = (&self.llvm.api, self.llvm.in_memory());
        // SAFETY: the code is no longer called, because it is reachable only through `self`.
        unsafe {
            let _ = api.error((api.LLVMOrcResourceTrackerRemove)(self.tracker));
            (api.LLVMOrcReleaseResourceTracker)(self.tracker);
        }
        known.remove(&self.name);
    }
}
