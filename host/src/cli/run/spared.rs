//! Refuses outputs (results, traces, bundles, reports and dumped modules) that would overwrite the manifest, the
//! lockfile, a plugin or each other. Files are compared by identity, so links do not hide them.

use super::args::RunArgs;
use crate::cli::arguments::Select;
use crate::cli::listing::manifest_path;
use crate::engine::search;
use crate::files::{Identity, Output, Written, follow, from_start, identity};
use crate::plugins::crates::{Look, ReadByRuns, Survey};
use crate::plugins::hashes::Hashes;
use crate::plugins::lock::path_of;
use crate::plugins::manifest::{Manifest, Source};
use crate::report::error::Error;
use std::collections::{BTreeMap, HashSet};
use std::path::{Path, PathBuf};

/// The files and folders that a run reads, each with a description.
#[derive(Default)]
struct Spared {
    files: Vec<(String, Identity)>,
    /// Folders in which a new file would become a part of a plugin, with links resolved.
    folders: BTreeMap<PathBuf, String>,
}

/// An output of a command.
struct Place {
    shown: PathBuf,
    output: Output,
    /// The option that names the output.
    option: &'static str,
    /// The format of the output.
    written: Written,
}

impl Place {
    fn look(shown: &Path, option: &'static str, written: Written) -> Result<Place, Error> {
        Ok(Place { shown: shown.to_path_buf(), output: Output::look(shown)?, option, written })
    }

    fn refused(&self, what: &str) -> Error {
        refused(&self.shown, self.option, what)
    }
}

fn refused(shown: &Path, option: &str, what: &str) -> Error {
    let kind = if option == "--dump" { "folder" } else { "file" };
    Error::Output { path: shown.to_path_buf(), message: format!("{what}; choose another {kind} with {option}") }
}

/// Refuses outputs that would overwrite an input of the run, or each other; only the result may replace the module.
/// Inputs that cannot be read are reported later, when they are read. Returns the facts collected about plugin crates,
/// so that the run need not collect them again.
///
/// # Errors
/// The first output that would overwrite something.
pub(in crate::cli) fn check(args: &RunArgs) -> Result<Survey, Error> {
    let outputs = outputs(args)?;
    let survey = check_places(args, &outputs)?;
    check_forms(outputs.iter().filter(|place| place.option != "-o"))?;
    Ok(survey)
}

fn check_places(args: &RunArgs, outputs: &[Place]) -> Result<Survey, Error> {
    let mut survey = Survey::default();
    if outputs.is_empty() && args.look.dump_folder().is_none() {
        return Ok(survey);
    }
    if let Some(place) = outputs.iter().find(|place| place.option != "-o" && place.output.leads_to(&args.module.input))
    {
        return Err(place.refused("is the input, which would be overwritten"));
    }
    if let Some(params) = &args.module.params
        && let Some(place) = outputs.iter().find(|place| place.output.leads_to(params))
    {
        return Err(place.refused("is the file of --params, which would be overwritten"));
    }
    let stdout = Place { shown: "-".into(), output: Output::Stdout, option: "-o", written: Written::Module };
    check_apart(&args.output.is_none().then_some(&stdout).into_iter().chain(outputs).collect::<Vec<_>>())?;
    let Ok(manifest) = manifest_path(args.select.plugins.manifest.manifest.as_ref()) else { return Ok(survey) };
    let spared = spared(&args.select, &manifest, &mut survey);
    check_files(outputs, &spared.files)?;
    check_folders(args.look.dump_folder(), outputs, &spared.folders)?;
    Ok(survey)
}

/// Checks the only output of a command, given with the option that names it and its format. `others` are further inputs.
///
/// # Errors
/// If the output cannot be written, has the extension of another format, or would overwrite an input.
pub(in crate::cli) fn output(
    select: &Select,
    (shown, option, written): (&Path, &'static str, Written),
    others: &[(&str, &Path)],
) -> Result<Output, Error> {
    let places = [Place::look(shown, option, written)?];
    let others: Vec<(String, Identity)> =
        others.iter().map(|(what, path)| (what.to_string(), identity(path))).collect();
    check_files(&places, &others)?;
    if let Ok(manifest) = manifest_path(select.plugins.manifest.manifest.as_ref()) {
        let spared = spared(select, &manifest, &mut Survey::default());
        check_files(&places, &spared.files)?;
        check_folders(None, &places, &spared.folders)?;
    }
    check_forms(&places)?;
    let [place] = places;
    Ok(place.output)
}

/// Refuses outputs with extensions of other formats.
fn check_forms<'p>(outputs: impl IntoIterator<Item = &'p Place>) -> Result<(), Error> {
    outputs.into_iter().try_for_each(|place| place.written.check(&place.shown))
}

/// Refuses two outputs in the same file, because one would be lost.
fn check_apart(outputs: &[&Place]) -> Result<(), Error> {
    for (at, place) in outputs.iter().enumerate() {
        let same =
            outputs[..at].iter().find(|other| other.option != place.option && other.output.is_same(&place.output));
        if let Some(other) = same {
            return Err(place.refused(&format!("is also the {}", meant(other.option))));
        }
    }
    Ok(())
}

/// Describes the file of an option.
fn meant(option: &str) -> &str {
    match option {
        "-o" => "file of the result",
        "--bundle" => "bundle",
        "--trace" => "trace",
        "--report" => "report",
        _ => "file of a dumped module",
    }
}

/// Refuses outputs that would overwrite one of these files.
fn check_files(outputs: &[Place], files: &[(String, Identity)]) -> Result<(), Error> {
    for place in outputs {
        let Some(own) = place.output.identity() else { continue };
        if let Some((what, _)) = files.iter().find(|(_, file)| *file == own) {
            return Err(place.refused(&format!("is {what}, which would be overwritten")));
        }
    }
    Ok(())
}

/// Refuses outputs in folders of plugins, where they would become a part of the plugin.
fn check_folders(dump: Option<&Path>, outputs: &[Place], folders: &BTreeMap<PathBuf, String>) -> Result<(), Error> {
    let files = outputs.iter().filter(|place| matches!(place.output, Output::File { .. }));
    let files = files.filter_map(|place| Some((place.shown.as_path(), follow(&place.shown).ok()?, place.option)));
    let dumped = dump.map(|folder| (folder, folder.join("000.py"), "--dump"));
    for (shown, file, option) in files.chain(dumped) {
        let place = file.ancestors().skip(1).find_map(|above| match above.as_os_str().is_empty() {
            true => from_start(Path::new(".")).canonicalize().ok(),
            false => from_start(above).canonicalize().ok(),
        });
        let inside = place.as_ref().and_then(|place| place.ancestors().find_map(|above| folders.get(above)));
        if let Some(what) = inside {
            return Err(refused(shown, option, &format!("would become {what}")));
        }
    }
    Ok(())
}

/// Returns all outputs of the run, including existing files that `--dump` may replace.
fn outputs(args: &RunArgs) -> Result<Vec<Place>, Error> {
    let mut out = Vec::new();
    if let Some(shown) = &args.output {
        let place = Place::look(shown, "-o", Written::Module)?;
        if let Some(failed) = place.output.failed().filter(|failed| failed.exists()) {
            out.push(Place::look(&failed, "-o", Written::Module)?);
        }
        out.push(place);
    }
    let others = [
        (args.bundle.as_deref(), "--bundle", Written::Bundle),
        (args.look.trace_path(), "--trace", Written::Trace),
        (args.look.report_path(), "--report", Written::Report),
    ];
    for (shown, option, written) in others {
        out.extend(shown.map(|shown| Place::look(shown, option, written)).transpose()?);
    }
    if let Some(folder) = args.look.dump_folder() {
        // Dumped modules have names like `000_relax.Normalize.py`.
        let dumped = |path: &Path| {
            let name = path.file_name().unwrap_or_default().to_string_lossy();
            name.starts_with(|c: char| c.is_ascii_digit()) && name.ends_with(".py")
        };
        let found = std::fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path());
        // An output that cannot be written is reported when it is written.
        out.extend(
            found.filter(|path| dumped(path)).filter_map(|path| Place::look(&path, "--dump", Written::Module).ok()),
        );
    }
    Ok(out)
}

/// Collects the inputs of the run.
fn spared(select: &Select, path: &Path, survey: &mut Survey) -> Spared {
    let mut out = Spared::default();
    let mut one = |what: &str, path: &Path| out.files.push((what.to_string(), identity(path)));
    one("the manifest", path);
    one("the lockfile", &path_of(path));
    let pipeline = select.passes.as_deref().and_then(|passes| passes.strip_prefix('@'));
    pipeline.iter().for_each(|file| one("the pipeline file", Path::new(file)));
    let Ok(manifest) = Manifest::load(path) else { return out };
    let mut hashes = Hashes::fresh();
    let mut seen = HashSet::new();
    for entry in &manifest.plugins {
        let what = format!("part of the plugin of `{}`", entry.from);
        match &entry.source {
            Source::Path(file) => out.files.push((what, identity(file))),
            Source::Name(name) => {
                out.files.extend(search(name, &manifest.search).ok().map(|file| (what, identity(&file))))
            }
            Source::Crate(folder) => {
                let mut look = Look { survey: &mut *survey, hashes: &mut hashes };
                let Ok(ReadByRuns { files, folders }) = look.read_by_runs(folder) else { continue };
                // Crates share most of their files. The message names the first crate with the file.
                let files = files.into_iter().filter(|file| seen.insert(file.clone()));
                out.files.extend(files.map(|file| (what.clone(), survey.identity(&file))));
                for folder in folders {
                    let resolved = survey.resolved(&folder).unwrap_or(folder);
                    out.folders.entry(resolved).or_insert_with(|| what.clone());
                }
            }
        }
    }
    out
}
