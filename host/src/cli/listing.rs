//! Finds the manifest, lists its plugins, and reports which of them changed.

use super::arguments::Plugins;
use super::messages::Messages;
use crate::engine::Engine;
use crate::plugins::crates::Watcher;
use crate::plugins::lock::{Compared, Keeper, Mode};
use crate::plugins::manifest::{self, Manifest};
use crate::report::error::{Error, Problem};
use crate::report::{Grade, Report};
use std::path::PathBuf;

/// Returns the given path of the manifest; by default, the path of the manifest found from the current folder.
pub(super) fn manifest_path(arg: Option<&PathBuf>) -> Result<PathBuf, Error> {
    let path = match arg {
        Some(path) => path.clone(),
        None => manifest::find().ok_or_else(|| Error::Manifest {
            path: PathBuf::from(manifest::FILE_NAME),
            text: "".into(),
            problems: vec![Problem {
                message: "not found in this folder, any folder above it, or the folder of the program".to_string(),
                span: None,
                help: "give one with --manifest FILE, such as passes.toml in a clone of passhost, or create one as shown in the README".to_string(),
            }],
        })?,
    };
    Ok(path)
}

/// Reads the manifest and opens its lockfile, in the mode `Locked` with `--locked`, otherwise in the mode `usually`.
pub(super) fn load(arg: &Plugins, usually: Mode) -> Result<(Manifest, Keeper), Error> {
    let manifest = Manifest::load(&manifest_path(arg.manifest.manifest.as_ref())?)?;
    let keeper = Keeper::open(&manifest, if arg.locked { Mode::Locked } else { usually })?;
    Ok((manifest, keeper))
}

/// Lists the plugins from their metadata. Builds nothing.
pub(super) fn listed(arg: &Plugins, messages: Messages) -> Result<Engine, Error> {
    let (manifest, keeper) = load(arg, Mode::Off)?;
    listed_of(&manifest, keeper.builds_nothing(), &(), messages)
}

/// Applies `look` to the plugins that can be listed, and warns of the others, such as crates that are not built. With
/// `--locked`, a plugin that cannot be listed is an error.
pub(super) fn partly(
    arg: &Plugins,
    messages: Messages,
    look: impl FnOnce(&Engine) -> Result<String, Error>,
) -> Result<String, Error> {
    let (manifest, keeper) = load(arg, Mode::Off)?;
    let (engine, errors) = Engine::list(&manifest, keeper.builds_nothing(), &());
    tell_stale(engine.lock(), messages);
    if arg.locked || engine.registry().owners().next().is_none() {
        return Error::unless_any(errors, Ok(())).and_then(|()| look(&engine));
    }
    match look(&engine) {
        Ok(found) => {
            let reports: Vec<Report> = errors.iter().flat_map(Error::reports).collect();
            let unread = reports.into_iter().map(|report| Report { grade: Grade::Warning, ..report });
            messages.reports(unread, "warnings");
            Ok(found)
        }
        // The missing item may belong to a plugin that cannot be listed.
        Err(error) => Error::unless_any(errors.into_iter().chain([error]), Ok(String::new())),
    }
}

/// Lists the plugins of a manifest from their metadata, with the given lockfile mode.
pub(super) fn listed_of(
    manifest: &Manifest,
    keeper: Keeper,
    watcher: &dyn Watcher,
    messages: Messages,
) -> Result<Engine, Error> {
    let (engine, errors) = Engine::list(manifest, keeper, watcher);
    tell_stale(engine.lock(), messages);
    Error::unless_any(errors, Ok(engine))
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
        let help = "the lockfile is updated once the plugin has been opened; use --locked to refuse changed plugins";
        messages.report(&Report::remark(title).help(help));
    }
}

/// Warns of crates that are newer than their libraries. Called by commands that build nothing.
pub(super) fn tell_stale(lock: &Compared, messages: Messages) {
    for folder in lock.stale() {
        let title = format!("plugin crate {} changed since its library was built", folder.display());
        let help = "this command does not build plugins, and shows the old library; run `passhost build` to rebuild it";
        messages.report(&Report::warning(title).help(help));
    }
}
