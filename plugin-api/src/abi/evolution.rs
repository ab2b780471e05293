//! Which versions of the plugin API a host takes, and the records as they were in older ones.
//!
//! `docs/decisions/0004-how-the-api-evolves.md` says which changes keep older plugins working; the tests here hold it.

use crate::abi::entry::Entry;
use crate::abi::layout::{Boundary, FINGERPRINT, RECORDS};
use crate::declare::declarations::API_VERSION;
use abi_stable::StableAbi;
use abi_stable::type_layout::TypeLayout;
use semver::Version;
use std::mem::size_of;

/// What a plugin of one minor version of the API has.
struct Served {
    minor: u64,
    /// Hash over the records and the contract; those of 0.1 say the one over the records alone.
    fingerprint: u64,
    layout: &'static TypeLayout,
    /// Bytes of its entry table.
    entry: usize,
}

/// Minor versions of the API that this host serves, oldest first; the last is its own.
static SERVED: &[Served] = &[
    Served {
        minor: 1,
        fingerprint: RECORDS,
        layout: <v0_1::Boundary as StableAbi>::LAYOUT,
        entry: size_of::<v0_1::Entry>(),
    },
    Served { minor: 2, fingerprint: FINGERPRINT, layout: <Boundary as StableAbi>::LAYOUT, entry: size_of::<Entry>() },
];

/// Why a plugin of another version of the API cannot be served: it tells which side to upgrade.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ApiMismatch {
    /// The plugin needs more than this host has.
    #[error("was built against plugin API {found}, this host has {API_VERSION}")]
    NewerPlugin {
        /// Version of the plugin's API.
        found: Version,
    },
    /// The host no longer has what the plugin needs.
    #[error("was built against plugin API {found}; this host has {API_VERSION} and takes 0.{} and later", SERVED[0].minor)]
    OlderPlugin {
        /// Version of the plugin's API.
        found: Version,
    },
}

impl ApiMismatch {
    /// What to do.
    pub fn help(&self) -> &'static str {
        match self {
            ApiMismatch::NewerPlugin { .. } => "upgrade passhost, or use an older build of the plugin",
            ApiMismatch::OlderPlugin { .. } => "upgrade the plugin: rebuild it against the plugin API of this host",
        }
    }
}

fn served(found: &Version) -> Result<&'static Served, ApiMismatch> {
    let found = found.clone();
    if found.major > 0 || SERVED.last().is_some_and(|own| found.minor > own.minor) {
        return Err(ApiMismatch::NewerPlugin { found });
    }
    SERVED.iter().find(|served| served.minor == found.minor).ok_or(ApiMismatch::OlderPlugin { found })
}

/// What a plugin of that version of the API has as fingerprint, if this host can serve it.
///
/// # Errors
/// Which side is too old.
pub fn fingerprint(api: &Version) -> Result<u64, ApiMismatch> {
    served(api).map(|served| served.fingerprint)
}

/// The layouts of that version.
pub(super) fn layout_of(api: &Version) -> Option<&'static TypeLayout> {
    served(api).ok().map(|served| served.layout)
}

/// Size of the entry table of that version.
pub(super) fn entry_size(api: &Version) -> usize {
    served(api).map_or(size_of::<Entry>(), |served| served.entry)
}

/// Records that have grown since version 0.1, as they were in it. Those that have not are the same type.
mod v0_1 {
    use crate::abi::entry::RunResult;
    use crate::abi::layout::{boundary, records};
    use crate::ir::records::*;
    use crate::ir::storage::body_handle::BodyHdr;
    use crate::ir::storage::module_handle::{FuncEntry, ModuleHdr};
    use crate::ir::storage::sections::{RawSlice, RawView};
    use crate::ir::storage::tensor::TensorHdr;
    use crate::services::{CtxRecord, DiagnosticRecord, LogRecord, RawBytes, Sink};
    use abi_stable::StableAbi;
    use std::ffi::c_void;
    use std::sync::atomic::AtomicUsize;

    #[repr(C)]
    #[derive(StableAbi)]
    pub(super) struct Services {
        size: u32,
        reserved: u32,
        max_level: &'static AtomicUsize,
        seal: extern "C" fn(*const RawView<'static>, Sink) -> *const BodyHdr,
        module: extern "C" fn(*const RawBytes, *const *const BodyHdr, usize, *const BodyHdr) -> *const ModuleHdr,
        module_with: extern "C" fn(*const ModuleHdr, *const usize, *const *const BodyHdr, usize) -> *const ModuleHdr,
        tensor: extern "C" fn(RawBytes) -> *const TensorHdr,
        infer: extern "C" fn(*const RawView<'static>, u32, Sink) -> u32,
        print: extern "C" fn(*const BodyHdr, Sink) -> u32,
        current: extern "C" fn() -> *const CtxRecord,
        query: extern "C" fn(u64, u32, RawBytes, Sink) -> u32,
        diagnose: extern "C" fn(u64, *const DiagnosticRecord),
        log_enabled: extern "C" fn(u32, RawBytes) -> u32,
        log: extern "C" fn(*const LogRecord),
    }

    #[repr(C)]
    #[derive(StableAbi)]
    pub(super) struct Entry {
        magic: u64,
        size: u32,
        reserved: u32,
        n_passes: u32,
        n_operators: u32,
        fingerprint: u64,
        api: RawBytes,
        metadata: RawBytes,
        init: extern "C" fn(*const Services, Sink) -> u32,
        layout: extern "C" fn() -> *const u8,
        run_module: extern "C" fn(*const Entry, u32, *const ModuleHdr, RawBytes, *const CtxRecord, Sink) -> RunResult,
        run_functions: extern "C" fn(
            *const Entry,
            u32,
            *const *const BodyHdr,
            *mut *const BodyHdr,
            usize,
            RawBytes,
            *const CtxRecord,
            Sink,
        ),
        infer: extern "C" fn(*const Entry, u32, *const RawView<'static>, u32, Sink) -> u32,
        #[sabi(unsafe_opaque_field)]
        decl: *const c_void,
    }

    records!(boundary);
}

#[cfg(test)]
mod tests;
