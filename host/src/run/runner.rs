//! The settings of a run.

use super::ledger::outcomes::Part;
use super::notes::limits::Rewrites;
use super::parallel::Workers;
use crate::context::missed::Missed;
use crate::context::{PassContext, Question};
use crate::engine::Engine;
use crate::instruments::Instrument;
use crate::report::said::PassDiagnostic;
use passhost_lang::PassError;
use passhost_lang::ir::Module;
use passhost_lang::metadata::OptionValue;
use plugin_api::declare::declarations::PluginDecl;
use std::cell::Cell;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

/// Runs plans. Its methods configure the run first.
pub struct Runner<'e> {
    pub(super) engine: &'e Engine,
    pub(super) context: PassContext,
    pub(super) keep_going: bool,
    pub(super) paranoid: bool,
    /// True if the input module was already verified.
    pub(super) verified: bool,
    /// True if a pass must not add calls of undeclared operators.
    pub(super) deny_unknown: bool,
    pub(super) missed: Missed,
    pub(super) workers: Workers,
    /// Instruments to add to the context.
    pub(super) more: Vec<Instrument>,
    pub(super) hears: Option<Box<dyn Fn(&PassDiagnostic) + 'e>>,
    pub(super) linked: Option<&'static PluginDecl>,
    pub(super) provenance: bool,
    pub(super) rewrites: Vec<Rewrites>,
    pub(super) part: Part,
    pub(super) called: Cell<Option<Called>>,
}

/// A call of a pass that was made before the run: full name, result and time.
pub(super) type Called = (String, Result<Module, PassError>, Duration);

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

    /// Sets whether the input module is known to be well-formed, such as a module from [`Engine::read_module`]. If so, only the changed
    /// parts of a function are checked, rather than the whole function.
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

    /// Reports, for each pass, whether its patterns match at a variable, and if not, why. The answers are diagnostics of the pass.
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

    /// Adds an instrument to the context, where it stays. It comes after the instruments given before, and before those of plugins.
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

    /// Uses the given result and time of a pass instead of its first call. The caller must have called it on the module of that step. The
    /// rest of the run is unchanged.
    pub fn called(self, pass: &str, result: Result<Module, PassError>, time: Duration) -> Runner<'e> {
        Runner { called: Cell::new(Some((pass.to_string(), result, time))), ..self }
    }
}
