//! Runs a plan over a module: calls one pass after the other, and verifies each changed function.

mod begun;
mod blocks;
mod calls;
mod claims;
mod errors;
pub mod execute;
mod ledger;
mod marks;
mod notes;
mod one_pass;
mod parallel;
mod properties;
mod services;
mod shown;
mod steps;
pub mod validate;
mod wholes;

use crate::context::missed::Missed;
use crate::context::{PassContext, Question};
use crate::engine::Engine;
use crate::instruments::{Instrument, Mode};
use crate::report::error::Error;
use crate::verify::verify_kinds;
use passhost_lang::PassError;
use passhost_lang::ir::Module;
use passhost_lang::metadata::OptionValue;
use plugin_api::abi::host::with_current;
use plugin_api::declare::declarations::PluginDecl;
use registry::Plan;
use std::cell::Cell;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

pub use crate::report::expect::Expectation;
pub use crate::report::said::{PassDiagnostic, ShownPlace, Statistic};
pub use ledger::outcomes::{Failure, Fate, Part, Past, RunReport, StepReport};
use marks::Marks;
pub use notes::limits::Rewrites;
pub use notes::{limits, provenance};
use parallel::Workers;
use provenance::Provenance;
use services::Services;
use steps::Run;

/// Runs plans. Its methods configure the run first.
pub struct Runner<'e> {
    engine: &'e Engine,
    context: PassContext,
    keep_going: bool,
    paranoid: bool,
    /// True if the input module was already verified.
    verified: bool,
    /// True if a pass may not add calls of undeclared operators.
    deny_unknown: bool,
    missed: Missed,
    workers: Workers,
    /// Instruments to add to the context.
    more: Vec<Instrument>,
    hears: Option<Box<dyn Fn(&PassDiagnostic) + 'e>>,
    linked: Option<&'static PluginDecl>,
    provenance: bool,
    rewrites: Vec<Rewrites>,
    part: Part,
    called: Cell<Option<Called>>,
}

/// A call of a pass before the run: the full name, the result, and its time.
type Called = (String, Result<Module, PassError>, Duration);

impl<'e> Runner<'e> {
    /// Creates a runner with its own context, which has these config values and the opt_level of the plan.
    pub fn new(engine: &'e Engine, config: BTreeMap<String, OptionValue>) -> Runner<'e> {
        Runner::in_context(engine, &PassContext::with_config(config))
    }

    /// Creates a runner in the context in which the plan was made. The context is current during the run. If it was not entered before, its
    /// instruments are entered and exited.
    pub fn in_context(engine: &'e Engine, context: &PassContext) -> Runner<'e> {
        Runner {
            engine,
            context: context.clone(),
            keep_going: false,
            paranoid: false,
            verified: false,
            deny_unknown: false,
            missed: Missed::Nothing,
            workers: Workers::new(None),
            more: Vec::new(),
            hears: None,
            linked: None,
            provenance: false,
            rewrites: Vec::new(),
            part: Part::default(),
            called: Cell::new(None),
        }
    }

    /// Sets whether the run continues after a pass that panicked, returned an error or returned an ill-formed result. The module stays as it
    /// was before that pass, and passes that depend on it are skipped. A plugin that panicked is not called again.
    pub fn keep_going(self, keep_going: bool) -> Runner<'e> {
        Runner { keep_going, ..self }
    }

    /// Sets whether functions are compared with copies after each pass, to find passes that write to their input.
    pub fn paranoid(self, paranoid: bool) -> Runner<'e> {
        Runner { paranoid, ..self }
    }

    /// Sets whether the input module is known to be well-formed, as one from [`Engine::read_module`] is. If so, only
    /// the changed parts of a function are checked, rather than the whole function.
    pub fn verified_input(self, verified: bool) -> Runner<'e> {
        Runner { verified, ..self }
    }

    /// Sets whether a pass fails if it adds calls of an operator that no plugin declares and that its input did not call. By default this is
    /// a warning.
    pub fn deny_unknown_operators(self, deny_unknown: bool) -> Runner<'e> {
        Runner { deny_unknown, ..self }
    }

    /// Sets whether missed optimizations that passes report are among the diagnostics.
    pub fn missed(self, missed: bool) -> Runner<'e> {
        Runner { missed: if missed { Missed::All } else { Missed::Nothing }, ..self }
    }

    /// Reports what the patterns of each pass find at a variable. The answers are diagnostics of the pass.
    pub fn asks(self, question: &Arc<Question>) -> Runner<'e> {
        Runner { missed: Missed::One(Arc::clone(question)), ..self }
    }

    /// Sets the maximum number of threads for passes over functions, up to 256. The default is the number of cores.
    pub fn jobs(self, jobs: usize) -> Runner<'e> {
        Runner { workers: Workers::new(Some(jobs)), ..self }
    }

    /// Sets a function that receives each diagnostic when its pass has ended. The report contains the diagnostics as well.
    pub fn hears(self, hears: impl Fn(&PassDiagnostic) + 'e) -> Runner<'e> {
        Runner { hears: Some(Box::new(hears)), ..self }
    }

    /// Adds an instrument to the context, where it stays. It comes after those given before, and before those of plugins.
    pub fn instrument(mut self, instrument: Instrument) -> Runner<'e> {
        self.more.push(instrument);
        self
    }

    /// Calls the passes, checkers and instruments of this plugin directly, from the program that links it, rather than
    /// through its library. Everything else stays the same, so that a test can compare both ways.
    pub fn linked(self, plugin: &'static PluginDecl) -> Runner<'e> {
        Runner { linked: Some(plugin), ..self }
    }

    /// Sets whether the report records where the values of its module come from.
    pub fn provenance(self, provenance: bool) -> Runner<'e> {
        Runner { provenance, ..self }
    }

    /// Applies only the first rewrites of each pass. A limit for one function overrides the general limit.
    pub fn rewrites(self, rewrites: Vec<Rewrites>) -> Runner<'e> {
        Runner { rewrites, ..self }
    }

    /// Calls only some of the passes.
    pub fn part(self, part: Part) -> Runner<'e> {
        Runner { part, ..self }
    }

    /// Uses the given result and time of a pass instead of its first call. The caller must have called it on the module of that step.
    /// Otherwise the run is the same.
    pub fn called(self, pass: &str, result: Result<Module, PassError>, time: Duration) -> Runner<'e> {
        Runner { called: Cell::new(Some((pass.to_string(), result, time))), ..self }
    }

    /// Runs a plan. Opens the plugins of the plan, and creates and enters its instruments, before the first step.
    ///
    /// # Errors
    /// If the plan is for other passes, a plugin cannot be opened, an instrument cannot be created or entered, or an instrument of its
    /// context is already being called. An error in a later step is in the report.
    pub fn run(mut self, plan: &Plan, module: Module) -> Result<RunReport, Error> {
        if !plan.is_of(self.engine.registry()) {
            let message = "the plan was made for an engine with different passes".to_string();
            return Err(Error::Request { message, help: "plan again with the engine that runs the plan".to_string() });
        }
        verify_kinds(&module).map_err(not_a_module)?;
        self.context = self.context.at_level(plan.opt_level);
        if !matches!(self.missed, Missed::Nothing) {
            self.context = self.context.wanting(std::mem::take(&mut self.missed));
        }
        let traced = self.provenance.then(|| Provenance::of(&module)).transpose();
        let (provenance, module) = match traced.map_err(not_a_module)? {
            Some((provenance, numbered)) => (Some(provenance), numbered),
            None => (None, module),
        };
        let unrecorded = self.engine.open_for(plan)?;
        let mode = Mode { keep_going: self.keep_going, compat: plan.compat, trace: self.engine.trace().cloned() };
        let more = std::mem::take(&mut self.more);
        let outer = self.context.watch(mode, more)?;
        let (marks, input) = (Marks::default(), Arc::new(services::Input::new(module.clone())));
        let (settings, speaking) = (self.context.settings(), self.context.speaking());
        let services = Services::new(self.engine, &marks, settings, speaking, input);
        let run = || Run::new(&self, plan, &services, module, provenance).report();
        let report = with_current(&services, plan.opt_level, run);
        // A pass can run others in its own context.
        self.context.watch(outer, Vec::new())?;
        let mut report = report?;
        report.warnings.splice(0..0, unrecorded.map(|warning| warning.title));
        Ok(report)
    }
}

fn not_a_module(why: impl std::fmt::Display) -> Error {
    Error::Request {
        message: format!("the input module is invalid: {why}"),
        help: "create it from functions that were read from text, or built with a builder".to_string(),
    }
}
