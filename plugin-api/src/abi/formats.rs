//! Readers and writers across the boundary: the shims of the plugin, and the calls in the host.
//!
//! The properties of a file are tagged fields, so that later versions can add fields.

use crate::PassError;
use crate::abi::entry::{
    Entry, EntryOf1_1, OK, PANICKED, RunResult, caught, error_bytes, option_bytes, read_options, status_of,
};
use crate::abi::host::{OpenPlugin, RunFailure, current, made_module, spans};
use crate::declare::formats::{Output, Source};
use crate::declare::pass::Ctx;
use crate::ir::storage::module_handle::{Module, ModuleHdr};
use crate::metadata::OptionValue;
use crate::metadata::wire::{Fields, put_field};
use crate::services::files::{Files, Open, Sources, Take};
use crate::services::{self, CtxRecord, RawBytes, Sink};
use std::ffi::OsStr;
use std::path::Path;

/// Tags of the properties of a file. A tag is never reused.
pub(super) mod file {
    pub(in super::super) const NAME: u16 = 1;
    /// The absolute path, in the encoding of the system.
    pub(in super::super) const PATH: u16 = 2;
}

/// Encodes the properties of a file.
pub(super) fn file_bytes(name: &str, path: Option<&Path>) -> Vec<u8> {
    let mut out = Vec::new();
    put_field(&mut out, file::NAME, name.as_bytes());
    if let Some(path) = path {
        put_field(&mut out, file::PATH, path.as_os_str().as_encoded_bytes());
    }
    out
}

/// Decodes the bytes of [`file_bytes`].
pub(super) fn read_file(bytes: &[u8]) -> (&str, Option<&Path>) {
    let (mut name, mut path) = ("", None);
    for (tag, content) in Fields::new(bytes).flatten() {
        match tag {
            file::NAME => name = std::str::from_utf8(content).unwrap_or_default(),
            file::PATH => path = os_str(content).map(Path::new),
            _ => {}
        }
    }
    (name, path)
}

#[cfg(unix)]
fn os_str(bytes: &[u8]) -> Option<&OsStr> {
    Some(std::os::unix::ffi::OsStrExt::from_bytes(bytes))
}

#[cfg(not(unix))]
fn os_str(bytes: &[u8]) -> Option<&OsStr> {
    std::str::from_utf8(bytes).ok().map(OsStr::new)
}

/// The shim of a reader. Parameters: table, reader, properties of the file, its bytes, options, context, files that may
/// be opened, error.
pub(super) extern "C" fn read(
    entry: *const Entry,
    at: u32,
    file: RawBytes,
    bytes: RawBytes,
    options: RawBytes,
    ctx: *const CtxRecord,
    sources: Sources,
    error: Sink,
) -> RunResult {
    let read = || {
        // SAFETY: the host passes the plugin's own table, bytes that live during the call, and a context that is null or alive.
        let (entry, file, bytes, options, ctx) =
            unsafe { (&*entry, file.get(), bytes.get(), read_options(options)?, Ctx::of(services::context(ctx))) };
        let Some(decl) = entry.decl().more.readers.get(at as usize) else {
            return Err(PassError::new("the host requested a reader that the plugin does not have"));
        };
        let (name, path) = read_file(file);
        let open = |name: &str| sources.open(name);
        (decl.read)(&Source::opened_by(name, path, bytes, &open), &options, &ctx)
    };
    let (status, handle) = answered(caught(read), error)
        .map_or_else(|status| (status, std::ptr::null()), |module| (OK, module.into_ptr()));
    RunResult { status, reserved: 0, handle }
}

/// The shim of a writer. Parameters: table, writer, module, properties of the file, options, context, receiver of the
/// bytes, error.
pub(super) extern "C" fn write(
    entry: *const Entry,
    at: u32,
    module: *const ModuleHdr,
    file: RawBytes,
    options: RawBytes,
    ctx: *const CtxRecord,
    files: Files,
    error: Sink,
) -> u32 {
    let write = || {
        // SAFETY: the host passes the plugin's own table, a live module, bytes that live during the call, and a context that is
        // null or alive.
        let (entry, module, file, options, ctx) = unsafe {
            let module = Module::clone_ptr(module);
            (&*entry, module, file.get(), read_options(options)?, Ctx::of(services::context(ctx)))
        };
        let module = module.ok_or_else(|| PassError::new("the host passed no module"))?;
        let Some(decl) = entry.decl().more.writers.get(at as usize) else {
            return Err(PassError::new("the host requested a writer that the plugin does not have"));
        };
        let (name, path) = read_file(file);
        let mut take = |name: &str, bytes: &[u8]| files.put(name, bytes);
        (decl.write)(&module, &mut Output::to(name, path, &mut take), &options, &ctx)
    };
    answered(caught(write), error).map_or_else(|status| status, |()| OK)
}

/// Returns the result of plugin code, or the status of its failure.
fn answered<T>(result: Result<Result<T, PassError>, String>, error: Sink) -> Result<T, u32> {
    match result {
        Ok(Ok(value)) => Ok(value),
        Ok(Err(failure)) => {
            error.put(&error_bytes(&failure));
            Err(status_of(&failure))
        }
        Err(panic) => {
            error.put(panic.as_bytes());
            Err(PANICKED)
        }
    }
}

/// The functions added in version 1.1, as addresses for the host.
#[derive(Clone, Copy)]
pub(super) struct Formats {
    pub(super) read: ReadCall,
    pub(super) write: WriteCall,
}

type ReadCall =
    extern "C" fn(*const Entry, u32, RawBytes, RawBytes, RawBytes, *const CtxRecord, Sources, Sink) -> RunResult;
type WriteCall =
    extern "C" fn(*const Entry, u32, *const ModuleHdr, RawBytes, RawBytes, *const CtxRecord, Files, Sink) -> u32;

/// Checks that the functions in both tables have the same types.
const _: fn(EntryOf1_1) -> Formats = |entry| Formats { read: entry.read, write: entry.write };

/// The properties of a file to read or write, as the host passes them to a plugin.
#[derive(Clone, Copy, Debug)]
pub struct FileFacts<'a> {
    /// The name of the file in messages.
    pub name: &'a str,
    /// The absolute path, if the file has one.
    pub path: Option<&'a Path>,
}

impl OpenPlugin {
    fn formats(&self) -> Result<Formats, RunFailure> {
        self.formats.ok_or_else(|| RunFailure::Protocol("lacks readers and writers".to_string()))
    }

    /// Reads a file, given the values of all options of the reader in declaration order. `open` opens the file itself
    /// (if the name is empty), and files beside it. A context must be current
    /// ([`with_current`](crate::abi::host::with_current)).
    ///
    /// # Errors
    /// The reason for the failure.
    pub fn read(
        &self,
        reader: usize,
        file: FileFacts<'_>,
        bytes: &[u8],
        open: &Open<'_>,
        options: &[OptionValue],
    ) -> Result<Module, RunFailure> {
        let formats = self.formats()?;
        let (facts, options) = (file_bytes(file.name, file.path), option_bytes(options));
        let (facts, bytes, options) = (RawBytes::of(&facts), RawBytes::of(bytes), RawBytes::of(&options));
        let ctx = current();
        let _call = spans::Call::begin();
        let read = |sources, sink| (formats.read)(self.own, reader as u32, facts, bytes, options, ctx, sources, sink);
        Sources::to(open, |sources| made_module(None, |sink| read(sources, sink)))
    }

    /// Writes a module, given the values of all options of the writer in declaration order. `take` receives the next
    /// bytes of the output (if the name is empty) or of a file beside it. If it returns false, the writer gets an
    /// error. A context must be current ([`with_current`](crate::abi::host::with_current)).
    ///
    /// # Errors
    /// The reason for the failure.
    pub fn write(
        &self,
        writer: usize,
        module: &Module,
        file: FileFacts<'_>,
        options: &[OptionValue],
        take: &mut Take<'_>,
    ) -> Result<(), RunFailure> {
        let formats = self.formats()?;
        let (facts, options) = (file_bytes(file.name, file.path), option_bytes(options));
        let (facts, options) = (RawBytes::of(&facts), RawBytes::of(&options));
        let (ctx, module) = (current(), module.as_ptr());
        let _call = spans::Call::begin();
        let write = |files, sink| (formats.write)(self.own, writer as u32, module, facts, options, ctx, files, sink);
        match Files::to(take, |files| Sink::to(|sink| write(files, sink))) {
            (OK, _) => Ok(()),
            (status, error) => Err(RunFailure::read(status, &error)),
        }
    }
}
