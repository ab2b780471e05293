//! Plugins that are listed as crates: built with cargo if their library is missing or stale.

mod disk;
mod env;
mod inputs;
mod look;
mod named;
mod record;
mod settings;

pub(crate) use env::values;
pub(crate) use inputs::{Part, Parts, Survey};
pub(crate) use look::ReadByRuns;
pub(crate) use settings::Uncovered;

use crate::plugins::hashes::Hashes;
use crate::plugins::library::Library;
use crate::plugins::lock::CratePin;
use crate::report::error::Error;
use std::collections::{BTreeMap, BTreeSet};
use std::env::consts::DLL_EXTENSION;
use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::SystemTime;

/// Observes the builds of plugin crates, which can take long.
pub trait Watcher {
    /// Called when cargo starts. `what` describes its task, as in `building acme-passes`.
    fn begin(&self, what: &str);
    /// Called for each line of cargo's output, as in `Compiling acme-passes v0.1.0`.
    fn says(&self, line: &str);
    /// Called when cargo is done.
    fn end(&self);
}

/// Ignores all events.
impl Watcher for () {
    fn begin(&self, _: &str) {}
    fn says(&self, _: &str) {}
    fn end(&self) {}
}

/// Settings for obtaining the libraries of crates.
#[derive(Clone, Copy)]
pub(crate) struct How<'a> {
    /// True if cargo may run. If not, an outdated library is used as it is.
    pub(crate) builds: bool,
    /// True to accept only libraries that cargo built for passhost from the current files, and that have not been written to since. Cargo
    /// must not change Cargo.lock.
    pub(crate) locked: bool,
    /// True if files with the same size and times are considered unchanged.
    pub(crate) quick: bool,
    pub(crate) watcher: &'a dyn Watcher,
}

/// The library of a crate.
#[derive(Clone, Debug)]
pub(crate) struct Found {
    pub(crate) path: PathBuf,
    /// A private copy of cargo's result, if `locked` is true.
    pub(crate) copy: Option<Library>,
    /// True if the crate has changed since it was built.
    pub(crate) stale: bool,
    /// Digests of the crate's inputs, if they were needed.
    pub(crate) digests: Option<CratePin>,
}

/// Inspects crates, and caches the results.
pub(crate) struct Look<'a> {
    pub(crate) survey: &'a mut Survey,
    pub(crate) hashes: &'a mut Hashes,
}

/// Returns the library of each plugin crate, in the order of `folders`. Missing and stale libraries are built first, with one call of cargo
/// per workspace. A faulty crate does not prevent others from being built.
pub(crate) fn libraries(folders: &[PathBuf], how: How<'_>, look: &mut Look<'_>) -> Vec<Result<Found, Error>> {
    let crates: Vec<Result<PluginCrate, Error>> = folders.iter().map(|folder| look.plugin(folder)).collect();
    let mut found: BTreeMap<PathBuf, Result<Found, Error>> = BTreeMap::new();
    let mut stale: BTreeMap<&Path, Vec<&PluginCrate>> = BTreeMap::new();
    for plugin in crates.iter().flatten() {
        let of_root = stale.entry(&plugin.root).or_default();
        if found.contains_key(&plugin.folder) || of_root.iter().any(|other| other.folder == plugin.folder) {
            continue;
        }
        match look.known(plugin, how) {
            Some(known) => drop(found.insert(plugin.folder.clone(), Ok(known))),
            None if how.builds => of_root.push(plugin),
            None => drop(found.insert(plugin.folder.clone(), look.as_it_is(plugin, how))),
        }
    }
    for (root, plugins) in stale.into_iter().filter(|(_, plugins)| !plugins.is_empty()) {
        found.extend(look.build_all(root, &plugins, how));
    }
    // The crate of each library. Crates that share a target folder can have the same library.
    let mut owners: BTreeMap<PathBuf, PathBuf> = BTreeMap::new();
    let mut out = Vec::with_capacity(crates.len());
    for plugin in crates {
        out.push(plugin.and_then(|plugin| {
            let missing = || Err(failed(&plugin, NO_LIBRARY.to_string()));
            let known = found.remove(&plugin.folder).unwrap_or_else(missing)?;
            let library = &known.path;
            let owner = owners.entry(library.clone()).or_insert_with(|| plugin.folder.clone());
            if *owner == plugin.folder {
                found.insert(plugin.folder, Ok(known.clone()));
                return Ok(known);
            }
            let message =
                format!("its library {} is also the library of the crate {}", library.display(), owner.display());
            Err(failed(&plugin, message + "; rename one of them, or use a separate target folder"))
        }));
    }
    out
}

const NO_LIBRARY: &str = "cargo did not build a dynamic library for it";

fn failed(plugin: &PluginCrate, message: String) -> Error {
    Error::Build { path: plugin.folder.clone(), message, output: String::new() }
}

/// A plugin crate on disk.
struct PluginCrate {
    folder: PathBuf,
    package: String,
    /// Folder of the workspace of the crate.
    root: PathBuf,
    /// Path where cargo puts the library by default.
    library: PathBuf,
}

/// The configured location of cargo's build results, if any.
#[derive(Clone, Debug, Default)]
struct Place {
    folder: Option<PathBuf>,
    triple: Option<String>,
}

/// True if this host is a release build; plugins are built with the same profile.
const RELEASE: bool = !cfg!(debug_assertions);

impl PluginCrate {
    fn read(folder: &Path, survey: &mut Survey) -> Result<PluginCrate, Error> {
        let wrong = |message: String| Error::Build { path: folder.to_path_buf(), message, output: String::new() };
        let table = survey.disk.cargo_toml(folder).map_err(wrong)?;
        let name = |section: &str| table.get(section)?.get("name")?.as_str().map(str::to_string);
        let Some(package) = name("package") else { return Err(wrong("its Cargo.toml does not name a package".into())) };
        let lib = table.get("lib");
        let kinds = lib.and_then(|lib| lib.get("crate-type").or_else(|| lib.get("crate_type")));
        let kinds = kinds.and_then(toml::Value::as_array);
        if !kinds.is_some_and(|kinds| kinds.iter().any(|kind| kind.as_str() == Some("cdylib"))) {
            let help = "add `[lib]` and `crate-type = [\"cdylib\"]` to its Cargo.toml";
            return Err(wrong(format!("it is not built as a plugin; {help}")));
        }
        let library = name("lib").unwrap_or_else(|| package.replace('-', "_"));
        let folder = folder.canonicalize().map_err(|error| wrong(error.to_string()))?;
        let root = survey.disk.workspace_root(&folder, &table);
        // The target folder and target triple in cargo's settings for the workspace.
        let place = survey.place(&root);
        // Cargo runs in the root, so a relative folder starts there.
        let named = std::env::var_os("CARGO_TARGET_DIR").or_else(|| std::env::var_os("CARGO_BUILD_TARGET_DIR"));
        let target = named.map(PathBuf::from).or(place.folder).unwrap_or_else(|| "target".into());
        let target = root.join(target).join(place.triple.unwrap_or_default());
        let file = format!("{}{library}{}", std::env::consts::DLL_PREFIX, std::env::consts::DLL_SUFFIX);
        let library = target.join(if RELEASE { "release" } else { "debug" }).join(file);
        Ok(PluginCrate { folder, package, root, library })
    }

    /// Returns true if the library is newer than all its inputs. Used without a record.
    fn is_fresh(&self) -> bool {
        self.is_made_of_this(&self.library, &self.library.with_extension("d"))
    }

    /// Returns true if a library is newer than the inputs in a list, and the list contains inputs of this crate.
    fn is_made_of_this(&self, library: &Path, list: &Path) -> bool {
        let Some(built) = modified(library) else { return false };
        let inputs = match std::fs::read_to_string(list) {
            Ok(text) => inputs::dep_info(&text),
            Err(_) => return false,
        };
        // In a shared target folder, the library of another crate can have the same name.
        let inputs: Vec<PathBuf> = inputs.iter().map(|input| self.root.join(input)).collect();
        let own = |input: &PathBuf| input.canonicalize().is_ok_and(|input| input.starts_with(&self.folder));
        // Try without resolving links first, because links are rare and resolving them takes time.
        if !inputs.iter().any(|input| input.starts_with(&self.folder)) && !inputs.iter().any(own) {
            return false;
        }
        let manifests = [self.folder.join("Cargo.toml"), self.root.join("Cargo.toml"), self.root.join("Cargo.lock")];
        let older = |path: &PathBuf| modified(path).is_some_and(|time| time <= built);
        inputs.iter().all(older) && manifests.iter().filter(|path| path.exists()).all(older)
    }
}

/// Returns the library of a plugin crate from the folder of another build, such as `target/debug/deps`, if it is newer than all its inputs.
pub fn library_in(built: &Path, folder: &Path) -> Option<PathBuf> {
    let plugin = PluginCrate::read(folder, &mut Survey::default()).ok()?;
    let library = built.join(plugin.library.file_name()?);
    plugin.is_made_of_this(&library, &list_of_rustc(&library)).then_some(library)
}

/// Returns the list of a library's inputs by rustc: `deps/my_passes.d` for `deps/libmy_passes.so`.
fn list_of_rustc(library: &Path) -> PathBuf {
    let name = library.file_stem().unwrap_or_default().to_string_lossy().into_owned();
    library.with_file_name(format!("{}.d", name.strip_prefix(std::env::consts::DLL_PREFIX).unwrap_or(&name)))
}

fn modified(path: &Path) -> Option<SystemTime> {
    std::fs::metadata(path).ok()?.modified().ok()
}

/// A library as cargo reports it: its path, and whether it was already up to date.
struct Artifact {
    /// `None` if cargo built none, or another process removed it before cargo looked for it.
    library: Option<PathBuf>,
    fresh: bool,
    /// Environment variables that its build read, or an error if cargo does not report them.
    env: Result<BTreeSet<String>, String>,
}

/// Builds crates of one workspace with one call of cargo. An error applies to all of them.
fn build(root: &Path, plugins: &[&PluginCrate], how: How<'_>, quiet: bool) -> Vec<Result<Artifact, Error>> {
    let names: Vec<&str> = plugins.iter().map(|plugin| plugin.package.as_str()).collect();
    let what = format!("building {}", names.join(", "));
    let mut command = command(root, plugins);
    command.args(how.locked.then_some("--locked"));
    tracing::info!("{what}");
    match cargo(&mut command, &what, if quiet { &() } else { how.watcher }) {
        Ok(stdout) => {
            let mut artifacts = artifacts(&stdout);
            let read = env::Read::of(&stdout);
            let library = |plugin: &PluginCrate| {
                let found = artifacts.remove(&plugin.folder).ok_or_else(|| failed(plugin, NO_LIBRARY.to_string()))?;
                Ok(Artifact { env: read.below(root, &plugin.package), ..found })
            };
            plugins.iter().copied().map(library).collect()
        }
        Err((message, output)) => {
            let error = |plugin: &&PluginCrate| {
                let (message, output) = (message.clone(), output.clone());
                Err(Error::Build { path: plugin.folder.clone(), message, output })
            };
            plugins.iter().map(error).collect()
        }
    }
}

fn command(root: &Path, plugins: &[&PluginCrate]) -> Command {
    // Cargo sets CARGO for its child processes. If something else sets CARGO, it must not determine which program performs the build.
    let mut command = Command::new("cargo");
    command.env_remove("CARGO");
    command.arg("build").arg("--lib").arg("--message-format=json-render-diagnostics").current_dir(root);
    command.args(RELEASE.then_some("--release"));
    match plugins {
        // The path is unambiguous; a name could also be that of a dependency.
        [plugin] => {
            command.arg("--manifest-path").arg(plugin.folder.join("Cargo.toml"));
        }
        plugins => {
            plugins.iter().for_each(|plugin| {
                command.args(["-p", &plugin.package]);
            });
        }
    }
    // Variables that `cargo run` sets for the host itself must not affect the crates that are built now.
    for (key, _) in std::env::vars_os() {
        let key = key.to_string_lossy().into_owned();
        if key.starts_with("CARGO_PKG_") || key.starts_with("CARGO_MANIFEST_") || key.starts_with("CARGO_BIN_") {
            command.env_remove(key);
        }
    }
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

/// Runs cargo. Returns its standard output, or the error and the human-readable output.
fn cargo(command: &mut Command, what: &str, watcher: &dyn Watcher) -> Result<String, (String, String)> {
    let mut child = command
        .spawn()
        .map_err(|error| (format!("cannot run cargo: {error}"), "install Rust, or list built libraries".into()))?;
    watcher.begin(what);
    let pipe = child.stdout.take();
    let reader = std::thread::spawn(move || {
        let mut stdout = String::new();
        // The exit status shows whether incomplete output can be used.
        let _ = pipe.map(|mut pipe| pipe.read_to_string(&mut stdout));
        stdout
    });
    let said = said(child.stderr.take(), watcher);
    let (status, stdout) = (child.wait(), reader.join().unwrap_or_default());
    watcher.end();
    if !status.map_err(|error| (error.to_string(), String::new()))?.success() {
        return Err((format!("`cargo build` failed while {what}; {}", remedy(&said)), said));
    }
    Ok(stdout)
}

/// Suggests a remedy for a failure of cargo, based on its output.
fn remedy(said: &str) -> &'static str {
    const NETWORK: &[&str] = &[
        "Could not resolve host",
        "Couldn't resolve host",
        "Could not connect",
        "Couldn't connect",
        "failed to download",
        "failed to fetch",
        "failed to query replaced source registry",
        "download of config.json failed",
        "network failure",
        "spurious network error",
        "failed to clone into",
        "attempting to make an HTTP request, but --offline",
        "in the offline mode",
        "using offline mode",
    ];
    const MOVED: &[&str] = &["failed to load source for dependency", "failed to read `", "failed to load manifest for"];
    let has = |words: &[&str]| words.iter().any(|word| said.contains(word));
    if has(NETWORK) {
        "its dependencies cannot be fetched: run `cargo fetch` in its folder with network access, or list its built library with `path`"
    } else if has(MOVED) {
        "its Cargo.toml refers to a folder without a crate: correct the path if one of them was moved"
    } else {
        "correct the crate, or remove it from the manifest"
    }
}

/// Returns the dynamic libraries that cargo reports, by folder of their crate.
fn artifacts(stdout: &str) -> BTreeMap<PathBuf, Artifact> {
    let mut out = BTreeMap::new();
    for line in stdout.lines() {
        let Ok(message) = serde_json::from_str::<serde_json::Value>(line) else { continue };
        if message["reason"] != "compiler-artifact" {
            continue;
        }
        let files = message["filenames"].as_array().into_iter().flatten().filter_map(|file| file.as_str());
        let library = files.map(PathBuf::from).find(|file| file.extension().is_some_and(|ext| ext == DLL_EXTENSION));
        let folder = message["manifest_path"].as_str().and_then(|path| Path::new(path).parent()?.canonicalize().ok());
        let fresh = message["fresh"] == true;
        // A crate can have other artifacts, such as its build script.
        if let Some(folder) = folder.filter(|folder| library.is_some() || !out.contains_key(folder)) {
            out.insert(folder, Artifact { library, fresh, env: Ok(BTreeSet::new()) });
        }
    }
    out
}

/// Forwards cargo's output for people, and returns it without lines that only show progress.
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
