//! Collects the environment variables that a build reads: those in `env!` and `option_env!`, which rustc lists, and those that build scripts
//! declare with `rerun-if-env-changed`. Like source files, they affect the result of the build.
//!
//! Cargo reports the crates that it built or found up to date, and rustc writes a list of inputs next to each. Since one call of cargo
//! builds several plugins, only dependencies of the plugin crate in Cargo.lock count.

use crate::plugins::hashes::hex;
use crate::plugins::lock::UNSET;
use serde_json::Value;
use sha2::{Digest, Sha256};
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

/// Name and version of a package.
type Package = (String, String);

/// The variables that each package reads, from one call of cargo.
#[derive(Debug, Default)]
pub(super) struct Read {
    packages: BTreeMap<Package, Names>,
    /// Packages without a list of the variables that their builds read.
    unlisted: BTreeSet<Package>,
}

#[derive(Debug, Default)]
struct Names {
    read: BTreeSet<String>,
    /// Variables set by the package's build script, which therefore follow from its sources.
    set: BTreeSet<String>,
}

/// Returns the digests of the variables' current values.
pub(crate) fn values<'a>(names: impl IntoIterator<Item = &'a String>) -> BTreeMap<String, String> {
    let value = |name: &String| match std::env::var_os(name) {
        Some(value) => hex(&Sha256::digest(value.as_encoded_bytes())),
        None => UNSET.to_string(),
    };
    names.into_iter().map(|name| (name.clone(), value(name))).collect()
}

impl Read {
    /// Parses cargo's JSON output.
    pub(super) fn of(stdout: &str) -> Read {
        let mut out = Read::default();
        for line in stdout.lines() {
            let Ok(message) = serde_json::from_str::<Value>(line) else { continue };
            let Some(package) = message["package_id"].as_str().and_then(package) else { continue };
            if message["reason"] == "compiler-artifact" {
                let files = message["filenames"].as_array().into_iter().flatten().filter_map(Value::as_str);
                match listed(files.map(Path::new)) {
                    Some(names) => out.packages.entry(package).or_default().read.extend(names),
                    None => drop(out.unlisted.insert(package)),
                }
            } else if message["reason"] == "build-script-executed" {
                let set = message["env"].as_array().into_iter().flatten().filter_map(|pair| pair[0].as_str());
                let output = message["out_dir"].as_str().map(|folder| Path::new(folder).with_file_name("output"));
                match output.and_then(|file| std::fs::read(file).ok()) {
                    Some(said) => {
                        let names = out.packages.entry(package).or_default();
                        names.set.extend(set.map(str::to_string));
                        names.read.extend(named(&String::from_utf8_lossy(&said)));
                    }
                    None => drop(out.unlisted.insert(package)),
                }
            }
        }
        out
    }

    /// Returns the variables that a package and its dependencies read.
    ///
    /// # Errors
    /// The name of a package whose variables are unknown.
    pub(super) fn below(&self, root: &Path, package: &str) -> Result<BTreeSet<String>, String> {
        let below = std::fs::read_to_string(root.join("Cargo.lock")).ok().and_then(|text| closure(&text, package));
        let counts = |of: &Package| below.as_ref().is_none_or(|below| below.contains(of));
        if let Some((name, version)) = self.unlisted.iter().find(|of| counts(of)) {
            return Err(format!("cargo did not list the environment variables that {name} {version} reads"));
        }
        let names = self.packages.iter().filter(|(of, _)| counts(of)).map(|(_, names)| names);
        let foreign = names.flat_map(|names| names.read.difference(&names.set)).filter(|name| !by_cargo(name));
        Ok(foreign.cloned().collect())
    }
}

/// Returns true if cargo sets the variable, from manifests and the location of the package.
fn by_cargo(name: &str) -> bool {
    const NAMES: [&str; 6] = [
        "CARGO",
        "CARGO_CRATE_NAME",
        "CARGO_PRIMARY_PACKAGE",
        "CARGO_RUSTC_CURRENT_DIR",
        "CARGO_TARGET_TMPDIR",
        "OUT_DIR",
    ];
    const STARTS: [&str; 3] = ["CARGO_PKG_", "CARGO_MANIFEST_", "CARGO_BIN_"];
    NAMES.contains(&name) || STARTS.iter().any(|start| name.starts_with(start))
}

/// Parses a package id: `path+file:///a/name#0.1.0`, `registry+https://x#name@0.1.0`.
fn package(id: &str) -> Option<Package> {
    let (place, end) = id.rsplit_once('#')?;
    match end.rsplit_once('@') {
        Some((name, version)) => Some((name.to_string(), version.to_string())),
        None => {
            let place = place.split('?').next().unwrap_or_default().trim_end_matches('/');
            let name = place.rsplit('/').next().unwrap_or_default();
            Some((name.trim_end_matches(".git").to_string(), end.to_string()))
        }
    }
}

/// Returns the variables in the input lists of one crate; `None` without a list.
fn listed<'a>(files: impl Iterator<Item = &'a Path>) -> Option<BTreeSet<String>> {
    let mut lists = BTreeSet::new();
    for file in files {
        let (Some(folder), Some(stem)) = (file.parent(), file.file_stem().and_then(|stem| stem.to_str())) else {
            continue;
        };
        let stems = [stem, stem.strip_prefix("lib").unwrap_or(stem)];
        let places = [folder.to_path_buf(), folder.join("deps")];
        let near = places.iter().flat_map(|place| stems.map(|stem| place.join(format!("{stem}.d"))));
        lists.extend(near.filter(|list| list.is_file()));
        // The list of a build script has a hash in its name, and its own folder.
        if folder.parent().is_some_and(|above| above.ends_with("build")) {
            let beside = std::fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path());
            lists.extend(beside.filter(|path| path.extension().is_some_and(|extension| extension == "d")));
        }
    }
    let texts: Vec<String> = lists.iter().filter_map(text_of_rustc).collect();
    (!texts.is_empty()).then(|| texts.iter().flat_map(|text| dependencies(text)).collect())
}

/// Returns the text of a list by rustc. Lists that cargo merged from several lists are skipped, because they do not
/// contain variables.
fn text_of_rustc(list: &PathBuf) -> Option<String> {
    let text = String::from_utf8_lossy(&std::fs::read(list).ok()?).into_owned();
    let lines = text.lines().filter(|line| !line.is_empty()).count();
    (lines > 1).then_some(text)
}

/// Parses `# env-dep:NAME=value` or, without a value, `# env-dep:NAME`.
fn dependencies(text: &str) -> impl Iterator<Item = String> {
    let names = text.lines().filter_map(|line| line.strip_prefix("# env-dep:"));
    names.map(|rest| plain(rest.split('=').next().unwrap_or(rest)))
}

/// Undoes rustc's escapes for line ends and backslashes.
fn plain(name: &str) -> String {
    name.replace("\\n", "\n").replace("\\r", "\r").replace("\\\\", "\\")
}

/// Parses a build script's declarations: `cargo::rerun-if-env-changed=CC`, or with one colon in older scripts.
fn named(said: &str) -> Vec<String> {
    let name = |line: &str| {
        let rest = line.strip_prefix("cargo::").or_else(|| line.strip_prefix("cargo:"))?;
        Some(rest.strip_prefix("rerun-if-env-changed=")?.trim_end().to_string())
    };
    // The name of an environment variable cannot be empty or contain `=` or NUL.
    said.lines().filter_map(name).filter(|name| !name.is_empty() && !name.contains(['=', '\0'])).collect()
}

/// Returns a package of Cargo.lock and all of its dependencies.
fn closure(lock: &str, of: &str) -> Option<BTreeSet<Package>> {
    let table: toml::Table = lock.parse().ok()?;
    let mut needs: BTreeMap<&str, Vec<(&str, Vec<&str>)>> = BTreeMap::new();
    for entry in table.get("package")?.as_array()? {
        let text = |key: &str| entry.get(key).and_then(toml::Value::as_str);
        let list = entry.get("dependencies").and_then(toml::Value::as_array).into_iter().flatten();
        needs
            .entry(text("name")?)
            .or_default()
            .push((text("version")?, list.filter_map(toml::Value::as_str).collect()));
    }
    let (mut out, mut waiting) = (BTreeSet::new(), vec![of]);
    needs.get(of)?;
    while let Some(wanted) = waiting.pop() {
        // `name`, `name version` or `name version (source)`.
        let mut words = wanted.split(' ');
        let (name, version) = (words.next().unwrap_or_default(), words.next());
        for (found, more) in needs.get(name).into_iter().flatten() {
            if version.is_none_or(|version| version == *found) && out.insert((name.to_string(), found.to_string())) {
                waiting.extend(more);
            }
        }
    }
    Some(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packages_have_names_and_versions() {
        for (id, name, version) in [
            ("path+file:///a/mine#0.1.0", "mine", "0.1.0"),
            ("path+file:///a/folder#mine@0.1.0", "mine", "0.1.0"),
            ("registry+https://x/index#serde@1.0.0-a+b", "serde", "1.0.0-a+b"),
            ("git+https://x/mine.git?branch=m#0.1.0", "mine", "0.1.0"),
        ] {
            assert_eq!(package(id), Some((name.to_string(), version.to_string())));
        }
    }

    #[test]
    fn variables_are_found_in_lists_and_in_what_scripts_say() {
        let list = "a.so: src/lib.rs\n\nsrc/lib.rs:\n\n# env-dep:A=b=c\\n\n# env-dep:UNSET\n";
        assert_eq!(dependencies(list).collect::<Vec<_>>(), ["A", "UNSET"]);
        let said = "cargo:rerun-if-env-changed=A\ncargo::rerun-if-env-changed=B \ncargo::rerun-if-changed=c\nD\n";
        assert_eq!(named(said), ["A", "B"]);
    }

    #[test]
    fn what_lies_below_a_package_counts() {
        let lock = "[[package]]\nname = 'a'\nversion = '1.0.0'\ndependencies = ['b 2.0.0', 'c']\n\
                    [[package]]\nname = 'b'\nversion = '1.0.0'\n[[package]]\nname = 'b'\nversion = '2.0.0'\n\
                    [[package]]\nname = 'c'\nversion = '3.0.0'\ndependencies = ['a']\n\
                    [[package]]\nname = 'd'\nversion = '1.0.0'\n";
        let names: Vec<String> =
            closure(lock, "a").expect("packages").iter().map(|(a, b)| format!("{a} {b}")).collect();
        assert_eq!(names, ["a 1.0.0", "b 2.0.0", "c 3.0.0"]);
        assert_eq!(closure(lock, "none"), None);
    }
}
