//! Warns of limits and grants for plugin processes that have no effect, because authors rely on them.

use crate::cli::arguments::IsolateArgs;
use crate::plugins::manifest::{Manifest, PluginEntry};
use crate::report::Report;
use passhost_lang::names::listed;
use std::path::PathBuf;
use std::sync::Arc;

/// Returns a warning for each limit or grant without effect.
pub(super) fn without_effect(manifest: &Manifest, isolate: &IsolateArgs) -> Vec<Report> {
    let is_apart = |entry: &&PluginEntry| isolate.isolate || entry.isolate;
    let given = isolate.limits_given();
    let of_options = (!given.is_empty() && !manifest.plugins.iter().any(|entry| is_apart(&entry))).then(|| {
        Report::warning(format!("{} has no effect, because all plugins run in the process of passhost", listed(&given)))
            .help("add --isolate, or add `isolate = true` to a plugin in the manifest")
    });
    let of_entry = |entry| if is_apart(&entry) { missing(entry) } else { ignored(entry) };
    let of_entries = manifest.plugins.iter().flat_map(|entry| {
        let here = |report: Report| {
            report.at(manifest.path.display().to_string(), Arc::clone(&manifest.text), entry.span.clone(), "")
        };
        of_entry(entry).into_iter().map(here)
    });
    of_options.into_iter().chain(of_entries).collect()
}

/// Warns of keys of a plugin that runs in the process of passhost.
fn ignored(entry: &PluginEntry) -> Vec<Report> {
    let keys: Vec<String> = entry.limits.given().into_iter().map(|key| format!("`{key}`")).collect();
    let keys: Vec<&str> = keys.iter().map(String::as_str).collect();
    if keys.is_empty() {
        return Vec::new();
    }
    let title = format!("{} has no effect, because this plugin does not run in its own process", listed(&keys));
    vec![Report::warning(title).help("add `isolate = true` to the plugin, or --isolate to the command")]
}

/// Warns of granted paths that do not exist, because only files that exist when a process starts can be granted to it.
fn missing(entry: &PluginEntry) -> Vec<Report> {
    let paths = |key, paths: &[PathBuf]| -> Vec<Report> {
        let missing = paths.iter().filter(|path| !path.exists());
        let title = |path: &PathBuf| format!("`{key}` grants access to {}, which does not exist", path.display());
        let help = "create it before the run, or correct the path, which is relative to the folder of the manifest";
        missing.map(|path| Report::warning(title(path)).help(help)).collect()
    };
    [paths("read", &entry.limits.read), paths("write", &entry.limits.write)].concat()
}
