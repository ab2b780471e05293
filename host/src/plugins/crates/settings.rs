//! The settings that affect a cargo build beyond the crate's files: configuration files of cargo, the toolchain file, and environment
//! variables. Each can name a program that cargo runs, so `--locked` covers them.
//!
//! The user's choices are not covered: which `cargo` and `rustc` are on the PATH or selected by name with rustup, and other programs on the
//! PATH such as the linker.

use super::Place;
use super::inputs::Part;
use super::named::{Named, Setting};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

/// The settings of one workspace.
#[derive(Debug, Default)]
pub(super) struct Settings {
    /// By name: strings, and files that they name.
    pub(super) parts: Vec<(String, Part)>,
    /// Folders of crates that replace others by configuration.
    pub(super) crates: Vec<PathBuf>,
    /// Settings that cannot be covered, such as a toolchain folder.
    pub(super) uncovered: Vec<Uncovered>,
    /// Location of cargo's build results.
    pub(super) place: Place,
}

/// A setting that no lockfile covers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Uncovered {
    pub(crate) what: String,
    pub(crate) help: &'static str,
}

/// The state of the search for cargo's configuration files.
struct Search<'r> {
    /// The folder in which cargo runs.
    root: &'r Path,
    /// Files that were read already.
    seen: BTreeSet<PathBuf>,
    /// Files that settings name.
    named: Named,
}

const TOOLCHAIN: &str = "select the toolchain by name, or run without --locked";

impl Settings {
    /// Reads all settings that apply when cargo runs in a folder.
    ///
    /// # Errors
    /// A file that cannot be read.
    pub(super) fn of(root: &Path) -> Result<Settings, String> {
        let mut settings = Settings::default();
        settings.place.triple = std::env::var("CARGO_BUILD_TARGET").ok();
        let home = std::env::var_os("CARGO_HOME").map(PathBuf::from);
        let home = home.or_else(|| std::env::var_os("HOME").map(|home| PathBuf::from(home).join(".cargo")));
        let mut search = Search { root, seen: BTreeSet::new(), named: Named::default() };
        for (level, folder) in root.ancestors().enumerate() {
            let up = "../".repeat(level);
            settings.config(&folder.join(".cargo"), &format!("{up}.cargo"), &mut search)?;
            settings.toolchain(folder, &up, root)?;
        }
        if let Some(home) = home {
            settings.config(&home, "$CARGO_HOME", &mut search)?;
        }
        let mut named = search.named;
        let variables = std::env::vars_os().filter_map(|(name, value)| {
            let name = name.into_string().ok().filter(|name| counts(name))?;
            Some((name, value.to_string_lossy().into_owned()))
        });
        let mut variables: Vec<(String, String)> = variables.collect();
        variables.sort();
        for (name, value) in variables {
            let shown = format!("${name}");
            named.add(&Setting { key: &name, text: &value, shown: &shown, bases: [root; 2] });
            settings.parts.push((shown, Part::Text(value)));
        }
        settings.parts.extend(named.files.into_iter().map(|(name, file)| (name, Part::File(file))));
        settings.uncovered.extend(named.uncovered);
        let toolchain = std::env::var("RUSTUP_TOOLCHAIN").unwrap_or_default();
        if toolchain.contains(std::path::is_separator) {
            let what = format!("RUSTUP_TOOLCHAIN is the folder {toolchain}");
            settings.uncovered.push(Uncovered { what, help: TOOLCHAIN });
        }
        Ok(settings)
    }

    /// Reads the configuration file of a folder. As in cargo, the name without extension takes precedence.
    fn config(&mut self, folder: &Path, shown: &str, search: &mut Search<'_>) -> Result<(), String> {
        match ["config", "config.toml"].into_iter().find(|name| folder.join(name).is_file()) {
            Some(name) => self.config_file(&folder.join(name), &format!("{shown}/{name}"), search),
            None => Ok(()),
        }
    }

    fn config_file(&mut self, path: &Path, shown: &str, search: &mut Search<'_>) -> Result<(), String> {
        // Cargo's home folder can be the `.cargo` of a parent folder, and files can include each other.
        if !search.seen.insert(path.canonicalize().unwrap_or_else(|_| path.to_path_buf())) {
            return Ok(());
        }
        let table = read(path)?;
        // Relative paths start at the folder that contains `.cargo`.
        let base = path.parent().and_then(Path::parent).unwrap_or(Path::new("")).to_path_buf();
        let relevant = relevant(&table);
        if !relevant.is_empty() {
            let bases = [&base, search.root];
            let mut each = |key: &str, text: &str| search.named.add(&Setting { key, text, shown, bases });
            strings("", &toml::Value::Table(relevant.clone()), &mut each);
            self.parts.push((shown.to_string(), Part::Text(relevant.to_string())));
        }
        self.other_crates(&table, &base);
        // The nearest file takes precedence.
        let build = |key: &str| table.get("build").and_then(|build| build.get(key)?.as_str());
        let place = &mut self.place;
        place.folder = place.folder.take().or_else(|| build("target-dir").map(|folder| base.join(folder)));
        place.triple = place.triple.take().or_else(|| build("target").map(str::to_string));
        for included in includes(&table) {
            let file = path.with_file_name(&included);
            if file.is_file() {
                self.config_file(&file, &format!("{shown} {included}"), search)?;
            }
        }
        Ok(())
    }

    /// Adds crates that replace others.
    fn other_crates(&mut self, table: &toml::Table, base: &Path) {
        let paths = table.get("paths").and_then(toml::Value::as_array).into_iter().flatten();
        self.crates.extend(paths.filter_map(|path| Some(base.join(path.as_str()?))));
        self.crates.extend(patched(table, base));
        for source in table.get("source").and_then(toml::Value::as_table).into_iter().flat_map(toml::Table::values) {
            // Cargo checks the files of vendored crates against these checksums, but the checksums themselves are not checked.
            let Some(folder) = source.get("directory").and_then(toml::Value::as_str) else { continue };
            let crates = std::fs::read_dir(base.join(folder)).into_iter().flatten().flatten();
            for file in crates.map(|entry| entry.path().join(".cargo-checksum.json")).filter(|file| file.is_file()) {
                let name = file.parent().and_then(Path::file_name).unwrap_or_default().to_string_lossy();
                self.parts.push((format!("{folder}/{name}"), Part::File(file)));
            }
        }
    }

    fn toolchain(&mut self, folder: &Path, up: &str, root: &Path) -> Result<(), String> {
        for name in ["rust-toolchain", "rust-toolchain.toml"] {
            let file = folder.join(name);
            if !file.is_file() {
                continue;
            }
            let text = std::fs::read_to_string(&file).map_err(|error| format!("cannot read {name}: {error}"))?;
            let table = text.parse::<toml::Table>().unwrap_or_default();
            let path = table.get("toolchain").and_then(|toolchain| toolchain.get("path")?.as_str());
            if let Some(path) = path {
                let shown = super::inputs::named_from(root, &file);
                let what = format!("{shown} selects the folder {path} as the toolchain");
                self.uncovered.push(Uncovered { what, help: TOOLCHAIN });
            }
            self.parts.push((format!("{up}{name}"), Part::File(file)));
        }
        Ok(())
    }
}

/// Returns true if the environment variable affects what cargo and rustc build or run.
fn counts(name: &str) -> bool {
    const NAMES: [&str; 9] = [
        "RUSTFLAGS",
        "RUSTC",
        "RUSTC_WRAPPER",
        "RUSTC_WORKSPACE_WRAPPER",
        "RUSTC_LINKER",
        "RUSTC_BOOTSTRAP",
        "CARGO_ENCODED_RUSTFLAGS",
        "CARGO_PATHS",
        "CARGO_INCLUDE",
    ];
    const STARTS: [&str; 8] = [
        "CARGO_BUILD_",
        "CARGO_TARGET_",
        "CARGO_PROFILE_",
        "CARGO_UNSTABLE_",
        "CARGO_HOST_",
        "CARGO_ENV_",
        "CARGO_PATCH_",
        "CARGO_RESOLVER_",
    ];
    const HARMLESS: [&str; 8] = [
        "CARGO_TARGET_DIR",
        "CARGO_TARGET_TMPDIR",
        "CARGO_BUILD_TARGET_DIR",
        "CARGO_BUILD_BUILD_DIR",
        "CARGO_BUILD_JOBS",
        "CARGO_BUILD_DEP_INFO_BASEDIR",
        "CARGO_BUILD_INCREMENTAL",
        "CARGO_BUILD_WARNINGS",
    ];
    // Credential providers are programs.
    let asks = name.starts_with("CARGO_") && name.contains("CREDENTIAL");
    NAMES.contains(&name) || asks || STARTS.iter().any(|start| name.starts_with(start)) && !HARMLESS.contains(&name)
}

/// Removes settings that do not affect what is built or run, so that machines may differ in them: network, mirrors of registries (Cargo.lock
/// contains checksums of their crates), aliases and output styles.
fn relevant(table: &toml::Table) -> toml::Table {
    const HARMLESS: [&str; 10] =
        ["alias", "cache", "cargo-new", "doc", "future-incompat-report", "http", "install", "net", "term", "source"];
    let mut out = table.clone();
    out.retain(|key, _| !HARMLESS.contains(&key));
    let without = |table: &mut toml::Table, section: &str, keys: &[&str]| {
        let Some(toml::Value::Table(inner)) = table.get_mut(section) else { return };
        inner.retain(|key, _| !keys.contains(&key));
        if inner.is_empty() {
            table.remove(section);
        }
    };
    without(&mut out, "build", &["target-dir", "build-dir", "jobs", "dep-info-basedir", "incremental", "warnings"]);
    // Credential providers are programs.
    let asks = |table: &mut toml::Table| table.retain(|key, _| key.contains("credential"));
    if let Some(toml::Value::Table(registry)) = out.get_mut("registry") {
        asks(registry);
    }
    if let Some(toml::Value::Table(registries)) = out.get_mut("registries") {
        registries.iter_mut().filter_map(|(_, registry)| registry.as_table_mut()).for_each(asks);
        registries.retain(|_, registry| registry.as_table().is_some_and(|registry| !registry.is_empty()));
    }
    out.retain(|_, value| value.as_table().is_none_or(|table| !table.is_empty()));
    let folders = |source: &toml::Value| {
        let mut source = source.as_table()?.clone();
        source.retain(|key, _| ["directory", "local-registry"].contains(&key));
        (!source.is_empty()).then_some(toml::Value::Table(source))
    };
    let sources = table.get("source").and_then(toml::Value::as_table).into_iter().flatten();
    let sources: toml::Table = sources.filter_map(|(name, source)| Some((name.clone(), folders(source)?))).collect();
    if !sources.is_empty() {
        out.insert("source".to_string(), sources.into());
    }
    out
}

/// Returns the files that a configuration includes.
fn includes(table: &toml::Table) -> Vec<String> {
    let one = |value: &toml::Value| {
        let path = value.as_str().or_else(|| value.get("path").and_then(toml::Value::as_str));
        path.map(str::to_string)
    };
    match table.get("include") {
        Some(toml::Value::Array(files)) => files.iter().filter_map(one).collect(),
        Some(file) => one(file).into_iter().collect(),
        None => Vec::new(),
    }
}

/// Returns the folders of crates in `[patch]` and `[replace]`.
pub(super) fn patched(table: &toml::Table, base: &Path) -> Vec<PathBuf> {
    let tables = |value: &toml::Value| value.as_table().into_iter().flat_map(|table| table.clone()).collect::<Vec<_>>();
    let patches = table.get("patch").into_iter().flat_map(tables).flat_map(|(_, of_source)| tables(&of_source));
    let replaced = table.get("replace").into_iter().flat_map(tables);
    let folder = |(_, entry): (String, toml::Value)| Some(base.join(entry.get("path")?.as_str()?));
    patches.chain(replaced).filter_map(folder).collect()
}

/// Calls `each` with every text of a configuration and its key.
fn strings(key: &str, value: &toml::Value, each: &mut impl FnMut(&str, &str)) {
    match value {
        toml::Value::String(text) => each(key, text),
        toml::Value::Array(values) => values.iter().for_each(|value| strings(key, value, each)),
        toml::Value::Table(table) => table.iter().for_each(|(key, value)| strings(key, value, each)),
        _ => {}
    }
}

fn read(path: &Path) -> Result<toml::Table, String> {
    let text = std::fs::read_to_string(path).map_err(|error| format!("cannot read {}: {error}", path.display()))?;
    text.parse().map_err(|error: toml::de::Error| format!("{}: {}", path.display(), error.message()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(text: &str) -> String {
        relevant(&text.parse().expect("a configuration")).to_string()
    }

    #[test]
    fn what_changes_nothing_does_not_count() {
        let harmless = "[net]\noffline = true\n[alias]\nb = 'build'\n[build]\njobs = 2\ntarget-dir = 'x'\n\
                        [source.crates-io]\nreplace-with = 'm'\n[source.m]\nregistry = 'sparse+https://m/'\n\
                        [registries.m]\nindex = 'sparse+https://m/'\n[registry]\ndefault = 'm'\n";
        assert_eq!(of(harmless), "");
    }

    #[test]
    fn what_runs_a_program_counts() {
        for (text, has) in [
            ("[build]\njobs = 2\nrustc-wrapper = './w'\n", "rustc-wrapper"),
            ("[target.x]\nlinker = './l'\n", "linker"),
            ("[env]\nCC = './c'\n", "CC"),
            ("[source.v]\ndirectory = 'vendor'\n", "vendor"),
            ("[registry]\nglobal-credential-providers = ['./p']\n", "./p"),
            ("[registries.m]\ncredential-provider = ['./p']\n", "./p"),
            ("[profile.dev]\nopt-level = 3\n", "opt-level"),
            ("paths = ['../other']\n", "../other"),
            ("[unstable]\nhost-config = true\n", "host-config"),
        ] {
            assert!(of(text).contains(has) && !of(text).contains("jobs"), "{text}: {}", of(text));
        }
    }

    #[test]
    fn variables_that_change_a_build_count() {
        for name in [
            "RUSTFLAGS",
            "RUSTC_WRAPPER",
            "CARGO_BUILD_RUSTC",
            "CARGO_TARGET_X86_64_UNKNOWN_LINUX_GNU_LINKER",
            "CARGO_REGISTRIES_M_CREDENTIAL_PROVIDER",
            "CARGO_REGISTRY_GLOBAL_CREDENTIAL_PROVIDERS",
        ] {
            assert!(counts(name), "{name}");
        }
        for name in ["CARGO_TARGET_DIR", "CARGO_BUILD_JOBS", "CARGO_PKG_NAME", "CARGO_HOME", "RUST_BACKTRACE", "PATH"] {
            assert!(!counts(name), "{name}");
        }
    }

    #[test]
    fn files_that_a_setting_names_and_crates_in_the_place_of_others_count() {
        let folder = tempfile::tempdir().expect("a folder");
        let root = folder.path().join("a/b");
        std::fs::create_dir_all(root.join(".cargo")).expect("a folder");
        std::fs::create_dir_all(folder.path().join("a/.cargo")).expect("a folder");
        let config = "paths = ['other']\n[build]\nrustc-wrapper = 'tools/wrap.sh'\nrustflags = '-Clinker=tools/wrap.sh'\n\
                      [patch.crates-io]\nx = { path = 'x' }\n";
        std::fs::create_dir_all(root.join("tools")).expect("a folder");
        std::fs::write(root.join("tools/wrap.sh"), "").expect("a file");
        std::fs::write(root.join(".cargo/config.toml"), config).expect("a file");
        std::fs::write(folder.path().join("a/.cargo/config.toml"), "include = 'more.toml'\n").expect("a file");
        std::fs::write(folder.path().join("a/.cargo/more.toml"), "[build]\nrustc = 'my-rustc'\n").expect("a file");
        std::fs::write(root.join("rust-toolchain.toml"), "[toolchain]\npath = '/opt/rust'\n").expect("a file");
        let settings = Settings::of(&root).expect("settings");
        let names: Vec<&str> = settings.parts.iter().map(|(name, _)| name.as_str()).collect();
        for name in [
            ".cargo/config.toml",
            ".cargo/config.toml: tools/wrap.sh",
            "rust-toolchain.toml",
            "../.cargo/config.toml",
            "../.cargo/config.toml more.toml",
        ] {
            assert!(names.contains(&name), "{name}: {names:?}");
        }
        assert_eq!(settings.crates, [root.join("other"), root.join("x")]);
        let uncovered: Vec<&str> = settings.uncovered.iter().map(|it| it.what.as_str()).collect();
        assert_eq!(uncovered, ["rust-toolchain.toml selects the folder /opt/rust as the toolchain"]);
    }
}
