//! Opens the plugins under `examples/` as in the host.
#![allow(dead_code, reason = "each test file uses only a part of this module")]

pub(crate) mod host;

use libloading::Library;
use object::{Object, ObjectSection};
use plugin_api::abi::entry::ENTRY_SYMBOL;
use plugin_api::abi::host::OpenPlugin;
use plugin_api::metadata::PluginMeta;
use std::ffi::c_void;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

/// Returns the file of an example, built like this test.
pub(crate) fn library(name: &str) -> PathBuf {
    static BUILT: OnceLock<PathBuf> = OnceLock::new();
    let folder = BUILT.get_or_init(|| {
        let exe = std::env::current_exe().unwrap();
        let folder = exe.parent().and_then(Path::parent).unwrap();
        let release = folder.file_name().is_some_and(|name| name == "release");
        // Uses the features of the whole workspace, as `cargo test --workspace` does, so that nothing is built twice.
        let args = ["build", "--offline", "--workspace", "--examples", "--quiet"];
        let mut cargo = Command::new(std::env::var("CARGO").unwrap_or_else(|_| "cargo".into()));
        cargo.args(args).args(release.then_some("--release")).env("CARGO_TARGET_DIR", folder.parent().unwrap());
        assert!(cargo.status().unwrap().success(), "the examples do not build");
        folder.join("examples")
    });
    folder.join(libloading::library_filename(name))
}

pub(crate) fn section(file: &Path) -> Vec<u8> {
    let data = std::fs::read(file).unwrap();
    let object = object::File::parse(&*data).unwrap();
    let name = if cfg!(target_vendor = "apple") { "__passhost" } else { ".passhost" };
    let section = object.section_by_name(name).unwrap_or_else(|| panic!("no section in {}", file.display()));
    section.data().unwrap().to_vec()
}

pub(crate) fn meta(name: &str) -> PluginMeta {
    PluginMeta::decode(&section(&library(name))).unwrap()
}

pub(crate) type EntrySymbol = unsafe extern "C" fn() -> *const c_void;

pub(crate) fn symbol(file: &Path) -> EntrySymbol {
    // SAFETY: our own examples, which have no constructors; they are never unloaded.
    unsafe {
        let library = Box::leak(Box::new(Library::new(file).unwrap()));
        *library.get::<EntrySymbol>(ENTRY_SYMBOL.as_bytes()).unwrap()
    }
}

pub(crate) fn open(name: &str) -> (OpenPlugin, PluginMeta) {
    let meta = meta(name);
    // SAFETY: `symbol` returns the entry function of a library that is never unloaded.
    (unsafe { OpenPlugin::open(symbol(&library(name)), &meta) }.unwrap(), meta)
}
