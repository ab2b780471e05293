//! Plugins that are listed as crates: built with cargo when their library is missing or stale.

use crate::error::Error;
use crate::manifest::portable;
use std::collections::{BTreeMap, BTreeSet};
use std::env::consts::DLL_EXTENSION;
use std::io::{BufRead, BufReader, Read};
use std::path::{Component, Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::SystemTime;

/// Is told when plugin crates are built, which takes its time.
pub trait Watcher {
    /// Cargo begins; what it does, as `building acme-passes`.
    fn begin(&self, what: &str);
    /// Cargo says a line.
    fn says(&self, line: &str);
    /// Cargo is done.
    fn end(&self);
}

/// Nobody is told.
impl Watcher for () {
    fn begin(&self, _: &str) {}
    fn says(&self, _: &str) {}
    fn end(&self) {}
}

/// The library of each plugin crate, in the order of `folders`. Those that are missing or stale are built first, the
/// ones of one workspace with one call of cargo. A crate that is wrong does not keep others from being built. `locked`:
/// cargo is asked about each, and must leave Cargo.lock as it is. What changed is judged by its time, as cargo does.
pub fn libraries(folders: &[PathBuf], locked: bool, watcher: &dyn Watcher) -> Vec<Result<PathBuf, Error>> {
    let found: Vec<Result<PluginCrate, Error>> = folders.iter().map(|folder| PluginCrate::read(folder)).collect();
    let mut stale: BTreeMap<&Path, Vec<&PluginCrate>> = BTreeMap::new();
    // Cargo puts back a library that another one was written over.
    for plugin in found.iter().flatten().filter(|plugin| locked || !plugin.is_fresh()) {
        let of_root = stale.entry(&plugin.root).or_default();
        if !of_root.iter().any(|other| other.folder == plugin.folder) {
            of_root.push(plugin);
        }
    }
    let mut built: BTreeMap<PathBuf, Result<PathBuf, Error>> = BTreeMap::new();
    for (root, plugins) in stale {
        built.extend(build_all(root, &plugins, locked, watcher));
    }
    // Who has a library; two crates can have the same one if they share a target folder.
    let mut owners: BTreeMap<PathBuf, PathBuf> = BTreeMap::new();
    let mut out = Vec::with_capacity(found.len());
    for plugin in found {
        out.push(plugin.and_then(|plugin| {
            let library = built.remove(&plugin.folder).unwrap_or_else(|| Ok(plugin.library.clone()))?;
            let owner = owners.entry(library.clone()).or_insert_with(|| plugin.folder.clone());
            if *owner == plugin.folder {
                built.insert(plugin.folder, Ok(library.clone()));
                return Ok(library);
            }
            let message = format!("its library {} is that of the crate {}, too", library.display(), owner.display());
            Err(failed(&plugin, message + "; give one of them another name, or a target folder of its own"))
        }));
    }
    out
}

fn failed(plugin: &PluginCrate, message: String) -> Error {
    Error::Build { path: plugin.folder.clone(), message, output: String::new() }
}

/// A plugin crate on disk.
struct PluginCrate {
    folder: PathBuf,
    package: String,
    /// The file of its library's root, below its folder.
    lib: PathBuf,
    /// Its build script, below its folder.
    script: PathBuf,
    /// Folder of its workspace.
    root: PathBuf,
    /// Where cargo puts the library if nothing else is configured.
    library: PathBuf,
}

/// The profile of this host: plugins are built alike.
const RELEASE: bool = !cfg!(debug_assertions);

impl PluginCrate {
    fn read(folder: &Path) -> Result<PluginCrate, Error> {
        let wrong = |message: String| Error::Build { path: folder.to_path_buf(), message, output: String::new() };
        let table = read_cargo_toml(folder).map_err(wrong)?;
        let name = |section: &str| table.get(section)?.get("name")?.as_str().map(str::to_string);
        let Some(package) = name("package") else { return Err(wrong("its Cargo.toml names no package".into())) };
        let lib = table.get("lib");
        let kinds = lib.and_then(|lib| lib.get("crate-type").or_else(|| lib.get("crate_type")));
        let kinds = kinds.and_then(toml::Value::as_array);
        if !kinds.is_some_and(|kinds| kinds.iter().any(|kind| kind.as_str() == Some("cdylib"))) {
            let help = "write `[lib]` and `crate-type = [\"cdylib\"]` into its Cargo.toml";
            return Err(wrong(format!("it is not built as a plugin; {help}")));
        }
        let library = name("lib").unwrap_or_else(|| package.replace('-', "_"));
        let folder = folder.canonicalize().map_err(|error| wrong(error.to_string()))?;
        let root = workspace_root(&folder, &table);
        // Cargo runs in the root, so a relative folder counts from there.
        let target = root.join(std::env::var_os("CARGO_TARGET_DIR").unwrap_or_else(|| "target".into()));
        let file = format!("{}{library}{}", std::env::consts::DLL_PREFIX, std::env::consts::DLL_SUFFIX);
        let library = target.join(if RELEASE { "release" } else { "debug" }).join(file);
        let path = |section: &str, key: &str, usual: &str| {
            PathBuf::from(table.get(section).and_then(|table| table.get(key)?.as_str()).unwrap_or(usual))
        };
        let (lib, script) = (path("lib", "path", "src/lib.rs"), path("package", "build", "build.rs"));
        Ok(PluginCrate { folder, package, lib, script, root, library })
    }

    /// Whether the library is newer than everything that cargo made it from.
    fn is_fresh(&self) -> bool {
        let Some(built) = modified(&self.library) else { return false };
        let inputs = match std::fs::read_to_string(self.library.with_extension("d")) {
            Ok(text) => dep_info(&text),
            Err(_) => return false,
        };
        // In a shared target folder, another crate's library can have the name.
        let inputs: Vec<PathBuf> = inputs.iter().map(|input| self.root.join(input)).collect();
        let own = |input: &PathBuf| input.canonicalize().is_ok_and(|input| input.starts_with(&self.folder));
        // Links are rarely in the way, and following them takes time.
        if !inputs.iter().any(|input| input.starts_with(&self.folder)) && !inputs.iter().any(own) {
            return false;
        }
        let manifests = [self.folder.join("Cargo.toml"), self.root.join("Cargo.toml"), self.root.join("Cargo.lock")];
        let older = |path: &PathBuf| modified(path).is_some_and(|time| time <= built);
        inputs.iter().all(older) && manifests.iter().filter(|path| path.exists()).all(older)
    }
}

/// Everything in its workspace that a plugin crate is made of, as far as it can be known before it is built: what lies
/// beside the root of its library, its build script, its Cargo.toml and that of the workspace, Cargo.lock. Each with a
/// name that does not depend on where the workspace lies, sorted by that.
///
/// # Errors
/// If the crate is none, or a folder cannot be read.
pub(crate) fn sources(folder: &Path) -> Result<Vec<(String, PathBuf)>, Error> {
    let plugin = PluginCrate::read(folder)?;
    let mut files = BTreeMap::from([("Cargo.toml".to_string(), plugin.folder.join("Cargo.toml"))]);
    let mut add = |name: String, path: PathBuf| {
        if path.is_file() {
            files.insert(name, path);
        }
    };
    add("workspace Cargo.toml".to_string(), plugin.root.join("Cargo.toml"));
    add("Cargo.lock".to_string(), plugin.root.join("Cargo.lock"));
    add(plugin.script.to_string_lossy().into_owned(), plugin.folder.join(&plugin.script));
    let below = plugin.lib.parent().unwrap_or(Path::new(""));
    let (start, mut seen) = (plugin.folder.join(below), BTreeSet::new());
    // A library beside its Cargo.toml: other things lie there, too.
    let only_rust = start.canonicalize().is_ok_and(|start| start == plugin.folder);
    let mut folders = vec![(start, below.to_string_lossy().replace('\\', "/"))];
    while let Some((folder, name)) = folders.pop() {
        let cannot = |error: std::io::Error| failed(&plugin, format!("cannot read {}: {error}", folder.display()));
        if !seen.insert(folder.canonicalize().map_err(cannot)?) {
            continue;
        }
        for entry in std::fs::read_dir(&folder).map_err(cannot)? {
            let (path, last) = entry.map(|entry| (entry.path(), entry.file_name())).map_err(cannot)?;
            let name = format!("{name}/{}", last.to_string_lossy());
            let built = path.join("CACHEDIR.TAG").exists() || last.as_encoded_bytes().starts_with(b".");
            if path.is_dir() && !built {
                folders.push((path, name));
            } else if path.is_file() && (!only_rust || path.extension().is_some_and(|extension| extension == "rs")) {
                files.insert(name, path);
            }
        }
    }
    Ok(files.into_iter().collect())
}

/// Everything that cargo built the library of a crate from beyond its [`sources`], as its `.d` file has it: included
/// files, what the build script names, the sources of crates by path with their Cargo.toml. Named from the root of the
/// workspace, sorted; what builds made is left out.
///
/// # Errors
/// If the crate is none, or a folder cannot be read.
pub(crate) fn other_inputs(
    folder: &Path,
    library: &Path,
    sources: &[(String, PathBuf)],
) -> Result<Vec<(String, PathBuf)>, Error> {
    let plugin = PluginCrate::read(folder)?;
    let mut resolve = Resolver::default();
    let mut seen: BTreeSet<PathBuf> = sources.iter().filter_map(|(_, path)| resolve.path(path)).collect();
    let target = library.parent().and_then(Path::parent).and_then(|target| target.canonicalize().ok());
    let text = std::fs::read_to_string(library.with_extension("d"));
    let text = text.map_err(|error| failed(&plugin, format!("cannot read what cargo built it from: {error}")))?;
    let mut waiting: Vec<PathBuf> = dep_info(&text).iter().map(|input| plugin.root.join(input)).collect();
    let (mut folders, mut files) = (BTreeSet::new(), BTreeMap::new());
    while let Some(path) = waiting.pop() {
        // A file that a build script waits for need not be there.
        let Some(path) = resolve.path(&path) else { continue };
        if target.as_ref().is_some_and(|target| path.starts_with(target)) || !seen.insert(path.clone()) {
            continue;
        }
        if path.is_dir() {
            let cannot = |error: std::io::Error| failed(&plugin, format!("cannot read {}: {error}", path.display()));
            for entry in std::fs::read_dir(&path).map_err(cannot)? {
                waiting.push(entry.map_err(cannot)?.path());
            }
            continue;
        }
        let new = path.ancestors().skip(1).take_while(|folder| folders.insert(folder.to_path_buf()));
        waiting.extend(new.map(|folder| folder.join("Cargo.toml")));
        files.insert(named_from(&plugin.root, &path), path);
    }
    Ok(files.into_iter().collect())
}

/// Follows links, as [`Path::canonicalize`] does, but those of each folder only once.
#[derive(Default)]
struct Resolver {
    folders: BTreeMap<PathBuf, Option<PathBuf>>,
}

impl Resolver {
    /// Nothing if there is nothing at the path.
    fn path(&mut self, path: &Path) -> Option<PathBuf> {
        let (Some(folder), Some(name)) = (path.parent(), path.file_name()) else { return path.canonicalize().ok() };
        if path.symlink_metadata().ok()?.is_symlink() {
            return path.canonicalize().ok();
        }
        if !self.folders.contains_key(folder) {
            self.folders.insert(folder.to_path_buf(), folder.canonicalize().ok());
        }
        self.folders.get(folder)?.as_ref().map(|folder| folder.join(name))
    }
}

/// A path as seen from a folder: `../data/table.txt`.
fn named_from(folder: &Path, path: &Path) -> String {
    let common = folder.components().zip(path.components()).take_while(|(a, b)| a == b).count();
    let up = folder.components().skip(common).map(|_| Component::ParentDir);
    portable(&up.chain(path.components().skip(common)).collect::<PathBuf>())
}

fn read_cargo_toml(folder: &Path) -> Result<toml::Table, String> {
    let text = std::fs::read_to_string(folder.join("Cargo.toml"))
        .map_err(|error| format!("cannot read its Cargo.toml: {error}; name the folder of a crate"))?;
    text.parse().map_err(|error: toml::de::Error| format!("its Cargo.toml: {}", error.message()))
}

/// The folder of the workspace of a crate, found as cargo finds it: the crate itself, the one that it names, or the
/// nearest workspace above that does not exclude it.
fn workspace_root(folder: &Path, own: &toml::Table) -> PathBuf {
    if own.contains_key("workspace") {
        return folder.to_path_buf();
    }
    if let Some(named) = own.get("package").and_then(|package| package.get("workspace")?.as_str()) {
        let named = folder.join(named);
        return named.canonicalize().unwrap_or(named);
    }
    let has_it = |above: &&Path| {
        let Ok(table) = read_cargo_toml(above) else { return false };
        let Some(workspace) = table.get("workspace") else { return false };
        let excluded = workspace.get("exclude").and_then(toml::Value::as_array).into_iter().flatten();
        !excluded.filter_map(toml::Value::as_str).any(|path| folder.starts_with(above.join(path)))
    };
    folder.ancestors().skip(1).find(has_it).unwrap_or(folder).to_path_buf()
}

fn modified(path: &Path) -> Option<SystemTime> {
    std::fs::metadata(path).ok()?.modified().ok()
}

/// The inputs in one of cargo's `.d` files: `output: input input`, with spaces in names written as `\ `.
fn dep_info(text: &str) -> Vec<PathBuf> {
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

type Built = BTreeMap<PathBuf, Result<PathBuf, Error>>;

/// Builds crates of one workspace, all at once; if that fails, each by itself, to know which are wrong. Gives the
/// library of each folder.
fn build_all(root: &Path, plugins: &[&PluginCrate], locked: bool, watcher: &dyn Watcher) -> Built {
    let all = build(root, plugins, locked, watcher);
    if plugins.len() > 1 && all.values().any(Result::is_err) {
        return plugins.iter().flat_map(|plugin| build(root, &[*plugin], locked, watcher)).collect();
    }
    all
}

fn build(root: &Path, plugins: &[&PluginCrate], locked: bool, watcher: &dyn Watcher) -> Built {
    let names: Vec<&str> = plugins.iter().map(|plugin| plugin.package.as_str()).collect();
    let what = format!("building {}", names.join(", "));
    let mut command = command(root, plugins);
    command.args(locked.then_some("--locked"));
    // Nothing to be seen is done for those that are fresh.
    let quiet = plugins.iter().all(|plugin| plugin.is_fresh());
    tracing::info!("{what}");
    let results = match cargo(&mut command, &what, if quiet { &() } else { watcher }) {
        Ok(stdout) => {
            let mut artifacts = artifacts(&stdout);
            let missing = || "cargo built no dynamic library for it".to_string();
            let library =
                |plugin: &PluginCrate| artifacts.remove(&plugin.folder).ok_or_else(|| failed(plugin, missing()));
            plugins.iter().copied().map(library).collect::<Vec<_>>()
        }
        Err((message, output)) => {
            let error = |plugin: &&PluginCrate| {
                let (message, output) = (message.clone(), output.clone());
                Err(Error::Build { path: plugin.folder.clone(), message, output })
            };
            plugins.iter().map(error).collect()
        }
    };
    plugins.iter().map(|plugin| plugin.folder.clone()).zip(results).collect()
}

fn command(root: &Path, plugins: &[&PluginCrate]) -> Command {
    let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command.arg("build").arg("--lib").arg("--message-format=json-render-diagnostics").current_dir(root);
    command.args(RELEASE.then_some("--release"));
    match plugins {
        // Nothing to mistake: a name could also be that of a dependency.
        [plugin] => {
            command.arg("--manifest-path").arg(plugin.folder.join("Cargo.toml"));
        }
        plugins => {
            plugins.iter().for_each(|plugin| {
                command.args(["-p", &plugin.package]);
            });
        }
    }
    // What `cargo run` sets for the host itself must not reach the crates that are built now.
    for (key, _) in std::env::vars_os() {
        let key = key.to_string_lossy().into_owned();
        if key.starts_with("CARGO_PKG_") || key.starts_with("CARGO_MANIFEST_") || key.starts_with("CARGO_BIN_") {
            command.env_remove(key);
        }
    }
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

/// Runs cargo; gives its standard output, or what happened and what it said.
fn cargo(command: &mut Command, what: &str, watcher: &dyn Watcher) -> Result<String, (String, String)> {
    let mut child = command
        .spawn()
        .map_err(|error| (format!("cannot run cargo: {error}"), "install Rust, or list built libraries".into()))?;
    watcher.begin(what);
    let pipe = child.stdout.take();
    let reader = std::thread::spawn(move || {
        let mut stdout = String::new();
        // What it is worth without its end, the status says.
        let _ = pipe.map(|mut pipe| pipe.read_to_string(&mut stdout));
        stdout
    });
    let said = said(child.stderr.take(), watcher);
    let (status, stdout) = (child.wait(), reader.join().unwrap_or_default());
    watcher.end();
    if !status.map_err(|error| (error.to_string(), String::new()))?.success() {
        let message = format!("`cargo build` failed while {what}; correct the crate, or leave it out of the manifest");
        return Err((message, said));
    }
    Ok(stdout)
}

/// The dynamic libraries that cargo reports, by the folder of their crate.
fn artifacts(stdout: &str) -> BTreeMap<PathBuf, PathBuf> {
    let mut out = BTreeMap::new();
    for line in stdout.lines() {
        let Ok(message) = serde_json::from_str::<serde_json::Value>(line) else { continue };
        if message["reason"] != "compiler-artifact" {
            continue;
        }
        let files = message["filenames"].as_array().into_iter().flatten().filter_map(|file| file.as_str());
        let library = files.map(PathBuf::from).find(|file| file.extension().is_some_and(|ext| ext == DLL_EXTENSION));
        let folder = message["manifest_path"].as_str().and_then(|path| Path::new(path).parent()?.canonicalize().ok());
        out.extend(folder.zip(library));
    }
    out
}

/// Reads what cargo says to people and passes it on, but for what only says that it works.
fn said(pipe: Option<impl Read>, watcher: &dyn Watcher) -> String {
    let mut said = String::new();
    for line in pipe.into_iter().flat_map(|pipe| BufReader::new(pipe).lines()).map_while(Result::ok) {
        watcher.says(line.trim());
        let noise = ["Compiling", "Blocking", "Updating", "Locking", "Downloading", "Downloaded", "Finished"];
        if !noise.iter().any(|word| line.trim_start().starts_with(word)) {
            said.push_str(&line);
            said.push('\n');
        }
    }
    said
}
