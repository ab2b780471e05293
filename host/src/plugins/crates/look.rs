//! Checks whether the library of a crate was built from its current files, and rebuilds it if not.

use super::env::values;
use super::inputs::put_stamp;
use super::record::{Record, path_of};
use super::{
    Artifact, Found, How, Look, NO_LIBRARY, Part, Parts, PluginCrate, Uncovered, build, failed, list_of_rustc,
};
use crate::plugins::hashes::{hex, stamp};
use crate::plugins::library::Library;
use crate::plugins::lock::CratePin;
use crate::report::error::Error;
use sha2::{Digest, Sha256};
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

/// Facts about a crate before it is built.
struct Before {
    stamps: Vec<u8>,
    start: SystemTime,
}

/// The files of a crate on which runs depend.
pub(crate) struct ReadByRuns {
    pub(crate) files: Vec<PathBuf>,
    /// Folders in which every new file becomes a part of the crate.
    pub(crate) folders: Vec<PathBuf>,
}

/// The outcome of a build.
enum Ended {
    Done(Found),
    /// Cargo considered the library up to date, although it was not built from the current files. The text explains why the crate cannot be
    /// used if a forced rebuild does not help.
    NotBuilt(PathBuf, String),
}

impl Look<'_> {
    pub(super) fn plugin(&mut self, folder: &Path) -> Result<PluginCrate, Error> {
        PluginCrate::read(folder, self.survey)
    }

    /// Returns the digest of all inputs that are known before a crate is built.
    ///
    /// # Errors
    /// If an input cannot be read.
    pub(crate) fn sources(&mut self, folder: &Path) -> Result<String, Error> {
        let plugin = self.plugin(folder)?;
        let sources = self.survey.sources(&plugin)?;
        self.digest(&plugin, &sources)
    }

    /// Returns the digests of the files and folders with these names, in the form of [`CratePin::inputs`]. Missing files and folders are
    /// left out.
    ///
    /// # Errors
    /// If an input cannot be read.
    pub(crate) fn inputs<'n>(
        &mut self,
        folder: &Path,
        names: impl Iterator<Item = &'n String>,
    ) -> Result<BTreeMap<String, String>, Error> {
        let plugin = self.plugin(folder)?;
        let parts = self.survey.named(&plugin, names);
        self.each(&plugin, &parts)
    }

    /// Returns the settings that affect the build of a crate and cannot be covered by a lockfile.
    ///
    /// # Errors
    /// If an input cannot be read.
    pub(crate) fn uncovered(&mut self, folder: &Path) -> Result<Vec<Uncovered>, Error> {
        let plugin = self.plugin(folder)?;
        self.survey.uncovered(&plugin)
    }

    /// Returns the names of the settings that apply to a crate: `.cargo/config.toml`, `$RUSTFLAGS`.
    pub(crate) fn setting_names(&mut self, folder: &Path) -> Vec<String> {
        self.plugin(folder).map(|plugin| self.survey.setting_names(&plugin)).unwrap_or_default()
    }

    /// Returns the source files of a crate, and the files that record its build.
    ///
    /// # Errors
    /// If an input cannot be read.
    pub(crate) fn read_by_runs(&mut self, folder: &Path) -> Result<ReadByRuns, Error> {
        let plugin = self.plugin(folder)?;
        let sources = self.survey.sources(&plugin)?;
        // Before the first build there are none.
        let compiled = self.survey.compiled(&plugin, &plugin.library).unwrap_or_default();
        let parts = || sources.iter().chain(compiled.iter());
        let named = compiled.iter().filter_map(|(name, _)| name.strip_suffix('/').map(|name| plugin.root.join(name)));
        let folders = self.survey.folders().cloned().chain(named).collect();
        let files = parts().filter_map(|(_, part)| match part {
            Part::File(path) => Some(path.clone()),
            Part::Text(_) => None,
        });
        let mut files: Vec<PathBuf> = files.collect();
        let library = plugin.library;
        let deps = library.with_file_name("deps");
        if let Some(own) = library.file_name().map(|name| deps.join(name)) {
            files.extend([list_of_rustc(&own), own]);
        }
        files.extend(path_of(&library));
        files.extend([library.with_extension("d"), library]);
        Ok(ReadByRuns { files, folders })
    }

    fn hash(&mut self, plugin: &PluginCrate, path: &Path) -> Result<String, Error> {
        let hash = self.hashes.sha256(path);
        hash.map_err(|error| failed(plugin, format!("cannot hash {}: {error}", path.display())))
    }

    /// Returns the digest of each input.
    fn each(&mut self, plugin: &PluginCrate, parts: &Parts) -> Result<BTreeMap<String, String>, Error> {
        let mut out = BTreeMap::new();
        for (name, part) in parts {
            let hash = match part {
                Part::Text(text) => hex(&Sha256::digest(text)),
                Part::File(path) => self.hash(plugin, path)?,
            };
            out.insert(name.clone(), hash);
        }
        Ok(out)
    }

    fn digest(&mut self, plugin: &PluginCrate, parts: &Parts) -> Result<String, Error> {
        let mut digest = Sha256::new();
        for (name, hash) in self.each(plugin, parts)? {
            digest.update(format!("{} {name}\n{hash}\n", name.len()));
        }
        Ok(hex(&digest.finalize()))
    }

    /// Computes the record for the current state. `hash` is that of the library; `env` contains the variables that its build read.
    fn now<'n>(
        &mut self,
        plugin: &PluginCrate,
        library: &Path,
        hash: Option<&str>,
        env: impl Iterator<Item = &'n String>,
    ) -> Result<Record, Error> {
        let (sources, compiled) = (self.survey.sources(plugin)?, self.survey.compiled(plugin, library)?);
        let inputs = self.survey.other_inputs(&compiled, &sources);
        let env = values(env);
        let pin = CratePin { sources: self.digest(plugin, &sources)?, inputs: self.each(plugin, &inputs)?, env };
        let hash = hash.map_or_else(|| self.hash(plugin, library), |hash| Ok(hash.to_string()))?;
        Ok(Record {
            folder: plugin.folder.display().to_string(),
            compiled: self.digest(plugin, &compiled)? + &env_text(&pin.env),
            library: hash,
            built: false,
            stamps: self.stamps(&sources, &compiled, &pin.env, library),
            pin,
        })
    }

    fn stamps(&mut self, sources: &Parts, compiled: &Parts, env: &BTreeMap<String, String>, library: &Path) -> String {
        let mut bytes = self.survey.stamps(sources);
        bytes.extend(self.survey.stamps(compiled));
        bytes.extend(env_text(env).as_bytes());
        // The library is always inspected again.
        put_stamp(&mut bytes, library.metadata().ok().as_ref().and_then(stamp));
        hex(&Sha256::digest(bytes))
    }

    /// Returns the library of a crate, if it is known to be built from the current files.
    pub(super) fn known(&mut self, plugin: &PluginCrate, how: How<'_>) -> Option<Found> {
        let path = plugin.library.clone();
        let record = Record::read(&path).filter(|record| Path::new(&record.folder) == plugin.folder)?;
        if how.quick {
            let (sources, compiled) = (self.survey.sources(plugin).ok()?, self.survey.compiled(plugin, &path).ok()?);
            if self.stamps(&sources, &compiled, &values(record.pin.env.keys()), &path) == record.stamps {
                return Some(Found { path, copy: None, stale: false, digests: Some(record.pin) });
            }
        }
        if how.locked && !record.built {
            return None;
        }
        let copy = if how.locked { Some(copy_of(plugin, &path).ok()?) } else { None };
        let now = self.now(plugin, &path, copy.as_ref().and_then(Library::sha256), record.pin.env.keys()).ok()?;
        if !record.is_of(&now) {
            return None;
        }
        let now = Record { built: record.built, ..now };
        if how.builds && now != record {
            now.write(&path);
        }
        Some(Found { path, copy, stale: false, digests: Some(now.pin) })
    }

    /// Returns the library of a crate without building it, although it may not match the current files.
    ///
    /// # Errors
    /// If the library does not exist, or only a matching library is accepted.
    pub(super) fn as_it_is(&mut self, plugin: &PluginCrate, how: How<'_>) -> Result<Found, Error> {
        let path = plugin.library.clone();
        if how.locked {
            let why = "this command does not build, and passhost has not built a library from these files yet";
            return Err(failed(plugin, format!("{why}; run `passhost build --locked` to build it")));
        }
        if !path.exists() {
            let why = format!("this command does not build, and {} does not exist", path.display());
            return Err(failed(plugin, format!("{why}; run `passhost build` to build it")));
        }
        let record = Record::read(&path).filter(|record| Path::new(&record.folder) == plugin.folder);
        let hash = self.hashes.sha256(&path).ok();
        // Without a record, another program built the library, so the times of the files decide.
        let is_recorded = record.is_some_and(|record| Some(record.library) == hash);
        Ok(Found { path, copy: None, stale: is_recorded || !plugin.is_fresh(), digests: None })
    }

    /// Builds all crates of one workspace at once. If that fails, builds each separately, to find the faulty crates.
    pub(super) fn build_all(
        &mut self,
        root: &Path,
        plugins: &[&PluginCrate],
        how: How<'_>,
    ) -> BTreeMap<PathBuf, Result<Found, Error>> {
        let before: Vec<Before> = plugins.iter().map(|plugin| self.before(plugin)).collect();
        // Cargo has nothing to do for up-to-date crates.
        let quiet = plugins.iter().all(|plugin| plugin.is_fresh());
        let mut built = build(root, plugins, how, quiet);
        if plugins.len() > 1 && built.iter().any(Result::is_err) {
            built = plugins.iter().flat_map(|plugin| build(root, &[*plugin], how, quiet)).collect();
        }
        self.survey.look_again();
        let mut out = BTreeMap::new();
        for ((plugin, built), before) in plugins.iter().zip(built).zip(before) {
            let found = built.and_then(|artifact| self.ended(plugin, artifact, &before, how));
            let found = found.and_then(|ended| match ended {
                Ended::Done(found) => Ok(found),
                Ended::NotBuilt(library, _) => self.build_again(plugin, &library, how),
            });
            out.insert(plugin.folder.clone(), found);
        }
        out
    }

    fn before(&mut self, plugin: &PluginCrate) -> Before {
        // An input that cannot be read is reported by the inspection after the build.
        let sources = self.survey.sources(plugin).unwrap_or_default();
        Before { stamps: self.survey.stamps(&without_lock(&sources)), start: SystemTime::now() }
    }

    /// Returns true if an input was written to while cargo ran.
    fn changed_since(&mut self, plugin: &PluginCrate, library: &Path, before: &Before) -> Result<bool, Error> {
        let (sources, compiled) = (self.survey.sources(plugin)?, self.survey.compiled(plugin, library)?);
        let later = |part: &Part| match part {
            Part::File(path) => super::modified(path).is_none_or(|time| time > before.start),
            Part::Text(_) => false,
        };
        Ok(self.survey.stamps(&without_lock(&sources)) != before.stamps || compiled.iter().any(|(_, part)| later(part)))
    }

    /// Compares the builds that cargo reports with the records.
    fn ended(
        &mut self,
        plugin: &PluginCrate,
        artifact: Artifact,
        before: &Before,
        how: How<'_>,
    ) -> Result<Ended, Error> {
        let Some(path) = artifact.library else {
            return Ok(Ended::NotBuilt(plugin.library.clone(), NO_LIBRARY.to_string()));
        };
        let env = variables(plugin, artifact.env, how)?;
        let copy = if how.locked { Some(copy_of(plugin, &path)?) } else { None };
        let now = self.now(plugin, &path, copy.as_ref().and_then(Library::sha256), env.iter())?;
        let record = Record::read(&path);
        let same = record.as_ref().filter(|record| record.is_of(&now));
        let built = !artifact.fresh || same.is_some_and(|record| record.built);
        let older = record.as_ref().is_some_and(|record| record.is_of_older_files(&now));
        if !built && (how.locked || older) {
            let why = "its library does not match its files, but cargo considers it up to date";
            return Ok(Ended::NotBuilt(path, format!("{why}; run `cargo clean -p {}`", plugin.package)));
        }
        let changed = self.changed_since(plugin, &path, before)?;
        if changed && how.locked {
            return Err(failed(plugin, "its files changed during the build; run the command again".to_string()));
        }
        let now = Record { built, ..now };
        if !changed {
            now.write(&path);
        }
        Ok(Ended::Done(Found { path, copy, stale: false, digests: Some(now.pin) }))
    }

    /// Makes cargo rebuild a library that it considers up to date, by removing cargo's own copy of it.
    fn build_again(&mut self, plugin: &PluginCrate, library: &Path, how: How<'_>) -> Result<Found, Error> {
        let (folder, name) = (library.parent().unwrap_or(Path::new("")), library.file_name().unwrap_or_default());
        let own = folder.join("deps").join(name);
        let _turn = Turn::wait(folder, &plugin.package, how);
        self.survey.look_again();
        if let Some(found) = self.known(plugin, how) {
            // Another passhost process built it in the meantime.
            return Ok(found);
        }
        let mut why = String::new();
        for _ in 0..ATTEMPTS {
            // If cargo's own copy does not exist, cargo will report that the library is still up to date.
            let _ = std::fs::remove_file(&own);
            let before = self.before(plugin);
            let artifact = build(&plugin.root, &[plugin], how, false).into_iter().next();
            self.survey.look_again();
            let artifact =
                artifact.unwrap_or_else(|| Err(failed(plugin, "cargo did not report a result for it".to_string())))?;
            match self.ended(plugin, artifact, &before, how)? {
                Ended::Done(found) => return Ok(found),
                Ended::NotBuilt(_, reason) => why = reason,
            }
        }
        Err(failed(plugin, why))
    }
}

/// Number of attempts to rebuild a library, because another cargo process may build it first.
const ATTEMPTS: usize = 3;

/// A lock that lets one passhost process at a time rebuild libraries in a target folder. Otherwise the second cargo would find the result of
/// the first, which may not match the current files.
struct Turn(Option<std::fs::File>);

impl Turn {
    /// Waits for the lock. `folder` is the folder in which cargo puts the library. Does not wait if the lock file cannot be created or
    /// locked.
    fn wait(folder: &Path, package: &str, how: How<'_>) -> Turn {
        let file = std::fs::File::create(folder.join(".passhost-lock"));
        let locked = file.and_then(|file| {
            if let Err(std::fs::TryLockError::WouldBlock) = file.try_lock() {
                how.watcher.begin(&format!("waiting for another passhost to build {package}"));
                let locked = file.lock();
                how.watcher.end();
                locked?;
            }
            Ok(file)
        });
        Turn(locked.inspect_err(|error| tracing::debug!(%error, "builds do not wait for each other")).ok())
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        // Closing the file does not unlock it while a child process has it open.
        let _ = self.0.take().map(|file| file.unlock());
    }
}

/// Returns the variables that a build read. Crates cannot be locked if cargo does not report them.
fn variables(
    plugin: &PluginCrate,
    found: Result<BTreeSet<String>, String>,
    how: How<'_>,
) -> Result<BTreeSet<String>, Error> {
    match found {
        Err(error) if how.quick => {
            tracing::warn!(%error, "the lockfile lacks these variables");
            Ok(BTreeSet::new())
        }
        found => found.map_err(|error| failed(plugin, format!("{error}; the crate cannot be locked without it"))),
    }
}

/// Formats variables for a digest; empty if there are none.
fn env_text(env: &BTreeMap<String, String>) -> String {
    env.iter().map(|(name, digest)| format!("${} {name} {digest}\n", name.len())).collect()
}

/// Leaves out Cargo.lock, which cargo itself updates.
fn without_lock(parts: &Parts) -> Parts {
    parts.iter().filter(|(name, _)| name != "Cargo.lock").cloned().collect()
}

/// Makes a private copy of a library.
fn copy_of(plugin: &PluginCrate, path: &Path) -> Result<Library, Error> {
    let wrong = |why: String| failed(plugin, format!("cannot copy {}: {why}", path.display()));
    let library = Library::open(path).map_err(|error| wrong(error.to_string()))?;
    library.private_copy().map_err(|error| wrong(error.to_string()))
}
