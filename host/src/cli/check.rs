//! The command `check`: everything that is wrong with a manifest and its plugins, without follow-ups.

use super::building::Building;
use super::messages::Messages;
use super::probe;
use super::select::{Written, checked_settings, selection};
use crate::engine::Engine;
use crate::error::{Error, exit};
use crate::lock::{Keeper, Mode};
use crate::manifest::Manifest;
use crate::output::to_stdout;
use crate::report::Report;
use plugin_api::meta::PassInfo;
use registry::contracts::{self, UnknownName};
use registry::{PassId, Pipeline, Plan, PlanError, Registry, RegistryError, Request};
use std::collections::BTreeSet;
use std::path::Path;

/// Shows all problems; gives the exit code of the gravest. `locked`: also where plugins are not those of the lockfile.
/// `loads`: each plugin is opened, in a process of its own.
pub(super) fn check(path: &Path, locked: bool, loads: bool, messages: Messages) -> Result<u8, Error> {
    let (manifest, problems) = Manifest::load_all(path)?;
    let mut errors: Vec<Error> = manifest.error(problems).into_iter().collect();
    let mode = if locked { Mode::Locked } else { Mode::Off };
    let keeper = Keeper::open(&manifest, mode).unwrap_or_else(|error| {
        errors.push(error);
        Keeper::off()
    });
    let mut keeper = if loads { keeper } else { keeper.builds_nothing() };
    let (engine, refused) = Engine::list(&manifest, &mut keeper, &Building::new(messages));
    super::lock::tell_stale(&keeper, messages);
    errors.extend(refused);
    // Names that nobody has may be those of what is missing.
    let complete = errors.is_empty();
    let mut fine = 0;
    for (id, owner) in engine.registry().owners() {
        let (Some(file), Some(listed)) = (&owner.file, engine.listed(id)) else { continue };
        let cannot = |error: std::io::Error| Error::Plugin {
            path: file.clone(),
            message: format!("cannot be tried in a process of its own: {error}"),
            help: "`passhost check --no-load` leaves this part out".to_string(),
        };
        match if loads { probe::open(listed).map_err(cannot).flatten() } else { Ok(()) } {
            Ok(()) => {
                fine += 1;
                let what = if loads { "" } else { ", not opened" };
                to_stdout(&format!("ok  {} {} ({}{what})\n", owner.name, owner.version, file.display()))?;
            }
            Err(error) => errors.push(error),
        }
    }
    errors.extend(
        wrong_pipelines(&manifest, engine.registry()).into_iter().filter(|error| complete || !is_unknown(error)),
    );
    // So may keys.
    if complete {
        errors.extend(wrong_passes(engine.registry(), &errors));
        errors.extend(unknown_names(engine.registry(), messages));
        let all = std::iter::once(&manifest.settings).chain(manifest.pipelines.values().map(|named| &named.settings));
        let problems = all.flat_map(|settings| checked_settings(&settings.config, engine.registry()).1).collect();
        errors.extend(manifest.error(problems));
    }
    let reports: Vec<Report> = errors.iter().flat_map(Error::reports).collect();
    if reports.is_empty() {
        let n = manifest.pipelines.len();
        to_stdout(&format!("{}, {}, no problems\n", counted(fine, "plugin"), counted(n, "pipeline")))?;
        return Ok(exit::DONE);
    }
    reports.iter().for_each(|report| messages.report(report));
    messages.tell(&format!("{} in {}", counted(reports.len(), "problem"), manifest.path.display()));
    if !complete && !manifest.pipelines.is_empty() {
        messages.tell("names of passes were not looked up, since plugins or parts of the manifest are missing");
    }
    Ok(Error::Several(errors).exit_code())
}

fn counted(n: usize, what: &str) -> String {
    format!("{n} {what}{}", if n == 1 { "" } else { "s" })
}

/// What is wrong in the lists of passes of a manifest, and in each of its pipelines.
fn wrong_pipelines(manifest: &Manifest, registry: &Registry) -> Vec<Error> {
    let mut settings = vec![selection(manifest.path.display().to_string(), &manifest.settings)];
    let mut errors: Vec<Error> = Vec::new();
    let alone = Request { selections: settings.clone(), ..Request::default() };
    if let Err(wrong) = Plan::of_lists(&alone, registry) {
        errors.extend(wrong.into_iter().map(Error::from));
        // Every pipeline would say it again, and nothing else.
        settings.clear();
    }
    for (name, pipeline) in &manifest.pipelines {
        let mut selections = vec![selection(format!("pipeline `{name}`"), &pipeline.settings)];
        selections.extend(settings.iter().cloned());
        let planned = Written::of_manifest(manifest, pipeline).and_then(|written| {
            let request = Request { pipeline: written.pipeline.clone(), selections, ..Request::default() };
            Plan::new(&request, registry).map_err(|error| written.shown(error.into()))
        });
        // What is said of no part of it is said of all of it.
        errors.extend(planned.err().map(|error| match error {
            Error::Entry { .. } => error,
            error => manifest.entry(&pipeline.span, error),
        }));
    }
    errors
}

/// What keeps a pass from being planned whatever the pipeline, beyond what is said already: cycles, and required passes
/// and members that nobody has.
fn wrong_passes(registry: &Registry, said: &[Error]) -> Vec<Error> {
    // A cycle is found from each pass in it, starting there.
    let told = |error: &PlanError| match error {
        PlanError::Cycle { passes, .. } | PlanError::CompositeCycle { passes, .. } => format!("{passes:?}"),
        other => other.to_string(),
    };
    let of_pipelines = said.iter().filter_map(|error| match error {
        Error::Entry { error, .. } => plan_error(error),
        other => plan_error(other),
    });
    let mut seen: BTreeSet<String> = of_pipelines.map(told).collect();
    let plan = |(_, pass): (PassId, &PassInfo)| {
        let pipeline = Pipeline::parse(&pass.name).ok()?;
        Plan::new(&Request { pipeline, ..Request::default() }, registry).err()
    };
    let errors = registry.passes().filter_map(plan).filter(|error| seen.insert(told(error)));
    errors.map(Error::from).collect()
}

/// Names in contracts that nothing provides; those that another plugin may provide are warnings.
fn unknown_names(registry: &Registry, messages: Messages) -> Vec<Error> {
    let unknown = contracts::unknown_names(registry, registry.passes().map(|(pass, _)| pass));
    let (wrong, others): (Vec<_>, Vec<_>) = unknown.into_iter().partition(UnknownName::is_error);
    others.iter().for_each(|unknown| messages.report(&unknown_name(unknown)));
    let help = || "correct the declaration of the pass, or list the plugin that has the name".to_string();
    wrong.into_iter().map(|unknown| Error::Request { message: unknown.to_string(), help: help() }).collect()
}

/// As a warning.
pub(super) fn unknown_name(unknown: &UnknownName) -> Report {
    Report::warning(unknown.to_string()).about("pass", &unknown.pass).about("plugin", &unknown.plugin)
}

fn plan_error(error: &Error) -> Option<&PlanError> {
    match error {
        Error::Plan(error) => Some(error),
        _ => None,
    }
}

/// Whether a name could not be found.
fn is_unknown(error: &Error) -> bool {
    match error {
        Error::Entry { error, .. } => is_unknown(error),
        Error::Plan(PlanError::Name { error, .. } | PlanError::ListedName { error, .. }) => {
            matches!(error, RegistryError::UnknownPass { .. } | RegistryError::UnknownInstrument { .. })
        }
        Error::Plan(PlanError::Missing { .. } | PlanError::UnknownMember { .. }) => true,
        _ => false,
    }
}
