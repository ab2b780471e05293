//! What a run reads must not be what it writes: the result, the trace and dumped modules spare the manifest, the lockfile
//! and the plugins. Files are compared by what they are, so links do not hide them.

use super::{RunArgs, manifest_path};
use crate::crates::{Look, Survey};
use crate::engine::search;
use crate::error::Error;
use crate::lock::hashes::Hashes;
use crate::lock::path_of;
use crate::manifest::{Manifest, Source};
use crate::output::Output;
use std::path::{Path, PathBuf};

/// A file that is read by a run: what it is, and where.
struct Spared {
    what: String,
    path: PathBuf,
}

/// Refuses outputs that would overwrite an input of the run. Whoever reads an input reports what cannot be read.
///
/// # Errors
/// The first output that does.
pub(super) fn check(args: &RunArgs) -> Result<(), Error> {
    let outputs = outputs(args)?;
    // A file that is not there can only become the lockfile, and that is soon looked up.
    let Ok(manifest) = manifest_path(args.select.plugins.manifest.manifest.as_ref()) else { return Ok(()) };
    let exist = outputs.iter().any(|(_, output, _)| output.exists());
    let spared = spared(args, &manifest, exist);
    for (shown, output, option) in &outputs {
        if let Some(Spared { what, .. }) = spared.iter().find(|spared| output.leads_to(&spared.path)) {
            let message = format!("is {what}, and would be overwritten; name another {option}");
            return Err(Error::Output { path: shown.clone(), message });
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

/// What the run reads. `all`: also files of plugins, which are there already.
fn spared(args: &RunArgs, path: &Path, all: bool) -> Vec<Spared> {
    let one = |what: &str, path: PathBuf| Spared { what: what.to_string(), path };
    let mut out = vec![one("the manifest", path.to_path_buf()), one("the lockfile", path_of(path))];
    let pipeline = args.select.passes.as_deref().and_then(|passes| passes.strip_prefix('@'));
    out.extend(pipeline.map(|file| one("the file of the pipeline", PathBuf::from(file))));
    let Some(manifest) = Manifest::load(path).ok().filter(|_| all) else { return out };
    let (mut survey, mut hashes) = (Survey::default(), Hashes::fresh());
    let mut look = Look { survey: &mut survey, hashes: &mut hashes };
    for entry in &manifest.plugins {
        let what = format!("part of the plugin of `{}`", entry.from);
        match &entry.source {
            Source::Path(file) => out.push(one(&what, file.clone())),
            Source::Name(name) => out.extend(search(name, &manifest.search).ok().map(|file| one(&what, file))),
            Source::Crate(folder) => {
                let files = look.files(folder).unwrap_or_default();
                out.extend(files.into_iter().map(|file| one(&what, file)));
            }
        }
    }
    out
}
