//! Searches between two lockfiles for the changed plugin that causes a fault, or that changes the result.

use super::predicate::{Predicate, Until};
use super::prepared::{SearchArgs, folder, passes};
use super::reduce::write;
use crate::cli::run::reading::read_input;
use crate::engine::Engine;
use crate::files::{from_start, to_stdout};
use crate::plugins::lock::{self, Entries, Keeper};
use crate::plugins::manifest::{Manifest, Source};
use crate::report::error::Error;
use serde_json::json;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use toml::{Table, Value};

/// One of the two compared lockfiles, with its plugins.
struct Side {
    manifest: Manifest,
    /// The manifest as a TOML table.
    table: Table,
    entries: Entries,
    engine: Engine,
}

/// Advice for plugins that differ from their lockfile.
const OTHERS: &str = "restore the plugins of this lockfile next to its manifest";

impl Side {
    /// Reads a lockfile and the manifest beside it, and checks that its plugins match the lockfile.
    fn read(path: &Path) -> Result<Side, Error> {
        let Some(entries) = lock::load(path)? else {
            let message = format!("the lockfile {} does not exist", path.display());
            return Err(Error::Request { message, help: "give two lockfiles, each next to its manifest".to_string() });
        };
        let manifest = Manifest::load(&path.with_extension("toml"))?;
        let table = manifest.text.parse().map_err(|error: toml::de::Error| Error::Request {
            message: format!("{}: {error}", manifest.path.display()),
            help: "correct the manifest".to_string(),
        })?;
        let keeper = Keeper::locked_to(&manifest, (path, &lock::write(&entries)), OTHERS)?;
        let (engine, errors) = Engine::list(&manifest, keeper, &());
        Error::unless_any(errors, Ok(Side { manifest, table, entries, engine }))
    }

    /// Returns the entry of a plugin in the manifest, with absolute paths.
    fn entry(&self, plugin: &str) -> Option<Value> {
        let (from, _) = self.entries.iter().find(|(_, entry)| entry.name == plugin)?;
        let at = self.manifest.plugins.iter().position(|entry| entry.from == *from)?;
        let mut table = self.table.get("plugin")?.get(at)?.as_table()?.clone();
        let text = |path: PathBuf| Value::from(path.to_string_lossy().into_owned());
        match &self.manifest.plugins[at].source {
            Source::Path(path) => drop(table.insert("path".to_string(), text(from_start(path)))),
            Source::Crate(path) => drop(table.insert("crate".to_string(), text(from_start(path)))),
            Source::Name(_) => {
                let (owner, _) = self.engine.registry().owners().find(|(_, owner)| owner.name == plugin)?;
                table.remove("name");
                table.insert("path".to_string(), text(from_start(&self.engine.listed(owner)?.file)));
            }
        }
        for (key, paths) in
            [("read", &self.manifest.plugins[at].limits.read), ("write", &self.manifest.plugins[at].limits.write)]
        {
            if !paths.is_empty() {
                table.insert(key.to_string(), Value::Array(paths.iter().map(|path| text(from_start(path))).collect()));
            }
        }
        Some(Value::Table(table))
    }
}

/// The manifests to search: the new manifest, with some plugins replaced by their old versions.
struct Mixes<'m> {
    old: Side,
    new: Side,
    /// The plugins that differ between the lockfiles, each with its differences.
    changed: Vec<(String, Vec<String>)>,
    folder: &'m Path,
}

impl Mixes<'_> {
    /// Writes a manifest with the new versions of the first `n` changed plugins, and returns its path.
    fn manifest(&self, n: usize) -> Result<PathBuf, Error> {
        let of = |side: &Side| side.entries.values().map(|entry| entry.name.clone()).collect::<BTreeSet<_>>();
        let is_old = |name: &String| self.changed.iter().skip(n).any(|(changed, _)| changed == name);
        let names = &of(&self.new) | &of(&self.old);
        let entries = names.iter().filter_map(|name| (if is_old(name) { &self.old } else { &self.new }).entry(name));
        let mut table = self.new.table.clone();
        table.remove("search");
        table.insert("plugin".to_string(), Value::Array(entries.collect()));
        let path = self.folder.join(format!("mix{n}.toml"));
        write(&path, &table.to_string())?;
        Ok(path)
    }
}

/// Runs the search, and prints the plugin that it finds.
pub(super) fn between(
    args: &SearchArgs,
    until: Option<&Until>,
    (old, new): (&Path, &Path),
    as_json: bool,
) -> Result<(), Error> {
    let (old, new, folder) = (Side::read(old)?, Side::read(new)?, folder()?);
    let file = folder.path().join("first.py");
    write(&file, &new.engine.as_text(&read_input(&args.module)?)?)?;
    let changed = lock::changed(&old.entries, &new.entries);
    let mixes = Mixes { old, new, changed, folder: folder.path() };
    let run = |n: usize| Ok::<_, Error>(passes(args, mixes.manifest(n)?, folder.path()));
    let first = if until.is_none() { Some(run(0)?.result(&file)?) } else { None };
    let is_bad = |n: usize| match until {
        Some(until) => Predicate::new(until.clone(), run(n)?).holds(&file),
        None => Ok(Some(run(n)?.result(&file)?) != first),
    };
    let (mut good, mut bad) = (0, mixes.changed.len());
    if bad == 0 || is_bad(0)? || !is_bad(bad)? {
        let message = "--until gives the same answer with the plugins of both lockfiles".to_string();
        let help = "--until must hold with the new plugins, but not with the old plugins".to_string();
        return Err(Error::Unmet { message, help });
    }
    while bad - good > 1 {
        let middle = good + (bad - good) / 2;
        if is_bad(middle)? { bad = middle } else { good = middle }
    }
    let (plugin, changes) = &mixes.changed[bad - 1];
    to_stdout(&if as_json {
        format!("{}\n", json!({ "plugin": plugin, "changes": changes }))
    } else {
        format!("plugin    {plugin}\nchanged   {}\n", changes.join("\n          "))
    })
}
