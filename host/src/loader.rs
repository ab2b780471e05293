//! The only place that opens libraries. An opened plugin is never closed: its functions stay valid for the process.
#![allow(unsafe_code, reason = "dlopen and the entry symbol")]

use crate::error::Error;
use crate::object_file;
use crate::output::from_start;
use libloading::Library;
use plugin_api::abi::entry::ENTRY_SYMBOL;
use plugin_api::abi::host::{OpenPlugin, fingerprint};
use plugin_api::meta::{PluginHead, PluginMeta};
use semver::VersionReq;
use std::ffi::c_void;
use std::mem::ManuallyDrop;
use std::path::{Path, PathBuf};

/// What is known of a plugin before it is opened.
#[derive(Clone, Debug)]
pub struct Listed {
    /// Its library.
    pub file: PathBuf,
    /// Its metadata.
    pub meta: PluginMeta,
}

fn refuse(path: &Path, message: impl Into<String>, help: impl Into<String>) -> Error {
    Error::Plugin { path: path.to_path_buf(), message: message.into(), help: help.into() }
}

/// Reads and checks what a library says of itself, without opening it.
///
/// # Errors
/// The first step of the handshake that fails.
pub fn list(file: &Path, version: Option<&VersionReq>, api: Option<&VersionReq>) -> Result<Listed, Error> {
    list_with(file, version, api, || Ok(()))
}

/// The same, with a step between the check of the file and the reading of its metadata.
///
/// # Errors
/// As there, or that step's.
pub fn list_with(
    file: &Path,
    version: Option<&VersionReq>,
    api: Option<&VersionReq>,
    step: impl FnOnce() -> Result<(), Error>,
) -> Result<Listed, Error> {
    let mut stopped = None;
    let step = || step().map_err(|error| stopped = Some(error)).is_ok();
    let section = object_file::metadata_if(file, step);
    if let Some(error) = stopped {
        return Err(error);
    }
    let section = section.map_err(|error| refuse(file, error.to_string(), error.help()))?;
    let head = PluginHead::decode(&section).map_err(|error| refuse(file, error.to_string(), error.help()))?;
    // The rest of the metadata of a newer API may have what this host cannot read.
    fits(file, &head, version, api)?;
    let meta = PluginMeta::decode(&section).map_err(|error| refuse(file, error.to_string(), error.help()))?;
    Ok(Listed { file: file.to_path_buf(), meta })
}

/// Whether host, manifest and plugin are for each other.
fn fits(file: &Path, plugin: &PluginHead, version: Option<&VersionReq>, api: Option<&VersionReq>) -> Result<(), Error> {
    let ours = fingerprint(&plugin.api).map_err(|error| refuse(file, error.to_string(), error.help()))?;
    if let Some(wanted) = api.filter(|wanted| !wanted.matches(&plugin.api)) {
        let message = format!("was built against plugin API {}, the manifest wants {wanted}", plugin.api);
        return Err(refuse(file, message, "change `api` in the manifest, or rebuild the plugin"));
    }
    if let Some(wanted) = version.filter(|wanted| !wanted.matches(&plugin.version)) {
        let message = format!("plugin `{}` has version {}, the manifest wants {wanted}", plugin.name, plugin.version);
        return Err(refuse(file, message, "change `version` in the manifest, or list another build"));
    }
    if plugin.fingerprint != ours {
        let found = plugin.fingerprint;
        let message = format!("its records have fingerprint {found:016x}, this host has {ours:016x}");
        return Err(refuse(file, message, "rebuild the plugin against the plugin API of this host"));
    }
    Ok(())
}

/// Opens a plugin: loads the library, compares its entry table with the metadata, checks layouts, initializes it.
///
/// # Errors
/// The first step of the handshake that fails.
pub fn open(listed: &Listed) -> Result<OpenPlugin, Error> {
    let file = &listed.file;
    // A path without a folder would be looked up in the system's search path.
    let path =
        from_start(file).canonicalize().map_err(|error| refuse(file, error.to_string(), "build the plugin again"))?;
    let library = load(&path).map_err(|error| {
        let why = std::error::Error::source(&error).map_or_else(|| error.to_string(), ToString::to_string);
        refuse(file, format!("cannot be loaded: {why}"), "install what it is linked to, or build it again")
    })?;
    let library = ManuallyDrop::new(library);
    type Symbol = unsafe extern "C" fn() -> *const c_void;
    // SAFETY: the metadata section says that the library was made by `export_plugin!`, which defines the symbol with
    // this signature.
    let symbol = unsafe { library.get::<Symbol>(ENTRY_SYMBOL.as_bytes()) };
    let symbol = symbol.map_err(|_| {
        let message = format!("has metadata but no symbol `{ENTRY_SYMBOL}`");
        refuse(file, message, "build it with `export_plugin!`, without stripping dynamic symbols")
    })?;
    // SAFETY: the library is never closed.
    unsafe { OpenPlugin::open(*symbol, &listed.meta) }.map_err(|error| refuse(file, error.to_string(), error.help()))
}

#[cfg(unix)]
fn load(path: &Path) -> Result<Library, libloading::Error> {
    use libloading::os::unix::{Library as Unix, RTLD_LOCAL, RTLD_NOW};
    // SAFETY: the file was checked before; its constructors are the plugin's own code, which the user listed.
    unsafe { Unix::open(Some(path), RTLD_NOW | RTLD_LOCAL) }.map(Into::into)
}

#[cfg(not(unix))]
fn load(path: &Path) -> Result<Library, libloading::Error> {
    // SAFETY: the file was checked before; its constructors are the plugin's own code, which the user listed.
    unsafe { Library::new(path) }
}
