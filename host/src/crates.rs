//! Plugins that are listed as crates: built with cargo when their library is missing or stale.

use crate::error::Error;
use indicatif::{ProgressBar, ProgressStyle};
use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, IsTerminal, Read};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, SystemTime};

/// Libraries of plugin crates, in the order of `folders`; those that are missing or stale are built first, the ones of
/// one workspace with one call of cargo.
///
/// # Errors
/// If a folder is no crate, or a crate does not build.
pub fn libraries(folders: &[PathBuf]) -> Result<Vec<PathBuf>, Error> {
    let mut found = Vec::with_capacity(folders.len());
    for folder in folders {
        found.push(PluginCrate::read(folder)?);
    }
    let mut by_root: BTreeMap<PathBuf, Vec<&PluginCrate>> = BTreeMap::new();
    for plugin in found.iter().filter(|plugin| !plugin.is_fresh()) {
        by_root.entry(plugin.root.clone()).or_default().push(plugin);
    }
    let mut built = BTreeMap::new();
    for (root, plugins) in by_root {
        built.extend(build(&root, &plugins)?);
    }
    let library = |plugin: &PluginCrate| built.get(&plugin.package).cloned().unwrap_or_else(|| plugin.library.clone());
    Ok(found.iter().map(library).collect())
}

/// A plugin crate on disk.
struct PluginCrate {
    folder: PathBuf,
    package: String,
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
        let manifest = folder.join("Cargo.toml");
        let text = std::fs::read_to_string(&manifest)
            .map_err(|error| wrong(format!("cannot read its Cargo.toml: {error}; name the folder of a crate")))?;
        let table: toml::Table =
            text.parse().map_err(|error: toml::de::Error| wrong(format!("its Cargo.toml: {}", error.message())))?;
        let name = |section: &str| table.get(section)?.get("name")?.as_str().map(str::to_string);
        let Some(package) = name("package") else { return Err(wrong("its Cargo.toml names no package".into())) };
        let library = name("lib").unwrap_or_else(|| package.replace('-', "_"));
        let folder = folder.canonicalize().map_err(|error| wrong(error.to_string()))?;
        let root = folder.ancestors().find(|above| above.join("Cargo.lock").is_file()).unwrap_or(&folder);
        let root = root.to_path_buf();
        let target = std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root.join("target"), PathBuf::from);
        let file = format!("{}{library}{}", std::env::consts::DLL_PREFIX, std::env::consts::DLL_SUFFIX);
        let library = target.join(if RELEASE { "release" } else { "debug" }).join(file);
        Ok(PluginCrate { folder, package, root, library })
    }

    /// Whether the library is newer than everything that cargo made it from.
    fn is_fresh(&self) -> bool {
        let Some(built) = modified(&self.library) else { return false };
        let inputs = match std::fs::read_to_string(self.library.with_extension("d")) {
            Ok(text) => dep_info(&text),
            Err(_) => return false,
        };
        let manifests = [self.folder.join("Cargo.toml"), self.root.join("Cargo.toml"), self.root.join("Cargo.lock")];
        let older = |path: &PathBuf| modified(path).is_some_and(|time| time <= built);
        inputs.iter().all(older) && manifests.iter().filter(|path| path.exists()).all(older)
    }
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

/// Builds crates of one workspace; gives the library of each package.
fn build(root: &Path, plugins: &[&PluginCrate]) -> Result<BTreeMap<String, PathBuf>, Error> {
    let names: Vec<&str> = plugins.iter().map(|plugin| plugin.package.as_str()).collect();
    let path = plugins.first().map_or_else(|| root.to_path_buf(), |plugin| plugin.folder.clone());
    let failed = |message: String, output: String| Error::Build { path: path.clone(), message, output };
    let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command.arg("build").arg("--lib").arg("--message-format=json-render-diagnostics").current_dir(root);
    command.args(RELEASE.then_some("--release"));
    for name in &names {
        command.args(["-p", name]);
    }
    // What `cargo run` sets for the host itself must not reach the crates that are built now.
    for (key, _) in std::env::vars_os() {
        let key = key.to_string_lossy().into_owned();
        if key.starts_with("CARGO_PKG_") || key.starts_with("CARGO_MANIFEST_") || key.starts_with("CARGO_BIN_") {
            command.env_remove(key);
        }
    }
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let what = format!("building {}", names.join(", "));
    let mut child = command.spawn().map_err(|error| {
        failed(format!("cannot run cargo: {error}"), "install Rust, or list built libraries".into())
    })?;
    let progress = Progress::start(&what);
    let stderr = child.stderr.take();
    let reader = std::thread::spawn(move || progress.follow(stderr));
    let mut stdout = String::new();
    if let Some(mut pipe) = child.stdout.take() {
        let _ = pipe.read_to_string(&mut stdout);
    }
    let status = child.wait().map_err(|error| failed(error.to_string(), String::new()))?;
    let said = reader.join().unwrap_or_default();
    if !status.success() {
        let message = format!("`cargo build` failed while {what}; correct the crate, or leave it out of the manifest");
        return Err(failed(message, said));
    }
    Ok(artifacts(&stdout, &names))
}

/// The dynamic libraries that cargo reports.
fn artifacts(stdout: &str, names: &[&str]) -> BTreeMap<String, PathBuf> {
    let mut out = BTreeMap::new();
    for line in stdout.lines() {
        let Ok(message) = serde_json::from_str::<serde_json::Value>(line) else { continue };
        if message["reason"] != "compiler-artifact" {
            continue;
        }
        let id = message["package_id"].as_str().unwrap_or("");
        let files = message["filenames"].as_array().into_iter().flatten().filter_map(|file| file.as_str());
        let library =
            files.map(PathBuf::from).find(|file| file.to_string_lossy().ends_with(std::env::consts::DLL_SUFFIX));
        // Package ids end in `name@version` or, where the folder has the name, in `folder#version`.
        let named = |name: &&&str| {
            id.contains(&format!("#{name}@"))
                || id.contains(&format!("/{name}#"))
                || id.starts_with(&format!("{name} "))
        };
        if let (Some(name), Some(library)) = (names.iter().find(named), library) {
            out.insert((*name).to_string(), library);
        }
    }
    out
}

/// What the user sees while cargo works: a line, or on a terminal a spinner with cargo's last word.
struct Progress {
    bar: Option<ProgressBar>,
}

impl Progress {
    fn start(what: &str) -> Progress {
        if !std::io::stderr().is_terminal() {
            tracing::info!("{what}");
            crate::cli::tell(&format!("passhost: {what} …"));
            return Progress { bar: None };
        }
        let bar = ProgressBar::new_spinner();
        if let Ok(style) = ProgressStyle::with_template("{spinner} {prefix} {elapsed} {wide_msg}") {
            bar.set_style(style);
        }
        bar.set_prefix(what.to_string());
        bar.enable_steady_tick(Duration::from_millis(120));
        Progress { bar: Some(bar) }
    }

    /// Shows what cargo says; gives all of it.
    fn follow(self, pipe: Option<impl Read>) -> String {
        let mut said = String::new();
        for line in pipe.into_iter().flat_map(|pipe| BufReader::new(pipe).lines()).map_while(Result::ok) {
            if let Some(bar) = &self.bar {
                bar.set_message(line.trim().to_string());
            }
            let noise = ["Compiling", "Blocking", "Updating", "Locking", "Downloading", "Downloaded", "Finished"];
            if !noise.iter().any(|word| line.trim_start().starts_with(word)) {
                said.push_str(&line);
                said.push('\n');
            }
        }
        if let Some(bar) = self.bar {
            bar.finish_and_clear();
        }
        said
    }
}
