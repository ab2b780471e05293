//! The differences between all plugins and the lockfile, and the updated lockfile.

use super::{CratePin, Entries, Entry, Mode, Pin, UNSET, write};
use crate::files::{follow, replace};
use crate::plugins::TRIPLE;
use crate::plugins::hashes::Hashes;
use passhost_lang::names::visible::visible_line;
use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::io;
use std::path::{Component, Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};

/// Maximum number of changed files and variables of a crate that are listed by name.
const SHOWN: usize = 4;

/// A plugin that differs from the lockfile.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Change {
    /// Name of the plugin.
    pub name: String,
    /// The differences, old and new.
    pub what: Vec<String>,
    /// True if only the sources of a crate in or below the manifest's folder differ: its author edited them, and passhost built it from them.
    pub edited: bool,
}

/// The result of comparing the plugins of an engine with the lockfile. With [`Mode::Off`], it is empty.
#[derive(Debug, Default)]
pub struct Compared {
    pub(super) mode: Mode,
    pub(super) path: PathBuf,
    /// Content of the file; `None` if it does not exist.
    pub(super) old: Option<Entries>,
    pub(super) new: Entries,
    pub(super) hashes: Hashes,
    pub(super) stale: Vec<PathBuf>,
    /// Libraries that are not in the file, or differ from it.
    pub(super) unknown: HashSet<PathBuf>,
    pub(super) recorded: AtomicBool,
}

impl Compared {
    /// Returns the path of the lockfile; empty with [`Mode::Off`].
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Returns the current plugins, or, if changed plugins are refused, those of the lockfile.
    fn entries(&self) -> &Entries {
        match (self.mode, &self.old) {
            (Mode::Locked, Some(old)) => old,
            _ => &self.new,
        }
    }

    /// Returns the text of the updated lockfile.
    pub fn text(&self) -> String {
        write(self.entries())
    }

    /// Returns the hash that pins a plugin: the sha256 of its library, or the digest of its sources.
    pub fn hash_of(&self, plugin: &str) -> Option<&str> {
        let entry = self.entries().values().find(|entry| entry.name == plugin)?;
        match &entry.pin {
            Pin::Built(hashes) => hashes.get(TRIPLE).map(String::as_str),
            Pin::Crate(pin) => Some(&pin.sources),
        }
    }

    /// Returns the number of plugins in the updated lockfile.
    pub fn len(&self) -> usize {
        self.new.len()
    }

    /// Returns true if the list of plugins is empty.
    pub fn is_empty(&self) -> bool {
        self.new.is_empty()
    }

    /// Returns the crates that changed since their libraries were built. The old libraries are used, because building is disabled.
    pub fn stale(&self) -> &[PathBuf] {
        &self.stale
    }

    /// Returns true if a library is not in the lockfile, or differs from it.
    pub fn is_unknown(&self, library: &Path) -> bool {
        self.unknown.contains(library)
    }

    /// Returns the plugins that differ from the lockfile. New plugins are not included.
    pub fn changes(&self) -> Vec<Change> {
        let old = |from: &String| self.old.as_ref().and_then(|old| old.get(from));
        let change = |(from, new): (&String, &Entry)| {
            let what = differences(old(from)?, new);
            let edited = what.len() == 1 && is_within(from) && sources_differ(old(from)?, new);
            (!what.is_empty()).then(|| Change { name: new.name.clone(), what, edited })
        };
        self.new.iter().filter_map(change).collect()
    }

    /// Updates the lockfile, and saves cached hashes. Returns true if the lockfile was written. Only the first call has an effect.
    ///
    /// # Errors
    /// If it cannot be written.
    pub fn record(&self) -> io::Result<bool> {
        if self.recorded.swap(true, Ordering::Relaxed) {
            return Ok(false);
        }
        self.hashes.save();
        if !matches!(self.mode, Mode::Update | Mode::Renew) || self.old.as_ref() == Some(&self.new) {
            return Ok(false);
        }
        let path = follow(&self.path)?;
        // Replacing the file would ignore its permissions.
        if std::fs::metadata(&path).is_ok_and(|found| found.permissions().readonly()) {
            return Err(io::Error::new(io::ErrorKind::PermissionDenied, "the file is read-only"));
        }
        replace(&path, write(&self.new))?;
        tracing::info!(path = %self.path.display(), "lockfile written");
        Ok(true)
    }
}

/// Returns the plugins that differ between two lockfiles, by name, each with its differences, old and new.
pub(crate) fn changed(old: &Entries, new: &Entries) -> Vec<(String, Vec<String>)> {
    let of = |entries: &Entries, name: &String| entries.values().find(|entry| entry.name == *name).cloned();
    let names: BTreeSet<&String> = old.values().chain(new.values()).map(|entry| &entry.name).collect();
    let change = |name: &String| {
        let what = match (of(old, name), of(new, name)) {
            (Some(old), Some(new)) => differences(&old, &new),
            (None, _) => vec!["is new".to_string()],
            (_, None) => vec!["is missing".to_string()],
        };
        (!what.is_empty()).then(|| (name.clone(), what))
    };
    names.into_iter().filter_map(change).collect()
}

/// Returns true if an entry is for a crate in or below the manifest's folder.
fn is_within(from: &str) -> bool {
    let folder = from.strip_prefix("crate ").map(Path::new);
    folder
        .is_some_and(|folder| folder.components().all(|part| matches!(part, Component::Normal(_) | Component::CurDir)))
}

fn sources_differ(old: &Entry, new: &Entry) -> bool {
    matches!((&old.pin, &new.pin), (Pin::Crate(old), Pin::Crate(new)) if old.sources != new.sources)
}

/// A changed file or variable that a build read.
pub(super) struct Read<'a> {
    pub(super) what: String,
    pub(super) old: &'a str,
    pub(super) new: &'a str,
}

/// Returns the changed inputs of a build other than its sources: files, and environment variables.
pub(super) fn other_reads<'a>(old: &'a CratePin, new: &'a CratePin) -> [Vec<Read<'a>>; 2] {
    type Digests = BTreeMap<String, String>;
    let changed = |old: &'a Digests, new: &'a Digests, none: &'static str, say: fn(&str) -> String| {
        let names: BTreeSet<&String> = old.keys().chain(new.keys()).collect();
        let of = |digests: &'a Digests, name: &String| digests.get(name).map_or(none, String::as_str);
        let read = |name: &String| Read { what: say(name), old: of(old, name), new: of(new, name) };
        names.into_iter().map(read).filter(|read| read.old != read.new).collect()
    };
    let file = |name: &str| match name.strip_suffix('/') {
        Some(folder) => format!("the digest of the names in {}, which its build reads,", visible_line(folder)),
        None => format!("the sha256 of {}, which its build reads,", visible_line(name)),
    };
    let variable = |name: &str| format!("the sha256 of the variable {}, which its build reads,", visible_line(name));
    // A variable that is read only by builds on another system has no effect while it is unset.
    [changed(&old.inputs, &new.inputs, "none", file), changed(&old.env, &new.env, UNSET, variable)]
}

/// Returns the differences, old and new.
fn differences(old: &Entry, new: &Entry) -> Vec<String> {
    let mut out = Vec::new();
    let mut compare = |what: &str, old: &str, new: &str| {
        if old != new {
            out.push(format!("{what} {old} -> {new}"));
        }
    };
    compare("name", &old.name, &new.name);
    compare("version", &old.version.to_string(), &new.version.to_string());
    compare("plugin API", &old.api.to_string(), &new.api.to_string());
    match (&old.pin, &new.pin) {
        (Pin::Crate(old), Pin::Crate(new)) => {
            compare("digest of its sources", &old.sources, &new.sources);
            let reads = other_reads(old, new);
            let names = reads.iter().flatten().take(SHOWN).map(|read| read.what.trim_end_matches(',').to_string());
            out.extend(names.map(|what| what + " changed"));
            let more = reads.iter().map(Vec::len).sum::<usize>().saturating_sub(SHOWN);
            out.extend((more > 0).then(|| format!("and {more} more")));
        }
        (Pin::Built(old), Pin::Built(new)) => {
            // Hashes are compared only if the target is the same; a new target is not a change.
            if let Some((old, new)) = old.get(TRIPLE).zip(new.get(TRIPLE)) {
                compare("sha256", old, new);
            }
        }
        (Pin::Crate(_), Pin::Built(_)) => compare("kind", "crate", "built library"),
        (Pin::Built(_), Pin::Crate(_)) => compare("kind", "built library", "crate"),
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use semver::Version;

    fn entry(change: impl FnOnce(&mut CratePin)) -> Entry {
        let mut pin = CratePin { sources: "a".to_string(), ..CratePin::default() };
        change(&mut pin);
        Entry {
            name: "acme".to_string(),
            version: Version::new(1, 0, 0),
            api: Version::new(0, 1, 0),
            pin: Pin::Crate(pin),
        }
    }

    /// Returns the differences between the lockfile's entry for a plugin and `new`.
    fn changes(from: &str, new: Entry) -> Vec<Change> {
        let entries = |entry| Entries::from([(from.to_string(), entry)]);
        Compared { old: Some(entries(entry(|_| ()))), new: entries(new), ..Compared::default() }.changes()
    }

    #[test]
    fn what_an_author_edits_is_told_apart() {
        let sources = |pin: &mut CratePin| pin.sources = "b".to_string();
        let edited = |from: &str, new: Entry| changes(from, new).iter().map(|change| change.edited).collect::<Vec<_>>();
        assert_eq!(edited("crate .", entry(|_| ())), Vec::<bool>::new());
        assert_eq!(edited("crate .", entry(sources)), [true]);
        assert_eq!(edited("crate plugins/mine", entry(sources)), [true]);
        // Crates outside of the folder, and any other differences.
        assert_eq!(edited("crate ../relax-ops", entry(sources)), [false]);
        assert_eq!(edited("crate /opt/relax-ops", entry(sources)), [false]);
        let more = entry(|pin| {
            sources(pin);
            pin.env.insert("HOME".to_string(), "c".to_string());
        });
        assert_eq!(edited("crate .", more), [false]);
        assert_eq!(
            edited("crate .", entry(|pin| drop(pin.inputs.insert("../x".to_string(), "c".to_string())))),
            [false]
        );
        assert_eq!(edited("crate .", Entry { version: Version::new(2, 0, 0), ..entry(|_| ()) }), [false]);
    }
}
