//! Compares plugins with the lockfile while they are listed.

use super::compared::{Compared, Read, other_reads};
use super::{CratePin, Entries, Entry, Pin, UNSET, load, parse, path_of};
use crate::plugins::TRIPLE;
use crate::plugins::crates::{self, Found, How, Look, Survey, Uncovered, Watcher};
use crate::plugins::hashes::Hashes;
use crate::plugins::library::Library;
use crate::plugins::manifest::{Manifest, PluginEntry, Source};
use crate::report::error::{Error, Problem};
use passhost_lang::metadata::PluginMeta;
use std::collections::HashSet;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;

/// Maximum number of cargo settings that are listed by name.
const MOST_SETTINGS: usize = 12;

/// The use of the lockfile.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Mode {
    /// Not used: the lockfile is not read, and no file is hashed.
    #[default]
    Off,
    /// Changed plugins are accepted and reported, and the file is updated.
    Update,
    /// Like `Update`, but every file is hashed, even if its hash is cached.
    Renew,
    /// Plugins that differ from the file are refused. Every file is hashed.
    Locked,
}

/// Compares plugins with the lockfile while an engine lists them.
#[derive(Debug)]
pub struct Keeper {
    mode: Mode,
    path: PathBuf,
    /// Content of the file; `None` if it does not exist.
    old: Option<Entries>,
    new: Entries,
    hashes: Hashes,
    survey: Survey,
    /// True if cargo may run.
    builds: bool,
    /// Crates that changed since their libraries were built.
    stale: Vec<PathBuf>,
    /// Libraries that are not in the file, or differ from it.
    unknown: HashSet<PathBuf>,
    /// Hash of the plugin that is being listed.
    pending: Option<String>,
    /// Advice on plugins that differ; by default, to run `passhost lock`.
    remedy: Option<&'static str>,
}

impl Keeper {
    /// Creates a keeper that does nothing.
    pub fn off() -> Keeper {
        let (path, old, new, hashes) = (PathBuf::new(), None, Entries::new(), Hashes::fresh());
        let (survey, builds, stale) = (Survey::default(), true, Vec::new());
        Keeper {
            mode: Mode::Off,
            path,
            old,
            new,
            hashes,
            survey,
            builds,
            stale,
            unknown: HashSet::new(),
            pending: None,
            remedy: None,
        }
    }

    /// Reads the lockfile of a manifest.
    ///
    /// # Errors
    /// If it is damaged; with [`Mode::Locked`] also if it is missing, or contains plugins that the manifest does not contain.
    pub fn open(manifest: &Manifest, mode: Mode) -> Result<Keeper, Error> {
        if mode == Mode::Off {
            return Ok(Keeper::off());
        }
        let path = path_of(&manifest.path);
        let old = load(&path)?;
        let remembers = mode == Mode::Update;
        let hashes = if remembers { Hashes::remembered(&manifest.path) } else { Hashes::fresh() };
        let keeper = Keeper { mode, path, old, hashes, ..Keeper::off() };
        if mode == Mode::Locked {
            keeper.check_entries(manifest)?;
        }
        Ok(keeper)
    }

    /// Creates a keeper that refuses plugins that differ from the given text of a lockfile, from the file `path`. `remedy` is the advice in
    /// the error.
    ///
    /// # Errors
    /// If the text is damaged, or contains plugins that the manifest does not contain.
    pub fn locked_to(manifest: &Manifest, (path, text): (&Path, &str), remedy: &'static str) -> Result<Keeper, Error> {
        let (old, remedy) = (Some(parse(path, text)?), Some(remedy));
        let keeper = Keeper { mode: Mode::Locked, path: path.to_path_buf(), old, remedy, ..Keeper::off() };
        keeper.check_entries(manifest).map(|()| keeper)
    }

    fn check_entries(&self, manifest: &Manifest) -> Result<(), Error> {
        let wrong = |message: String, help: &str| {
            let problem = Problem { message, span: None, help: help.to_string() };
            Err(Error::Lockfile { path: self.path.clone(), text: "".into(), problem })
        };
        let Some(old) = &self.old else {
            let help = "create it with `passhost lock`, review it, and keep it under version control";
            return wrong("not found, but --locked needs it".to_string(), help);
        };
        let listed: HashSet<&str> = manifest.plugins.iter().map(|entry| entry.from.as_str()).collect();
        match old.iter().find(|(from, _)| !listed.contains(from.as_str())) {
            Some((from, entry)) => wrong(
                format!(
                    "it contains plugin `{}` from `{from}`, which is not in {}",
                    entry.name,
                    manifest.path.display()
                ),
                "list the plugin again, or update the lockfile with `passhost lock`",
            ),
            None => Ok(()),
        }
    }

    /// Disables building crates. A crate that changed since it was built is then in [`Compared::stale`], and a crate that was never built
    /// is an error.
    pub fn builds_nothing(self) -> Keeper {
        Keeper { builds: false, ..self }
    }

    /// Reuses a recent inspection of plugin crates, unless the mode is [`Mode::Locked`], which requires its own inspection.
    pub(crate) fn seen(self, survey: Survey) -> Keeper {
        if self.mode == Mode::Locked { self } else { Keeper { survey, ..self } }
    }

    /// Returns the result, once all plugins are listed.
    pub(crate) fn compared(self) -> Compared {
        let Keeper { mode, path, old, new, hashes, stale, unknown, .. } = self;
        Compared { mode, path, old, new, hashes, stale, unknown, recorded: AtomicBool::new(false) }
    }

    /// Returns the libraries of crates, in order. Builds them if that is necessary and allowed.
    pub(crate) fn libraries(&mut self, folders: &[PathBuf], watcher: &dyn Watcher) -> Vec<Result<Found, Error>> {
        let quick = matches!(self.mode, Mode::Off | Mode::Update);
        let how = How { builds: self.builds, locked: self.mode == Mode::Locked, quick, watcher };
        let found = crates::libraries(folders, how, &mut self.look());
        let stale = |(folder, found): (&PathBuf, &Result<Found, Error>)| {
            found.as_ref().is_ok_and(|found| found.stale).then(|| folder.clone())
        };
        self.stale.extend(folders.iter().zip(&found).filter_map(stale));
        found
    }

    fn look(&mut self) -> Look<'_> {
        Look { survey: &mut self.survey, hashes: &mut self.hashes }
    }

    /// Opens a library. With [`Mode::Locked`], makes a private copy, so that the hashed file is the file that is loaded.
    ///
    /// # Errors
    /// If the file does not exist, or cannot be copied.
    pub(crate) fn open_library(&self, file: &Path) -> Result<Library, Error> {
        let opened = Library::open(file).map_err(|error| refuse(file, error.to_string(), error.help()))?;
        if self.mode != Mode::Locked {
            return Ok(opened);
        }
        let copy = opened.private_copy();
        copy.map_err(|error| refuse(file, format!("cannot be copied: {error}"), "free memory for a copy"))
    }

    /// Before a crate is built with [`Mode::Locked`], checks that its sources match the lockfile.
    ///
    /// # Errors
    /// If they do not match.
    pub(crate) fn before_build(&mut self, entry: &PluginEntry) -> Result<(), Error> {
        let Source::Crate(folder) = &entry.source else { return Ok(()) };
        if self.mode != Mode::Locked {
            return Ok(());
        }
        let pin = self.locked(entry, folder)?.pin.clone();
        if let Some(Uncovered { what, help }) = self.look().uncovered(folder)?.first() {
            return Err(refuse(folder, format!("cannot be locked: {what}, which lockfiles do not cover"), help));
        }
        let Pin::Crate(locked) = pin else { return Err(self.differs(folder, "it", "a crate", "a built library")) };
        let found = self.look().sources(folder)?;
        if found != locked.sources {
            let mut what = "the digest of its sources, manifests and Cargo.lock".to_string();
            let settings = self.look().setting_names(folder);
            if !settings.is_empty() {
                let more = if settings.len() > MOST_SETTINGS { ", ..." } else { "" };
                what.push_str(&format!(" (with {}{more})", settings[..settings.len().min(MOST_SETTINGS)].join(", ")));
            }
            return Err(self.differs(folder, &what, &found, &locked.sources));
        }
        let inputs = self.look().inputs(folder, locked.inputs.keys())?;
        let env = crates::values(locked.env.keys());
        self.same_reads(folder, &CratePin { sources: found, inputs, env }, &locked)
    }

    /// Before the metadata of a library is read with [`Mode::Locked`], checks that the library matches the lockfile.
    ///
    /// # Errors
    /// If it does not match, or cannot be read.
    pub(crate) fn before_metadata(&mut self, entry: &PluginEntry, library: &Library) -> Result<(), Error> {
        self.pending = None;
        if self.mode == Mode::Off || matches!(entry.source, Source::Crate(_)) {
            return Ok(());
        }
        let file = library.shown();
        let found = match library.sha256() {
            Some(hash) => hash.to_string(),
            None => self.hashes.sha256_of(library.file()).map_err(|error| cannot_be_hashed(file, &error))?,
        };
        if self.mode == Mode::Locked {
            let Pin::Built(hashes) = &self.locked(entry, file)?.pin else {
                return Err(self.differs(file, "it", "a built library", "a crate"));
            };
            match hashes.get(TRIPLE) {
                Some(locked) if *locked == found => {}
                Some(locked) => return Err(self.differs(file, "its sha256", &found, locked)),
                None => {
                    let message = format!("its sha256 for {TRIPLE} is missing in {}", self.path.display());
                    let help = "run `passhost lock` on this system as well; it adds the entry and keeps the others";
                    return Err(refuse(file, message, self.remedy.unwrap_or(help)));
                }
            }
        }
        self.pending = Some(found);
        Ok(())
    }

    /// Adds a plugin after its metadata was read and accepted.
    ///
    /// # Errors
    /// With [`Mode::Locked`], if the metadata differs from the lockfile; otherwise if sources cannot be read.
    pub(crate) fn listed(
        &mut self,
        entry: &PluginEntry,
        file: &Path,
        meta: &PluginMeta,
        digests: Option<CratePin>,
    ) -> Result<(), Error> {
        match self.mode {
            Mode::Off => Ok(()),
            Mode::Locked => {
                let locked = self.locked(entry, file)?;
                let pairs = [
                    ("its name", meta.name.clone(), locked.name.clone()),
                    ("its version", meta.version.to_string(), locked.version.to_string()),
                    ("its plugin API", meta.api.to_string(), locked.api.to_string()),
                ];
                if let Some((what, found, locked)) = pairs.iter().find(|(_, found, locked)| found != locked) {
                    return Err(self.differs(file, what, found, locked));
                }
                match (&entry.source, digests) {
                    (Source::Crate(folder), Some(found)) => match &locked.pin {
                        Pin::Crate(locked) => {
                            // Inputs that are read only by builds on another system were compared before this build.
                            let mut locked = locked.clone();
                            locked.inputs.retain(|name, _| found.inputs.contains_key(name));
                            self.same_reads(folder, &found, &locked)
                        }
                        Pin::Built(_) => Ok(()),
                    },
                    _ => Ok(()),
                }
            }
            Mode::Update | Mode::Renew => {
                let from = entry.from.clone();
                let pin = match (digests, self.pending.take()) {
                    (Some(found), _) => Pin::Crate(self.with_other_variables(&from, found)),
                    (_, Some(hash)) => self.with_other_targets(&from, meta, hash),
                    (_, None) => return Ok(()),
                };
                let (name, version, api) = (meta.name.clone(), meta.version.clone(), meta.api.clone());
                if let Pin::Built(hashes) = &pin
                    && hashes.get(TRIPLE) != self.old_hash(&from)
                {
                    self.unknown.insert(file.to_path_buf());
                }
                self.new.insert(from, Entry { name, version, api, pin });
                Ok(())
            }
        }
    }

    /// In [`Mode::Locked`], checks that the files and variables that a build read, including those outside the sources, match the lockfile.
    fn same_reads(&self, folder: &Path, found: &CratePin, locked: &CratePin) -> Result<(), Error> {
        let [inputs, env] = other_reads(locked, found);
        match inputs.into_iter().chain(env).next() {
            Some(Read { what, old, new }) => Err(self.differs(folder, &what, new, old)),
            None => Ok(()),
        }
    }

    /// Adds the hash of a library for this target to the hashes for other targets, if they have the same version.
    fn with_other_targets(&self, from: &str, meta: &PluginMeta, hash: String) -> Pin {
        let old = self.old.as_ref().and_then(|old| old.get(from));
        let same = |entry: &&Entry| (&entry.name, &entry.version, &entry.api) == (&meta.name, &meta.version, &meta.api);
        let mut hashes = match old.filter(same).map(|entry| &entry.pin) {
            Some(Pin::Built(hashes)) => hashes.clone(),
            _ => Default::default(),
        };
        hashes.insert(TRIPLE.to_string(), hash);
        Pin::Built(hashes)
    }

    /// Keeps variables that are read only by builds on other systems, if the sources are the same.
    fn with_other_variables(&self, from: &str, mut found: CratePin) -> CratePin {
        let old = self.old.as_ref().and_then(|old| old.get(from)).map(|entry| &entry.pin);
        if let Some(Pin::Crate(old)) = old
            && old.sources == found.sources
        {
            let unset = crates::values(old.env.keys()).into_iter().filter(|(_, value)| value == UNSET);
            for (name, value) in unset {
                found.env.entry(name).or_insert(value);
            }
        }
        found
    }

    fn locked(&self, entry: &PluginEntry, file: &Path) -> Result<&Entry, Error> {
        let found = self.old.as_ref().and_then(|old| old.get(&entry.from));
        found.ok_or_else(|| {
            let given = if self.remedy.is_none() { ", and --locked was given" } else { "" };
            let message = format!("is not in {}{given}", self.path.display());
            refuse(file, message, self.remedy.unwrap_or("run `passhost lock` to add it, and review the changes"))
        })
    }

    fn differs(&self, file: &Path, what: &str, found: &str, locked: &str) -> Error {
        let lock = self.path.display();
        let message = format!("differs from the plugin in {lock}: {what} is {found}, but {locked} in {lock}");
        let help = "restore the locked plugin, or accept this one with `passhost lock`";
        refuse(file, message, self.remedy.unwrap_or(help))
    }

    fn old_hash(&self, from: &str) -> Option<&String> {
        match &self.old.as_ref()?.get(from)?.pin {
            Pin::Built(hashes) => hashes.get(TRIPLE),
            Pin::Crate(_) => None,
        }
    }
}

fn refuse(path: &Path, message: String, help: &str) -> Error {
    Error::Plugin { path: path.to_path_buf(), message, help: help.to_string() }
}

fn cannot_be_hashed(path: &Path, error: &io::Error) -> Error {
    refuse(path, format!("cannot be hashed: {error}"), "make it readable")
}
