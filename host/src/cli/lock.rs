//! The commands `lock` and `build`, and the messages of other commands about the lockfile.

use super::arguments::Plugins;
use super::building::Building;
use super::manifest_path;
use super::messages::Messages;
use crate::engine::Engine;
use crate::files::to_stdout;
use crate::plugins::loader::Listed;
use crate::plugins::lock::{Compared, Mode};
use crate::plugins::manifest::Manifest;
use crate::report::Report;
use crate::report::error::{Error, exit};
use crate::workers;
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

/// Reports which plugins changed, before any of their code runs. Edited sources of a crate beside the manifest are only
/// logged, because authors edit such sources all the time.
pub(super) fn tell(lock: &Compared, messages: Messages) {
    let path = lock.path().display();
    let (edited, changes): (Vec<_>, Vec<_>) = lock.changes().into_iter().partition(|change| change.edited);
    for change in edited {
        tracing::info!(plugin = %change.name, "the sources differ from {path}, which is now updated");
    }
    for change in changes {
        let title = format!("plugin `{}` differs from {path}: {}", change.name, change.what.join(", "));
        let help = "the lockfile is updated after the plugin was opened; use --locked to refuse changed plugins";
        messages.report(&Report::remark(title).help(help));
    }
}

/// Warns of crates that are newer than their libraries. Called by commands that build nothing.
pub(super) fn tell_stale(lock: &Compared, messages: Messages) {
    for folder in lock.stale() {
        let title = format!("plugin crate {} changed since its library was built", folder.display());
        let help = "this command does not build, and shows the old library; run `passhost build` to build the new one";
        messages.report(&Report::warning(title).help(help));
    }
}

/// Builds the missing or stale crates of the manifest, without running any of their passes.
pub(super) fn build(plugins: &Plugins, messages: Messages) -> Result<u8, Error> {
    let (manifest, keeper) = super::load(plugins, Mode::Off)?;
    let engine = super::listed_of(&manifest, keeper, &Building::new(messages), messages)?;
    let mut out = String::new();
    for owner in engine.registry().owners().map(|(_, owner)| owner) {
        let file = owner.file.as_ref().map_or(String::new(), |file| format!(" ({})", file.display()));
        out.push_str(&format!("ready  {} {}{file}\n", owner.name, owner.version));
    }
    to_stdout(&out).map(|()| exit::DONE)
}

/// Opens a library that is not in the lockfile in a process of its own, because a damaged library or a faulty
/// constructor would end this process without a message.
///
/// # Errors
/// If opening the library ends that process.
pub(super) fn try_out(listed: &Listed) -> Result<(), Error> {
    match workers::try_out(listed, None) {
        // A missing worker is not the plugin's fault.
        Err(Error::Request { message, .. }) => {
            tracing::warn!(%message, file = %listed.file.display(), "not tested in its own process");
            Ok(())
        }
        tried => tried,
    }
}
