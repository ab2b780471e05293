//! The inputs of a plugin crate: its files, the files of its path dependencies, cargo settings, and other inputs that a build reported.

use super::disk::Disk;
use super::settings::{Settings, Uncovered, patched};
use super::{Place, PluginCrate, failed};
use crate::files::Identity;
use crate::plugins::hashes::Stamp;
use crate::plugins::manifest::portable;
use crate::report::error::Error;
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::ffi::OsString;
use std::path::{Component, Path, PathBuf};
use std::rc::Rc;

/// One input of a crate.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Part {
    /// A file.
    File(PathBuf),
    /// A text, such as the value of an environment variable.
    Text(String),
}

/// Inputs by name, sorted. Names do not depend on the location of the workspace.
pub(crate) type Parts = Vec<(String, Part)>;

/// Inspects crates, and caches what several of them share.
#[derive(Debug, Default)]
pub(crate) struct Survey {
    crates: BTreeMap<PathBuf, Rc<CrateFiles>>,
    settings: BTreeMap<PathBuf, Rc<Settings>>,
    pub(super) disk: Disk,
    /// Inputs of builds, by the workspace root and the path as cargo writes it.
    inputs: HashMap<PathBuf, HashMap<OsString, Option<Input>>>,
    /// Sources by folder of the crate.
    sources: HashMap<PathBuf, Rc<Parts>>,
    /// Compiled inputs by library.
    compiled: HashMap<PathBuf, Rc<Parts>>,
}

/// A file or folder that a build read.
#[derive(Debug)]
struct Input {
    path: PathBuf,
    name: String,
}

/// The files of one crate.
#[derive(Debug)]
struct CrateFiles {
    /// Files in the folder of the crate, by relative name.
    files: BTreeMap<String, PathBuf>,
    /// Folders in which every new file becomes a source.
    folders: Vec<PathBuf>,
    /// Folders of the path dependencies of the crate.
    needs: Vec<PathBuf>,
}

impl Survey {
    /// Returns all inputs of a plugin crate that are known before it is built: the files next to the roots of its library and build script,
    /// its Cargo.toml, the Cargo.toml of the workspace, and Cargo.lock; the same for its path dependencies; and the cargo settings.
    ///
    /// # Errors
    /// If a folder or file cannot be read.
    pub(super) fn sources(&mut self, plugin: &PluginCrate) -> Result<Rc<Parts>, Error> {
        if let Some(known) = self.sources.get(&plugin.folder) {
            return Ok(Rc::clone(known));
        }
        let cannot = |message: String| failed(plugin, message);
        let settings = self.settings(&plugin.root).map_err(cannot)?;
        let mut parts: BTreeMap<String, Part> = settings.parts.iter().cloned().collect();
        for (name, file) in [("workspace Cargo.toml", "Cargo.toml"), ("Cargo.lock", "Cargo.lock")] {
            let path = plugin.root.join(file);
            if self.disk.is_file(&path) {
                parts.insert(name.to_string(), Part::File(path));
            }
        }
        let root = self.disk.cargo_toml(&plugin.root).unwrap_or_default();
        let mut waiting = settings.crates.clone();
        waiting.extend(patched(&root, &plugin.root));
        waiting.push(plugin.folder.clone());
        let mut seen = BTreeSet::new();
        while let Some(folder) = waiting.pop() {
            let Some(folder) = self.disk.resolved(&folder) else { continue };
            if !seen.insert(folder.clone()) {
                continue;
            }
            let own = folder == plugin.folder;
            let found = match self.files(&folder) {
                Ok(found) => found,
                Err(message) if own => return Err(cannot(message)),
                // A dependency that cannot be inspected is ignored, because it may be unused.
                Err(_) => continue,
            };
            waiting.extend(found.needs.iter().cloned());
            let start = if own { String::new() } else { named_from(&plugin.root, &folder) + "/" };
            parts.extend(found.files.iter().map(|(name, path)| (format!("{start}{name}"), Part::File(path.clone()))));
        }
        let parts = Rc::new(Parts::from_iter(parts));
        self.sources.insert(plugin.folder.clone(), Rc::clone(&parts));
        Ok(parts)
    }

    /// Returns the folders in which every new file becomes a source, for all crates inspected so far.
    pub(super) fn folders(&self) -> impl Iterator<Item = &PathBuf> {
        self.crates.values().flat_map(|found| &found.folders)
    }

    /// Returns the settings of a crate that a lockfile cannot cover.
    ///
    /// # Errors
    /// If a file cannot be read.
    pub(super) fn uncovered(&mut self, plugin: &PluginCrate) -> Result<Vec<Uncovered>, Error> {
        let settings = self.settings(&plugin.root).map_err(|message| failed(plugin, message))?;
        Ok(settings.uncovered.clone())
    }

    /// Returns the names of the settings that apply to a crate, for messages.
    pub(super) fn setting_names(&mut self, plugin: &PluginCrate) -> Vec<String> {
        let settings = self.settings(&plugin.root).map(|found| found.parts.iter().map(|part| part.0.clone()).collect());
        settings.unwrap_or_default()
    }

    /// Returns the configured folder for the build results of a workspace, if there is one.
    pub(super) fn place(&mut self, root: &Path) -> Place {
        self.settings(root).map(|settings| settings.place.clone()).unwrap_or_default()
    }

    fn settings(&mut self, root: &Path) -> Result<Rc<Settings>, String> {
        if let Some(known) = self.settings.get(root) {
            return Ok(Rc::clone(known));
        }
        let found = Rc::new(Settings::of(root)?);
        self.settings.insert(root.to_path_buf(), Rc::clone(&found));
        Ok(found)
    }

    fn files(&mut self, folder: &Path) -> Result<Rc<CrateFiles>, String> {
        if let Some(known) = self.crates.get(folder) {
            return Ok(Rc::clone(known));
        }
        let found = Rc::new(crate_files(folder, &mut self.disk)?);
        self.crates.insert(folder.to_path_buf(), Rc::clone(&found));
        Ok(found)
    }

    /// Returns everything that cargo read to build the library of a crate, according to its `.d` file: sources, included files, inputs
    /// declared by build scripts, and path dependencies with their Cargo.toml. Names are relative to the workspace root and sorted. Build
    /// results are left out.
    ///
    /// # Errors
    /// If the `.d` file or a folder cannot be read.
    pub(super) fn compiled(&mut self, plugin: &PluginCrate, library: &Path) -> Result<Rc<Parts>, Error> {
        if let Some(known) = self.compiled.get(library) {
            return Ok(Rc::clone(known));
        }
        let target = target_of(library);
        let text = std::fs::read_to_string(library.with_extension("d"));
        let text =
            text.map_err(|error| failed(plugin, format!("cannot read the list of its sources from cargo: {error}")))?;
        let mut waiting: Vec<PathBuf> = dep_info(&text).iter().map(|input| plugin.root.join(input)).collect();
        let mut inputs = self.inputs.remove(&plugin.root).unwrap_or_default();
        let (mut folders, mut files) = (HashSet::new(), BTreeMap::new());
        while let Some(path) = waiting.pop() {
            let known = inputs.entry(path.into_os_string());
            let known = known.or_insert_with_key(|path| self.input(&plugin.root, Path::new(path)));
            // A build script may depend on a file that does not exist.
            let Some(Input { path, name }) = known.as_ref() else { continue };
            if target.as_ref().is_some_and(|target| lies_in(path, target)) || files.contains_key(name) {
                continue;
            }
            if self.disk.is_dir(path) {
                let cannot = |error: std::io::Error| failed(plugin, format!("cannot read {}: {error}", path.display()));
                let (names, found) = folder(path, target.as_deref()).map_err(cannot)?;
                waiting.extend(found);
                files.insert(name.clone(), Part::Text(names));
                continue;
            }
            let above = path.ancestors().skip(1).take_while(|folder| !folders.contains(folder.as_os_str()));
            let above: Vec<&Path> = above.collect();
            waiting.extend(above.iter().map(|folder| folder.join("Cargo.toml")));
            folders.extend(above.into_iter().map(|folder| folder.as_os_str().to_os_string()));
            files.insert(name.clone(), Part::File(path.clone()));
        }
        self.inputs.insert(plugin.root.clone(), inputs);
        let files = Rc::new(Parts::from_iter(files));
        self.compiled.insert(library.to_path_buf(), Rc::clone(&files));
        Ok(files)
    }

    /// Resolves a path, and names it relative to the workspace root. Names of folders end with `/`.
    fn input(&mut self, root: &Path, path: &Path) -> Option<Input> {
        let path = self.disk.resolved(path)?;
        let end = if self.disk.is_dir(&path) { "/" } else { "" };
        Some(Input { name: named_from(root, &path) + end, path })
    }

    /// Returns the files and folders that cargo read in addition to the sources.
    pub(super) fn other_inputs(&mut self, compiled: &Parts, sources: &Parts) -> Parts {
        let files = sources.iter().filter_map(|(_, part)| match part {
            Part::File(path) => self.disk.resolved(path),
            Part::Text(_) => None,
        });
        let known: HashSet<PathBuf> = files.collect();
        let other = |part: &Part| !matches!(part, Part::File(path) if known.contains(path));
        compiled.iter().filter(|(_, part)| other(part)).cloned().collect()
    }

    /// Returns the files and folders with these names, in the form of [`Survey::compiled`]. Missing files and folders are left out.
    pub(super) fn named<'n>(&self, plugin: &PluginCrate, names: impl Iterator<Item = &'n String>) -> Parts {
        let target = target_of(&plugin.library);
        let part = |name: &String| {
            let path = plugin.root.join(name);
            let part = match name.strip_suffix('/') {
                Some(_) => {
                    folder(&path.canonicalize().ok()?, target.as_deref()).ok().map(|(names, _)| Part::Text(names))
                }
                None => path.is_file().then_some(Part::File(path)),
            };
            Some((name.clone(), part?))
        };
        names.filter_map(part).collect()
    }

    /// Returns the names, sizes and times of the inputs as bytes. If they are unchanged, no input was written to.
    pub(super) fn stamps(&mut self, parts: &Parts) -> Vec<u8> {
        let mut out = Vec::new();
        for (name, part) in parts {
            put(&mut out, name);
            match part {
                Part::Text(text) => put(&mut out, text),
                Part::File(path) => put_stamp(&mut out, self.disk.stamp(path)),
            }
        }
        out
    }

    /// Returns the identity of a file, as [`crate::files::identity`] does.
    pub(crate) fn identity(&mut self, path: &Path) -> Identity {
        match self.disk.stamp(path) {
            Some([dev, ino, ..]) => (PathBuf::new(), u64::try_from(dev).ok().zip(u64::try_from(ino).ok())),
            None => crate::files::identity(path),
        }
    }

    /// Resolves links like [`Path::canonicalize`]. Returns `None` if the path does not exist.
    pub(crate) fn resolved(&mut self, path: &Path) -> Option<PathBuf> {
        self.disk.resolved(path)
    }

    /// Clears the cache, because files may have changed.
    pub(super) fn look_again(&mut self) {
        *self = Survey::default();
    }
}

/// Returns true if a path is in a folder. Compares bytes first, which rules out most paths.
fn lies_in(path: &Path, folder: &Path) -> bool {
    let [path_bytes, start] = [path, folder].map(|path| path.as_os_str().as_encoded_bytes());
    path_bytes.starts_with(start) && path.starts_with(folder)
}

/// Returns the folder in which cargo builds.
fn target_of(library: &Path) -> Option<PathBuf> {
    library.parent().and_then(Path::parent).and_then(|target| target.canonicalize().ok())
}

/// Returns the names in a folder, sorted, one per line, and their paths, without build results.
fn folder(path: &Path, target: Option<&Path>) -> std::io::Result<(String, Vec<PathBuf>)> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(path)? {
        found.push(entry?.path());
    }
    found.retain(|path| target.is_none_or(|target| !path.starts_with(target)));
    found.sort();
    let names = found.iter().filter_map(|path| path.file_name()).map(|name| format!("{}\n", name.to_string_lossy()));
    Ok((names.collect(), found))
}

/// Appends a length-prefixed string, so that different lists of strings give different bytes.
fn put(out: &mut Vec<u8>, text: &str) {
    out.extend((text.len() as u64).to_le_bytes());
    out.extend(text.as_bytes());
}

/// Appends a stamp, or a mark that there is none.
pub(super) fn put_stamp(out: &mut Vec<u8>, stamp: Option<Stamp>) {
    out.push(u8::from(stamp.is_some()));
    // Each number of a stamp fits in 64 bits, signed or unsigned.
    out.extend(stamp.into_iter().flatten().flat_map(|number| (number as u64).to_le_bytes()));
}

/// Finds the files next to the roots of a crate's library and build script, and its Cargo.toml.
fn crate_files(folder: &Path, disk: &mut Disk) -> Result<CrateFiles, String> {
    let table = disk.cargo_toml(folder)?;
    let path = |section: &str, key: &str, usual: &str| {
        PathBuf::from(table.get(section).and_then(|table| table.get(key)?.as_str()).unwrap_or(usual))
    };
    let (lib, script) = (path("lib", "path", "src/lib.rs"), path("package", "build", "build.rs"));
    let mut files = BTreeMap::from([("Cargo.toml".to_string(), folder.join("Cargo.toml"))]);
    let mut folders = Vec::from_iter(beside(folder, &lib, &mut files, disk)?);
    if disk.is_file(&folder.join(&script)) {
        files.insert(slashes(&script), folder.join(&script));
        folders.extend(beside(folder, &script, &mut files, disk)?);
    }
    let root = disk.workspace_root(folder, &table);
    if root != folder {
        files.insert("workspace Cargo.toml".to_string(), root.join("Cargo.toml"));
    }
    let shared = disk.cargo_toml(&root).unwrap_or_default();
    let shared = shared.get("workspace").and_then(|workspace| workspace.get("dependencies")).cloned();
    Ok(CrateFiles { files, folders, needs: needs(folder, &table, &root, shared.as_ref()) })
}

fn slashes(path: &Path) -> String {
    path.to_string_lossy().replace('\\', "/")
}

/// Collects everything in the folder of a file and in its subfolders. A folder with a Cargo.toml contains unrelated
/// files as well, so only its Rust files count. Returns the folder if all its files count.
fn beside(
    crate_folder: &Path,
    file: &Path,
    files: &mut BTreeMap<String, PathBuf>,
    disk: &mut Disk,
) -> Result<Option<PathBuf>, String> {
    let below = file.parent().unwrap_or(Path::new(""));
    let start = crate_folder.join(below);
    let only_rust = disk.resolved(&start).is_some_and(|start| start == crate_folder);
    let all = (!only_rust).then(|| start.clone());
    let (mut waiting, mut seen) = (vec![(start, slashes(below))], BTreeSet::new());
    while let Some((folder, name)) = waiting.pop() {
        let cannot = |error: std::io::Error| format!("cannot read {}: {error}", folder.display());
        let entries = std::fs::read_dir(&folder).map_err(cannot)?;
        if !disk.resolved(&folder).is_some_and(|folder| seen.insert(folder)) {
            continue;
        }
        for entry in entries {
            let entry = entry.map_err(cannot)?;
            let (path, last) = (entry.path(), entry.file_name());
            let kind = entry.file_type().map_err(cannot)?;
            let name = format!("{name}/{}", last.to_string_lossy());
            let name = name.trim_start_matches('/').to_string();
            if kind.is_dir() || kind.is_symlink() && disk.is_dir(&path) {
                let built = disk.is_there(&path.join("CACHEDIR.TAG")) || last.as_encoded_bytes().starts_with(b".");
                // A path dependency is inspected separately. If a module includes a file from a skipped folder, that file is recorded as a
                // separate input of the build.
                let other = only_rust && disk.is_there(&path.join("Cargo.toml"));
                if !built && !other {
                    waiting.push((path, name));
                }
                continue;
            }
            let is_file = kind.is_file() || kind.is_symlink() && disk.is_file(&path);
            if is_file && (!only_rust || path.extension().is_some_and(|extension| extension == "rs")) {
                files.insert(name, path);
            }
        }
    }
    Ok(all)
}

/// Returns the folders of the path dependencies of a crate's library and build script.
fn needs(folder: &Path, table: &toml::Table, root: &Path, shared: Option<&toml::Value>) -> Vec<PathBuf> {
    const SECTIONS: [&str; 3] = ["dependencies", "build-dependencies", "build_dependencies"];
    let targets = table.get("target").and_then(toml::Value::as_table).into_iter().flat_map(toml::Table::values);
    let holders = targets.filter_map(toml::Value::as_table).chain([table]);
    let lists = holders.flat_map(|holder| SECTIONS.iter().filter_map(|section| holder.get(*section)?.as_table()));
    let folder_of = |(name, entry): (&String, &toml::Value)| {
        if entry.get("workspace").and_then(toml::Value::as_bool) == Some(true) {
            return Some(root.join(shared?.get(name)?.get("path")?.as_str()?));
        }
        Some(folder.join(entry.get("path")?.as_str()?))
    };
    lists.flatten().filter_map(folder_of).collect()
}

/// Returns a path relative to a folder: `../data/table.txt`.
pub(super) fn named_from(folder: &Path, path: &Path) -> String {
    let common = folder.components().zip(path.components()).take_while(|(a, b)| a == b).count();
    let up = folder.components().skip(common).map(|_| Component::ParentDir);
    portable(&up.chain(path.components().skip(common)).collect::<PathBuf>())
}

/// Parses the inputs in a `.d` file of cargo: `output: input input`, with spaces in names written as `\ `.
pub(super) fn dep_info(text: &str) -> Vec<PathBuf> {
    let Some((_, inputs)) = text.lines().next().and_then(|line| line.split_once(": ")) else { return Vec::new() };
    let mut out = vec![String::new()];
    let mut chars = inputs.chars().peekable();
    while let Some(c) = chars.next() {
        match (c, out.last_mut()) {
            ('\\', Some(last)) if chars.peek() == Some(&' ') => {
                last.push(' ');
                chars.next();
            }
            (' ', _) => out.push(String::new()),
            (c, Some(last)) => last.push(c),
            _ => {}
        }
    }
    out.into_iter().filter(|path| !path.is_empty()).map(PathBuf::from).collect()
}
