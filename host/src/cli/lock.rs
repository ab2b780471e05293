//! The commands `lock` and `build`.

use super::arguments::Plugins;
use super::building::Building;
use super::listing::{listed_of, load, manifest_path};
use super::messages::Messages;
use crate::engine::Engine;
use crate::files::to_stdout;
use crate::plugins::lock::Mode;
use crate::plugins::manifest::Manifest;
use crate::report::error::{Error, exit};
use passhost_lang::names::counted;
use std::path::PathBuf;

/// Lists all plugins and writes the lockfile. If a plugin is refused, the lockfile does not change.
pub(super) fn lock(manifest: Option<&PathBuf>, messages: Messages) -> Result<u8, Error> {
    let manifest = Manifest::load(&manifest_path(manifest)?)?;
    let (engine, written) = Engine::write_lock(&manifest, &Building::new(messages))?;
    let lock = engine.lock();
    let mut out = String::new();
    for change in lock.changes() {
        out.push_str(&format!("{}: {}\n", change.name, change.what.join(", ")));
    }
    let plugins = counted(lock.len(), "plugin");
    let end = if written { "written" } else { "is up to date" };
    out.push_str(&format!("{} {end}: {plugins}\n", lock.path().display()));
    to_stdout(&out).map(|()| exit::DONE)
}

/// Builds the missing or stale crates of the manifest, without running any of their passes.
pub(super) fn build(plugins: &Plugins, messages: Messages) -> Result<u8, Error> {
    let (manifest, keeper) = load(plugins, Mode::Off)?;
    let engine = listed_of(&manifest, keeper, &Building::new(messages), messages)?;
    let mut out = String::new();
    for owner in engine.registry().owners().map(|(_, owner)| owner) {
        let file = owner.file.as_ref().map_or(String::new(), |file| format!(" ({})", file.display()));
        out.push_str(&format!("ready  {} {}{file}\n", owner.name, owner.version));
    }
    to_stdout(&out).map(|()| exit::DONE)
}
