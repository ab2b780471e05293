//! The command `lock`, and what `run` says of the lockfile.

use super::manifest_path;
use super::messages::Messages;
use crate::engine::Engine;
use crate::error::{Error, exit};
use crate::lock::{Keeper, Mode};
use crate::manifest::Manifest;
use crate::output::to_stdout;
use crate::report::Report;
use std::path::PathBuf;

/// Lists all plugins and writes the lockfile. If one is refused, the file stays as it was.
pub(super) fn lock(manifest: Option<&PathBuf>) -> Result<u8, Error> {
    let manifest = Manifest::load(&manifest_path(manifest)?)?;
    let mut keeper = Keeper::open(&manifest, Mode::Renew)?;
    Engine::with_lock(&manifest, &mut keeper)?;
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

/// Tells which plugins changed, and brings the lockfile up to date. A file that cannot be written stops no run.
pub(super) fn keep(keeper: &Keeper, messages: Messages) {
    let saved = keeper.save();
    let lock = keeper.path().display();
    for change in keeper.changes() {
        let title = format!("plugin `{}` is not the one of {lock} any more: {}", change.name, change.what.join(", "));
        let help = match saved {
            Ok(_) => "it was accepted, and the lockfile brought up to date; --locked refuses plugins that changed",
            Err(_) => "it was accepted; --locked refuses plugins that changed",
        };
        messages.report(&Report::remark(title).help(help));
    }
    if let Err(error) = saved {
        let title = format!("lockfile {lock} cannot be written: {error}");
        messages.report(&Report::warning(title).help("make it and its folder writable, or use --locked"));
    }
}
