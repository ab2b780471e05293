//! The command `check`: reports every fault in a manifest, its plugins and the given modules, except faults that only
//! follow from other faults.

use super::arguments::{InputArgs, Plugins};
use super::building::Building;
use super::listing::tell_stale;
use super::messages::Messages;
use super::run::reading::{read, read_input};
use super::run::show::unknown_name;
use super::select::{Written, checked_settings, selection};
use crate::context::PassContext;
use crate::engine::Engine;
use crate::files::to_stdout;
use crate::plugins::declared::{Unexported, UnknownOperator};
use crate::plugins::lock::{Keeper, Mode};
use crate::plugins::manifest::{Manifest, NamedPipeline};
use crate::report::Report;
use crate::report::error::{Error, exit};
use clap::Args;
use passhost_lang::names::{counted, few_suggestions};
use registry::registry::contracts::{self, UnknownName};
use registry::{Checker, Owner, OwnerId, PlanError, Registry, RegistryError};
use std::collections::BTreeSet;
use std::path::Path;
use std::path::PathBuf;

#[derive(Args)]
pub(in crate::cli) struct CheckArgs {
    /// Modules to check as well, in any format that a plugin reads: each is read and verified. `-` reads standard input.
    #[arg(conflicts_with = "no_load")]
    pub(in crate::cli) inputs: Vec<PathBuf>,
    /// Reads the modules in this format, as for `run`.
    #[arg(long, value_name = "FORMAT", requires = "inputs")]
    pub(in crate::cli) from: Option<String>,
    #[command(flatten)]
    pub(in crate::cli) plugins: Plugins,
    /// Does not build or load plugins. By default, each plugin is loaded in its own process, which runs its
    /// constructors.
    #[arg(long)]
    pub(in crate::cli) no_load: bool,
}

/// Shows all problems, and returns the exit code of the most severe one. With `--locked`, plugins that differ from the
/// lockfile are problems. Without `--no-load`, each plugin is opened in a process of its own.
pub(super) fn check(path: &Path, args: &CheckArgs, messages: Messages) -> Result<u8, Error> {
    let (locked, loads) = (args.plugins.locked, !args.no_load);
    let (manifest, problems) = Manifest::load_all(path)?;
    let mut errors: Vec<Error> = manifest.error(problems).into_iter().collect();
    let mode = if locked { Mode::Locked } else { Mode::Off };
    let keeper = Keeper::open(&manifest, mode).unwrap_or_else(|error| {
        errors.push(error);
        Keeper::off()
    });
    let keeper = if loads { keeper } else { keeper.builds_nothing() };
    let (engine, refused) = Engine::list(&manifest, keeper, &Building::new(messages));
    tell_stale(engine.lock(), messages);
    errors.extend(refused);
    // If a plugin cannot be listed, unknown names may belong to it, so they are not reported.
    let complete = errors.is_empty();
    let mut fine = 0;
    for (id, owner) in engine.registry().owners() {
        let Some(file) = &owner.file else { continue };
        match if loads { engine.try_out(id) } else { Ok(()) } {
            Ok(()) => {
                fine += 1;
                let what = if loads { "" } else { ", not opened" };
                to_stdout(&format!("ok  {} {} ({}{what})\n", owner.name, owner.version, file.display()))?;
            }
            Err(error) => errors.push(error),
        }
    }
    tell_unexported(&engine, messages);
    if complete && errors.is_empty() {
        errors.extend(wrong_modules(&engine, args, messages)?);
    }
    let registry = engine.registry();
    let lowest = selection(manifest.path.display().to_string(), &manifest.settings);
    let (mut checker, wrong) = Checker::new(lowest, registry);
    let mut of_manifest: Vec<Error> = wrong.into_iter().map(Error::from).collect();
    of_manifest.extend(few_suggestions(|| wrong_pipelines(&manifest, &mut checker)));
    errors.extend(of_manifest.into_iter().filter(|error| complete || !is_unknown(error)));
    // Unknown names and config keys may belong to a plugin that cannot be listed.
    if complete {
        errors.extend(few_suggestions(|| wrong_passes(checker, &errors)));
        errors.extend(few_suggestions(|| unknown_names(registry, messages)));
        errors.extend(few_suggestions(|| unknown_operators(&engine)));
        let all = std::iter::once(&manifest.settings).chain(manifest.pipelines.values().map(|named| &named.settings));
        let problems =
            few_suggestions(|| all.flat_map(|settings| checked_settings(&settings.config, &engine).1).collect());
        errors.extend(manifest.error(problems));
    }
    let n = errors.iter().map(Error::count).sum();
    if n == 0 {
        let modules = Some(args.inputs.len()).filter(|n| *n > 0).map(|n| counted(n, "module"));
        let counts = [counted(fine, "plugin"), counted(manifest.pipelines.len(), "pipeline")];
        let counts: Vec<String> = counts.into_iter().chain(modules).collect();
        to_stdout(&format!("{}, no problems\n", counts.join(", ")))?;
        return Ok(exit::DONE);
    }
    let code = messages.error(&Error::Several(errors));
    let of_modules = if args.inputs.is_empty() { "" } else { " and the modules" };
    messages.tell(&format!("{} in {}{of_modules}", counted(n, "problem"), manifest.path.display()));
    if !complete && !manifest.pipelines.is_empty() {
        messages.tell("pass names were not checked, because plugins or parts of the manifest are missing");
    }
    Ok(code)
}

/// Reads the given modules, and returns the errors of those that cannot be read.
fn wrong_modules(engine: &Engine, args: &CheckArgs, messages: Messages) -> Result<Vec<Error>, Error> {
    let mut wrong = Vec::new();
    for input in &args.inputs {
        let module =
            read_input(&InputArgs { from: args.from.clone(), ..InputArgs::of(input.clone()) }).and_then(|input| {
                engine.prepare(&input)?;
                read(engine, &PassContext::current(), &input, messages)
            });
        match module {
            Ok(module) => {
                let functions = counted(module.functions().count(), "function");
                to_stdout(&format!("ok  {} ({functions})\n", input.display()))?;
            }
            Err(error) => wrong.push(error),
        }
    }
    Ok(wrong)
}

/// Returns the first error of each pipeline of a manifest.
fn wrong_pipelines(manifest: &Manifest, checker: &mut Checker<'_>) -> Vec<Error> {
    let mut wrong = |(name, pipeline): (&String, &NamedPipeline)| {
        let own = selection(format!("pipeline `{name}`"), &pipeline.settings);
        let checked = Written::of_manifest(manifest, pipeline)
            .and_then(|written| checker.pipeline(&written.pipeline, own).map_err(|error| written.shown(error.into())));
        // An error without a position is reported at the whole pipeline.
        checked.err().map(|error| match error {
            Error::Entry { .. } => error,
            error => manifest.entry(&pipeline.span, error),
        })
    };
    manifest.pipelines.iter().filter_map(&mut wrong).collect()
}

/// Returns the errors that prevent a pass from being planned in any pipeline, except errors that `said` already
/// contains.
fn wrong_passes(checker: Checker<'_>, said: &[Error]) -> Vec<Error> {
    // Cycles are compared by their keys, because different pipelines enter the same cycle at different passes.
    let told = |error: &PlanError| match error {
        PlanError::Cycle { key, .. } | PlanError::CompositeCycle { key, .. } => format!("{key:?}"),
        other => other.to_string(),
    };
    let of_pipelines = said.iter().filter_map(|error| match error {
        Error::Entry { error, .. } => plan_error(error),
        other => plan_error(other),
    });
    let mut seen: BTreeSet<String> = of_pipelines.map(told).collect();
    let errors = checker.passes().into_iter().filter(|error| seen.insert(told(error)));
    errors.map(Error::from).collect()
}

/// Returns errors for names in contracts that nothing provides, and warns of names that another plugin may provide.
fn unknown_names(registry: &Registry, messages: Messages) -> Vec<Error> {
    let unknown = contracts::unknown_names(registry, registry.passes().map(|(pass, _)| pass));
    let (wrong, others): (Vec<_>, Vec<_>) = unknown.into_iter().partition(UnknownName::is_error);
    messages.reports(others.iter().map(unknown_name), "warnings");
    let help = || "correct the declaration of the pass, or list the plugin that declares the name".to_string();
    wrong.into_iter().map(|unknown| Error::Request { message: unknown.to_string(), help: help() }).collect()
}

/// Returns errors for operators that plugin sources use and no plugin declares.
fn unknown_operators(engine: &Engine) -> Vec<Error> {
    let of_owner = |(id, owner): (OwnerId, &Owner)| -> Vec<Error> {
        let message = |found: &UnknownOperator| format!("plugin `{}`: {found}", owner.name);
        let error = |found: &UnknownOperator| Error::Request {
            message: message(found),
            help: UnknownOperator::REMEDY.to_string(),
        };
        engine.unknown_operators(id).iter().map(error).collect()
    };
    engine.registry().owners().flat_map(of_owner).collect()
}

/// Warns of declarations in plugin sources that the plugins do not export, and that therefore no pipeline can find.
fn tell_unexported(engine: &Engine, messages: Messages) {
    let of_owner = |(id, owner): (OwnerId, &Owner)| -> Vec<Report> {
        let report =
            |found: Unexported| Report::warning(found.to_string()).about("plugin", &owner.name).help(found.remedy());
        engine.unexported(id).into_iter().map(report).collect()
    };
    let reports: Vec<Report> = engine.registry().owners().flat_map(of_owner).collect();
    messages.reports(reports.into_iter(), "warnings");
}

fn plan_error(error: &Error) -> Option<&PlanError> {
    match error {
        Error::Plan(error) => Some(error),
        _ => None,
    }
}

/// Returns true if the error is about a name that was not found.
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
