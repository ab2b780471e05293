//! The only module that loads libraries. A loaded plugin is never closed, so its functions stay valid until the process ends.
#![allow(unsafe_code, reason = "dlopen and the entry symbol")]

use crate::plugins::library::{Library, Seen};
use crate::plugins::links::{Link, links};
use crate::plugins::object_file;
use crate::report::error::Error;
use passhost_lang::metadata::{PluginHead, PluginMeta};
use plugin_api::abi::entry::ENTRY_SYMBOL;
use plugin_api::abi::host::{OpenPlugin, fingerprint};
use semver::VersionReq;
use std::ffi::c_void;
use std::io;
use std::mem::ManuallyDrop;
use std::path::{Path, PathBuf};

/// Facts about a plugin before it is opened.
#[derive(Clone, Debug)]
pub struct Listed {
    /// Library of the plugin.
    pub file: PathBuf,
    /// Metadata of the plugin.
    pub meta: PluginMeta,
    /// The file that contains the metadata.
    seen: Seen,
}

impl Listed {
    /// Opens the library that contains the metadata.
    ///
    /// # Errors
    /// If it no longer exists, or has changed.
    pub(crate) fn library(&self) -> Result<Library, Error> {
        self.seen.library().map_err(|error| refuse(&self.file, error.to_string(), error.help()))
    }
}

fn refuse(path: &Path, message: impl Into<String>, help: impl Into<String>) -> Error {
    Error::Plugin { path: path.to_path_buf(), message: message.into(), help: help.into() }
}

/// Reads and checks the metadata of a library, without loading it.
///
/// # Errors
/// The first step of the handshake that fails.
pub fn list(file: &Path, version: Option<&VersionReq>, api: Option<&VersionReq>) -> Result<Listed, Error> {
    let library = Library::open(file).map_err(|error| refuse(file, error.to_string(), error.help()))?;
    list_with(&library, version, api, || Ok(()))
}

/// Like [`list`], with a step between checking the file and reading its metadata.
///
/// # Errors
/// The errors of [`list`], or the error of that step.
pub fn list_with(
    library: &Library,
    version: Option<&VersionReq>,
    api: Option<&VersionReq>,
    step: impl FnOnce() -> Result<(), Error>,
) -> Result<Listed, Error> {
    let (file, mut stopped) = (library.shown(), None);
    let step = || step().map_err(|error| stopped = Some(error)).is_ok();
    let section = object_file::metadata_if(library, step);
    if let Some(error) = stopped {
        return Err(error);
    }
    let section = section.map_err(|error| refuse(file, error.to_string(), error.help()))?;
    let head = PluginHead::decode(&section).map_err(|error| refuse(file, error.to_string(), error.help()))?;
    // The remaining metadata of a newer API may be unreadable for this host.
    fits(file, &head, version, api)?;
    let meta = PluginMeta::decode(&section).map_err(|error| refuse(file, error.to_string(), error.help()))?;
    covered(library, &meta)?;
    Ok(Listed { file: file.to_path_buf(), meta, seen: Seen::new(library) })
}

/// For a library that must match its hash, checks that the dynamic loader opens only system libraries together with it.
fn covered(library: &Library, meta: &PluginMeta) -> Result<(), Error> {
    if library.sha256().is_none() {
        return Ok(());
    }
    let file = library.shown();
    let links = links(library).map_err(|error| refuse(file, error.to_string(), error.help()))?;
    let Some(link) = links.iter().find(|link| link.is_outside()) else { return Ok(()) };
    let message = format!(
        "plugin `{}` has the entry `{link}`, which loads or searches libraries that --locked does not cover",
        meta.name
    );
    let help = "link them statically, or link libraries of the system by their bare names, without rpath; \
                `readelf -d` (macOS: `otool -l`) lists the entries";
    Err(refuse(file, message, help))
}

/// Checks that host, manifest and plugin are compatible.
fn fits(file: &Path, plugin: &PluginHead, version: Option<&VersionReq>, api: Option<&VersionReq>) -> Result<(), Error> {
    let ours = fingerprint(&plugin.api).map_err(|error| refuse(file, error.to_string(), error.help()))?;
    if let Some(wanted) = api.filter(|wanted| !wanted.matches(&plugin.api)) {
        let message = format!("was built against plugin API {}, but the manifest requires {wanted}", plugin.api);
        return Err(refuse(file, message, "change `api` in the manifest, or rebuild the plugin"));
    }
    if let Some(wanted) = version.filter(|wanted| !wanted.matches(&plugin.version)) {
        let message =
            format!("plugin `{}` has version {}, but the manifest requires {wanted}", plugin.name, plugin.version);
        return Err(refuse(file, message, "change `version` in the manifest, or list another build"));
    }
    if plugin.fingerprint != ours {
        let found = plugin.fingerprint;
        let message =
            format!("the fingerprint of its records is {found:016x}, but the fingerprint of this host is {ours:016x}");
        return Err(refuse(file, message, "rebuild the plugin against the plugin API of this host"));
    }
    Ok(())
}

/// Opens a plugin: loads the library, compares its entry table with the metadata, checks layouts, and initializes it. Loads the file that
/// was listed, even if its path now leads to a different library.
///
/// # Errors
/// The first step of the handshake that fails.
pub fn open(listed: &Listed) -> Result<OpenPlugin, Error> {
    open_as(listed, &listed.library()?)
}

/// Like [`open`], with the library already open, for a process that may not open it again.
///
/// # Errors
/// As for [`open`].
pub(crate) fn open_as(listed: &Listed, library: &Library) -> Result<OpenPlugin, Error> {
    let file = &listed.file;
    let opened = library.to_load().map_err(|error| refuse(file, error.to_string(), error.help()))?;
    let path = load_path(&opened).map_err(|error| refuse(file, error.to_string(), "rebuild the plugin"))?;
    let library = load(&path).map_err(|error| {
        let why = std::error::Error::source(&error).map_or_else(|| error.to_string(), ToString::to_string);
        // The user knows the library by another path.
        let why = why.replace(&*path.to_string_lossy(), &file.to_string_lossy());
        refuse(file, format!("cannot be loaded: {why}"), "install the libraries that it needs, or rebuild it")
    })?;
    let library = ManuallyDrop::new(library);
    if !opened.is_as_it_was() {
        let error = object_file::ObjectError::Changed;
        return Err(refuse(file, error.to_string(), error.help()));
    }
    type Symbol = unsafe extern "C" fn() -> *const c_void;
    // SAFETY: the metadata section states that the library was made by `export_plugin!`, which defines the symbol with this signature.
    let symbol = unsafe { library.get::<Symbol>(ENTRY_SYMBOL.as_bytes()) };
    let symbol = symbol.map_err(|_| {
        let message = format!("has metadata, but the symbol `{ENTRY_SYMBOL}` is missing");
        refuse(file, message, "build it with `export_plugin!`, and do not strip dynamic symbols")
    })?;
    // SAFETY: the library is never closed.
    unsafe { OpenPlugin::open(*symbol, &listed.meta) }.map_err(|error| refuse(file, error.to_string(), error.help()))
}

/// Returns the path at which the dynamic loader finds a library. A library that looks for other libraries relative to its location is
/// loaded under its own path; a private copy of it would have been refused when it was listed.
fn load_path(library: &Library) -> io::Result<PathBuf> {
    let links = links(library).map_err(io::Error::other)?;
    library.load_path(links.iter().any(Link::is_beside))
}

#[cfg(unix)]
fn load(path: &Path) -> Result<libloading::Library, libloading::Error> {
    use libloading::os::unix::{Library as Unix, RTLD_LOCAL, RTLD_NOW};
    // SAFETY: the file was checked before; its constructors are the plugin's own code, which the user listed.
    unsafe { Unix::open(Some(path), RTLD_NOW | RTLD_LOCAL) }.map(Into::into)
}

#[cfg(not(unix))]
fn load(path: &Path) -> Result<libloading::Library, libloading::Error> {
    // SAFETY: the file was checked before; its constructors are the plugin's own code, which the user listed.
    unsafe { libloading::Library::new(path) }
}
