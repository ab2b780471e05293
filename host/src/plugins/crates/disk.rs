//! A cache of the file system: inspects each path once and reads each Cargo.toml once, however many crates share it.

use crate::plugins::hashes::{Stamp, stamp};
use std::collections::HashMap;
use std::ffi::OsString;
use std::fs::FileType;
use std::path::{Path, PathBuf};
use std::rc::Rc;

/// Facts about the target of a path.
#[derive(Clone, Copy, Debug)]
struct Fact {
    /// Kind of the target; `None` for a dangling link.
    kind: Option<FileType>,
    is_link: bool,
    stamp: Option<Stamp>,
}

impl Fact {
    /// Inspects a path. Returns `None` if it does not exist.
    fn of(path: &Path) -> Option<Fact> {
        let own = path.symlink_metadata().ok()?;
        let is_link = own.is_symlink();
        let found = if is_link { path.metadata().ok() } else { Some(own) };
        Some(Fact { kind: found.as_ref().map(|it| it.file_type()), is_link, stamp: found.as_ref().and_then(stamp) })
    }
}

/// Caches the results of inspections. A new cache is created when files may have changed.
#[derive(Debug, Default)]
pub(super) struct Disk {
    facts: HashMap<OsString, Option<Fact>>,
    /// Folders with links resolved.
    folders: HashMap<OsString, Option<PathBuf>>,
    /// Contents of Cargo.toml files, by folder.
    manifests: HashMap<OsString, Result<Rc<toml::Table>, String>>,
}

impl Disk {
    fn fact(&mut self, path: &Path) -> Option<Fact> {
        if let Some(known) = self.facts.get(path.as_os_str()) {
            return *known;
        }
        let found = Fact::of(path);
        self.facts.insert(path.into(), found);
        found
    }

    fn kind(&mut self, path: &Path) -> Option<FileType> {
        self.fact(path)?.kind
    }

    pub(super) fn is_there(&mut self, path: &Path) -> bool {
        self.kind(path).is_some()
    }

    pub(super) fn is_file(&mut self, path: &Path) -> bool {
        self.kind(path).is_some_and(|kind| kind.is_file())
    }

    pub(super) fn is_dir(&mut self, path: &Path) -> bool {
        self.kind(path).is_some_and(|kind| kind.is_dir())
    }

    /// Returns a stamp that shows changes to a file, or `None` if the system has none.
    pub(super) fn stamp(&mut self, path: &Path) -> Option<Stamp> {
        self.fact(path)?.stamp
    }

    /// Resolves links like [`Path::canonicalize`]. Returns `None` if the path does not exist.
    pub(super) fn resolved(&mut self, path: &Path) -> Option<PathBuf> {
        let (Some(folder), Some(name)) = (path.parent(), path.file_name()) else { return path.canonicalize().ok() };
        if folder.as_os_str().is_empty() || self.fact(path)?.is_link {
            return path.canonicalize().ok();
        }
        if !self.folders.contains_key(folder.as_os_str()) {
            // On other systems, a folder can have several spellings.
            let found = if cfg!(target_os = "linux") { self.resolved(folder) } else { folder.canonicalize().ok() };
            self.folders.insert(folder.into(), found);
        }
        self.folders.get(folder.as_os_str())?.as_ref().map(|folder| folder.join(name))
    }

    /// Returns the Cargo.toml of a folder.
    ///
    /// # Errors
    /// The reason why the file cannot be read.
    pub(super) fn cargo_toml(&mut self, folder: &Path) -> Result<Rc<toml::Table>, String> {
        if let Some(known) = self.manifests.get(folder.as_os_str()) {
            return known.clone();
        }
        let found = read_cargo_toml(folder).map(Rc::new);
        self.manifests.insert(folder.into(), found.clone());
        found
    }

    /// Returns the workspace folder of a crate, found by cargo's rules: the crate itself, the workspace that it names, or the nearest
    /// workspace above it that does not exclude it.
    pub(super) fn workspace_root(&mut self, folder: &Path, own: &toml::Table) -> PathBuf {
        if own.contains_key("workspace") {
            return folder.to_path_buf();
        }
        if let Some(named) = own.get("package").and_then(|package| package.get("workspace")?.as_str()) {
            let named = folder.join(named);
            return named.canonicalize().unwrap_or(named);
        }
        let mut has_it = |above: &&Path| {
            let Ok(table) = self.cargo_toml(above) else { return false };
            let Some(workspace) = table.get("workspace") else { return false };
            let excluded = workspace.get("exclude").and_then(toml::Value::as_array).into_iter().flatten();
            !excluded.filter_map(toml::Value::as_str).any(|path| folder.starts_with(above.join(path)))
        };
        folder.ancestors().skip(1).find(|above| has_it(above)).unwrap_or(folder).to_path_buf()
    }
}

fn read_cargo_toml(folder: &Path) -> Result<toml::Table, String> {
    let text = std::fs::read_to_string(folder.join("Cargo.toml")).map_err(|error| match error.kind() {
        std::io::ErrorKind::NotFound if !folder.is_dir() => {
            "this folder does not exist; if the crate was moved, correct its path in the manifest".to_string()
        }
        _ => format!("cannot read its Cargo.toml: {error}; give the folder of a crate"),
    })?;
    text.parse().map_err(|error: toml::de::Error| format!("its Cargo.toml: {}", error.message()))
}

#[cfg(all(test, unix))]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;

    #[test]
    fn paths_are_resolved_as_the_system_does_it() {
        let folder = tempfile::tempdir().expect("a folder");
        let at = |name: &str| folder.path().join(name);
        std::fs::create_dir_all(at("a/b")).expect("a folder");
        std::fs::write(at("a/b/file"), "").expect("a file");
        symlink(at("a"), at("link")).expect("a link");
        symlink("b/file", at("a/inner")).expect("a link");
        symlink("nowhere", at("a/dangling")).expect("a link");
        let mut disk = Disk::default();
        for name in
            ["a/b/file", "link/b/file", "link/inner", "a/dangling", "link/b/../inner", "a/none", "none/x", "a/b/.."]
        {
            // The second result comes from the cache.
            for _ in 0..2 {
                assert_eq!(disk.resolved(&at(name)), at(name).canonicalize().ok(), "{name}");
                assert_eq!(disk.is_file(&at(name)), at(name).is_file(), "{name}");
                assert_eq!(disk.is_dir(&at(name)), at(name).is_dir(), "{name}");
                let found = at(name).metadata().ok();
                assert_eq!(disk.stamp(&at(name)), found.as_ref().and_then(stamp), "{name}");
            }
        }
    }
}
