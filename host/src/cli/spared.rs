//! What a run reads must not be what it writes: the result, the trace and dumped modules spare the manifest, the lockfile
//! and the plugins. Files are compared by what they are, so links do not hide them.

use super::{RunArgs, manifest_path};
use crate::engine::search;
use crate::files::{Output, follow, from_start};
use crate::plugins::crates::{Look, ReadByRuns, Survey};
use crate::plugins::hashes::Hashes;
use crate::plugins::lock::path_of;
use crate::plugins::manifest::{Manifest, Source};
use crate::report::error::Error;
use std::path::{Path, PathBuf};

/// A file that is read by a run: what it is, and where.
struct Spared {
    what: String,
    path: PathBuf,
    /// It is a folder in which each new file becomes a part of the plugin.
    folder: bool,
}

/// Refuses outputs that would overwrite an input of the run. Whoever reads an input reports what cannot be read.
///
/// # Errors
/// The first output that does.
pub(super) fn check(args: &RunArgs) -> Result<(), Error> {
    let outputs = outputs(args)?;
    if outputs.is_empty() && args.look.dump_folder().is_none() {
        return Ok(());
    }
    let Ok(manifest) = manifest_path(args.select.plugins.manifest.manifest.as_ref()) else { return Ok(()) };
    let spared = spared(args, &manifest);
    let (folders, files): (Vec<&Spared>, Vec<&Spared>) = spared.iter().partition(|spared| spared.folder);
    for (shown, output, option) in &outputs {
        if let Some(Spared { what, .. }) = files.iter().find(|spared| output.leads_to(&spared.path)) {
            let message = format!("is {what}, and would be overwritten; name another {option}");
            return Err(Error::Output { path: shown.clone(), message });
        }
    }
    check_folders(args, &outputs, &folders)
}

/// Refuses outputs that would become a part of a plugin.
fn check_folders(
    args: &RunArgs,
    outputs: &[(PathBuf, Output, &'static str)],
    folders: &[&Spared],
) -> Result<(), Error> {
    let files = outputs.iter().filter(|(_, output, _)| matches!(output, Output::File { .. }));
    let files = files.filter_map(|(shown, _, option)| Some((shown.as_path(), follow(shown).ok()?, *option)));
    let dumped = args.look.dump_folder().map(|folder| (folder, folder.join("000.py"), "folder with --dump"));
    for (shown, file, option) in files.chain(dumped) {
        let place = file.ancestors().skip(1).find_map(|above| match above.as_os_str().is_empty() {
            true => from_start(Path::new(".")).canonicalize().ok(),
            false => from_start(above).canonicalize().ok(),
        });
        let inside = |spared: &&&Spared| {
            let folder = spared.path.canonicalize().ok();
            folder.is_some_and(|folder| place.as_ref().is_some_and(|place| place.starts_with(folder)))
        };
        if let Some(Spared { what, .. }) = folders.iter().find(inside) {
            let message = format!("would become {what}; name another {option}");
            return Err(Error::Output { path: shown.to_path_buf(), message });
        }
    }
    Ok(())
}

/// Every place that the run may write to, with what it is called, and the option that names it.
fn outputs(args: &RunArgs) -> Result<Vec<(PathBuf, Output, &'static str)>, Error> {
    let mut out = Vec::new();
    if let Some(shown) = &args.output {
        let output = Output::look(shown)?;
        if let Some(failed) = output.failed().filter(|failed| failed.exists()) {
            out.push((failed.clone(), Output::look(&failed)?, "file with -o"));
        }
        out.push((shown.clone(), output, "file with -o"));
    }
    if let Some(shown) = args.look.trace_path() {
        out.push((shown.to_path_buf(), Output::look(shown)?, "file with --trace"));
    }
    if let Some(folder) = args.look.dump_folder() {
        // Files get names like `000_relax.Normalize.py`.
        let dumped = |path: &Path| {
            let name = path.file_name().unwrap_or_default().to_string_lossy();
            name.starts_with(|c: char| c.is_ascii_digit()) && name.ends_with(".py")
        };
        let found = std::fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path());
        // A place that cannot be written is reported when it is written.
        let found = found.filter(|path| dumped(path)).filter_map(|path| Some((Output::look(&path).ok()?, path)));
        out.extend(found.map(|(output, path)| (path, output, "folder with --dump")));
    }
    Ok(out)
}

/// What the run reads.
fn spared(args: &RunArgs, path: &Path) -> Vec<Spared> {
    let one = |what: &str, path: PathBuf| Spared { what: what.to_string(), path, folder: false };
    let mut out = vec![one("the manifest", path.to_path_buf()), one("the lockfile", path_of(path))];
    let pipeline = args.select.passes.as_deref().and_then(|passes| passes.strip_prefix('@'));
    out.extend(pipeline.map(|file| one("the file of the pipeline", PathBuf::from(file))));
    let Ok(manifest) = Manifest::load(path) else { return out };
    let (mut survey, mut hashes) = (Survey::default(), Hashes::fresh());
    let mut look = Look { survey: &mut survey, hashes: &mut hashes };
    for entry in &manifest.plugins {
        let what = format!("part of the plugin of `{}`", entry.from);
        match &entry.source {
            Source::Path(file) => out.push(one(&what, file.clone())),
            Source::Name(name) => out.extend(search(name, &manifest.search).ok().map(|file| one(&what, file))),
            Source::Crate(folder) => {
                let Ok(ReadByRuns { files, folders }) = look.read_by_runs(folder) else { continue };
                out.extend(files.into_iter().map(|file| one(&what, file)));
                out.extend(folders.into_iter().map(|path| Spared { what: what.clone(), path, folder: true }));
            }
        }
    }
    out
}
