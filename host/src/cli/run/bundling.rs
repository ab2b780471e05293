//! Writes a bundle when a run fails.

use super::args::RunArgs;
use crate::bundle::{Asked, Bundle, Failed};
use crate::cli::arguments::IsolateArgs;
use crate::cli::messages::Messages;
use crate::context::PassContext;
use crate::engine::Engine;
use crate::files::Output;
use crate::plugins::TRIPLE;
use crate::report::Report;
use crate::report::error::Error;
use crate::run::{Failure, PassDiagnostic};
use crate::text::Input;
use registry::{Outcome, Pipeline};
use std::cell::RefCell;
use std::path::PathBuf;

/// The flags of `run` that are stored in a bundle.
pub(super) fn flags(args: &mut RunArgs) -> [(&'static str, &mut bool); 8] {
    [
        ("keep-going", &mut args.keep_going),
        ("strict", &mut args.strict),
        ("paranoid", &mut args.paranoid),
        ("validate", &mut args.validate),
        ("missed", &mut args.missed),
        ("deny-unknown-operators", &mut args.deny_unknown_operators),
        ("tvm-compat", &mut args.select.tvm_compat),
        ("isolate", &mut args.isolate.isolate),
    ]
}

/// Returns the request of a run as a bundle stores it.
pub(super) fn asked(args: &RunArgs, context: &PassContext, pipeline: &Pipeline, expect: Vec<String>) -> Asked {
    let settings = context.settings();
    let IsolateArgs { plugin_timeout, plugin_memory, plugin_cpu, .. } = args.isolate;
    let mut args = args.clone();
    let given = flags(&mut args).into_iter().filter(|(_, given)| **given);
    Asked {
        pipeline: pipeline.to_string(),
        selections: settings.selections.clone(),
        config: settings.config.iter().map(|(key, value)| format!("{key}={value}")).collect(),
        target: settings.target(),
        expect,
        flags: given.map(|(name, _)| name.to_string()).collect(),
        rewrites: args.limit.rewrites.iter().map(ToString::to_string).collect(),
        plugin_timeout,
        plugin_memory,
        plugin_cpu,
    }
}

/// The module to store in a bundle.
#[derive(Clone, Copy)]
pub(super) enum Before<'a> {
    /// The module before the failed step.
    Step(&'a Failure),
    /// The text of a module that could not be read.
    Input(&'a Input),
}

impl Before<'_> {
    fn text(self, engine: &Engine) -> Result<String, Error> {
        match self {
            Before::Step(failure) => engine.print_module(&failure.before),
            Before::Input(input) => Ok(engine.as_text(input)?.to_string()),
        }
    }

    fn past(self) -> Vec<Outcome> {
        match self {
            Before::Step(failure) => failure.past.clone(),
            Before::Input(_) => Vec::new(),
        }
    }
}

/// The bundle of a run: its file, and the first failure.
#[derive(Default)]
pub(super) struct Bundling {
    to: Option<(PathBuf, Output)>,
    first: RefCell<Option<Failed>>,
}

impl Bundling {
    /// Checks the file of the bundle, if one is requested.
    ///
    /// # Errors
    /// If the file cannot be written.
    pub(super) fn to(shown: Option<&PathBuf>) -> Result<Bundling, Error> {
        let to = shown.map(|shown| Ok::<_, Error>((shown.clone(), Output::look(shown)?))).transpose()?;
        Ok(Bundling { to, first: RefCell::default() })
    }

    /// Returns true if a bundle is requested.
    pub(super) fn is_wanted(&self) -> bool {
        self.to.is_some()
    }

    /// Returns the first failure.
    pub(super) fn first(&self) -> Option<Failed> {
        self.first.borrow().clone()
    }

    /// Records a failure before the first step. Writes a bundle only if the process of a plugin died, and the module is TVMScript.
    pub(super) fn failed_early(&self, error: &Error, input: &Input, asked: (&Asked, &Engine), messages: Messages) {
        if asked.1.lost_a_worker() && asked.1.reads_text(input) {
            self.failed(error, Before::Input(input), asked, &[], messages);
        }
    }

    /// Records a failure. Later calls have no effect. Writes a bundle if one is requested, or if the process of a
    /// plugin died.
    pub(super) fn failed(
        &self,
        error: &Error,
        before: Before<'_>,
        (asked, engine): (&Asked, &Engine),
        said: &[PassDiagnostic],
        messages: Messages,
    ) {
        if self.first.borrow().is_some() {
            return;
        }
        let failed = Failed::of(error);
        *self.first.borrow_mut() = Some(failed.clone());
        let Some(place) = self.to.clone().map(Ok).or_else(|| engine.lost_a_worker().then(spare)) else { return };
        let said = said.iter().map(|diagnostic| diagnostic.report(engine.registry()));
        let bundle = before.text(engine).map(|module| Bundle {
            made_by: format!("passhost {} on {TRIPLE}", env!("CARGO_PKG_VERSION")),
            asked: asked.clone(),
            failed,
            messages: said.chain(error.reports()).map(|report| report.value()).collect(),
            past: before.past(),
            lock: engine.lock().text(),
            module,
        });
        let written = place.and_then(|(shown, file)| match bundle.and_then(|bundle| bundle.write(&file)) {
            Ok(()) => Ok(shown),
            Err(error) => {
                // The new file is still empty; it was created to reserve its name.
                let _ = self.to.is_none().then(|| std::fs::remove_file(&shown));
                Err(error)
            }
        });
        messages.report(&match written {
            Ok(shown) => Report::remark(format!("wrote the bundle {}", shown.display()))
                .help("`passhost replay FILE` re-runs the failed step"),
            // Only a warning, because the failure of the run is more important.
            Err(error) => Report::warning(format!("the bundle could not be written: {error}")),
        });
    }
}

/// Creates a file in the folder for temporary files that is not removed at the end.
fn spare() -> Result<(PathBuf, Output), Error> {
    let folder = std::env::temp_dir();
    let lost = |message: String| Error::Write { path: folder.clone(), message };
    let file = tempfile::Builder::new().prefix("passhost-").suffix(".bundle.json").tempfile_in(&folder);
    let kept = file.map_err(|error| lost(error.to_string()))?.into_temp_path().keep();
    let path = kept.map_err(|error| lost(error.to_string()))?;
    let output = Output::look(&path)?;
    Ok((path, output))
}
