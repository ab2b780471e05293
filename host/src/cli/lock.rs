//! The command `lock`, and what `run` says of the lockfile.

use super::building::Building;
use super::messages::Messages;
use super::{Plugins, manifest_path, probe};
use crate::engine::Engine;
use crate::files::to_stdout;
use crate::plugins::lock::{Keeper, Mode};
use crate::plugins::manifest::Manifest;
use crate::report::Report;
use crate::report::error::{Error, exit};
use registry::Plan;
use std::path::PathBuf;

/// Lists all plugins and writes the lockfile. If one is refused, the file stays as it was.
pub(super) fn lock(manifest: Option<&PathBuf>, messages: Messages) -> Result<u8, Error> {
    let manifest = Manifest::load(&manifest_path(manifest)?)?;
    let mut keeper = Keeper::open(&manifest, Mode::Renew)?;
    Engine::with_lock(&manifest, &mut keeper, &Building::new(messages))?;
    let path = keeper.path().to_path_buf();
    let written = keeper.save().map_err(|error| Error::Write { path: path.clone(), message: error.to_string() })?;
    let mut out = String::new();
    for change in keeper.changes() {
        out.push_str(&format!("{}: {}\n", change.name, change.what.join(", ")));
    }
    let plugins = format!("{} plugin{}", keeper.len(), if keeper.len() == 1 { "" } else { "s" });
    let end = if written { "written" } else { "is up to date" };
    out.push_str(&format!("{} {end}: {plugins}\n", path.display()));
    to_stdout(&out).map(|()| exit::DONE)
}

/// Tells which plugins changed, before any of their code runs.
pub(super) fn tell(keeper: &Keeper, messages: Messages) {
    let lock = keeper.path().display();
    for change in keeper.changes() {
        let title = format!("plugin `{}` differs from {lock}: {}", change.name, change.what.join(", "));
        let help = "the lockfile is updated after the plugin was opened; --locked refuses changed plugins";
        messages.report(&Report::remark(title).help(help));
    }
}

/// Tells which crates are newer than their libraries, in a command that builds nothing.
pub(super) fn tell_stale(keeper: &Keeper, messages: Messages) {
    for folder in keeper.stale() {
        let title = format!("plugin crate {} changed since its library was built", folder.display());
        let help = "this command builds nothing and shows the old library; `passhost build` builds the new one";
        messages.report(&Report::warning(title).help(help));
    }
}

/// Builds the crates of the manifest that are missing or stale, without running any of their passes.
pub(super) fn build(plugins: &Plugins, messages: Messages) -> Result<u8, Error> {
    let (manifest, mut keeper) = super::load(plugins, Mode::Off)?;
    let engine = Engine::with_lock(&manifest, &mut keeper, &Building::new(messages))?;
    let mut out = String::new();
    for owner in engine.registry().owners().map(|(_, owner)| owner) {
        let file = owner.file.as_ref().map_or(String::new(), |file| format!(" ({})", file.display()));
        out.push_str(&format!("ready  {} {}{file}\n", owner.name, owner.version));
    }
    to_stdout(&out).map(|()| exit::DONE)
}

/// Opens the libraries of a plan that the lockfile does not know in processes of their own: one that is damaged in its
/// middle, or whose constructors go wrong, would kill this one without a word.
///
/// # Errors
/// The first that does not survive it.
pub(super) fn try_unknown(keeper: &Keeper, engine: &Engine, plan: &Plan) -> Result<(), Error> {
    let listed = engine.needed(plan).into_iter().filter_map(|owner| engine.listed(owner));
    for listed in listed.filter(|listed| keeper.is_unknown(&listed.file)) {
        match probe::open(listed) {
            Ok(opened) => opened?,
            Err(error) => tracing::warn!(%error, file = %listed.file.display(), "not tried in a process of its own"),
        }
    }
    Ok(())
}

/// Brings the lockfile up to date. A file that cannot be written stops no run.
pub(super) fn keep(keeper: &Keeper, messages: Messages) {
    if let Err(error) = keeper.save() {
        let title = format!("lockfile {} cannot be written: {error}", keeper.path().display());
        messages.report(&Report::warning(title).help("make it and its folder writable, or use --locked"));
    }
}
