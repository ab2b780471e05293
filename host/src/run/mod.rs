//! Runs a plan over a module: one pass after the other, each changed function verified.

mod blocks;
mod calls;
mod claims;
mod frames;
mod marks;
mod outcomes;
mod parallel;
mod properties;
mod services;
mod statistics;

use crate::context::PassContext;
use crate::engine::Engine;
use crate::instruments::{Instrument, Instruments, Mode, Speaking};
use crate::report::error::{Error, Kept, exit};
use crate::verify::declared_form::in_declared_form;
use crate::verify::snapshot::Snapshot;
use crate::verify::undeclared::undeclared_among;
use crate::verify::{Affected, UndeclaredOperator, Violation, affected, pairs};
use crate::verify::{verify_attributes, verify_kinds};
use plugin_api::abi::host::{RunFailure, with_current};
use plugin_api::declare::diagnostics::Severity;
use plugin_api::declare::instrument::PassFacts;
use plugin_api::ir::{Body, BodyKind, Module};
use plugin_api::metadata::OptionValue;
use registry::{Doing, Driver, Facts, Frame, Job, Outcome, OwnerId, PassId, Plan, Step, StepRun, Unit, Why};
use serde_json::json;
use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, HashMap};
use std::rc::Rc;
use std::time::{Duration, Instant};

pub use crate::report::said::{PassDiagnostic, ShownPlace};
use claims::Claims;
use frames::Frames;
use marks::{Marks, Rules};
pub use outcomes::{Fate, RunReport, StepReport};
use parallel::Workers;
use services::{Input, Shown};
pub use statistics::Statistic;

/// Runs plans.
pub struct Runner<'e> {
    engine: &'e Engine,
    context: PassContext,
    pass: RefCell<String>,
    diagnostics: RefCell<Vec<PassDiagnostic>>,
    /// What passes counted, not summed up.
    counted: RefCell<Vec<Statistic>>,
    current: RefCell<Module>,
    /// The current module as passes and instruments speak of it, or one that was.
    input: RefCell<Rc<Input>>,
    /// Number of the step that runs, as in the plan.
    position: Cell<usize>,
    /// A module whose bindings were counted, and how many it has.
    bindings: RefCell<(Module, usize)>,
    keep_going: bool,
    paranoid: bool,
    /// Undeclared operators that a pass writes are errors.
    deny_unknown: bool,
    marks: Marks,
    claims: RefCell<Claims>,
    /// The instrument that is being called.
    speaking: Speaking,
    workers: Workers,
    /// Instruments that its context gets.
    more: Vec<Instrument>,
    hears: Option<Box<dyn Fn(&PassDiagnostic) + 'e>>,
    /// How many diagnostics it heard of those that are there.
    heard: Cell<usize>,
}

/// Why a step was not done.
enum Stop {
    /// It failed.
    Failed(Error),
    /// There was no sense in trying.
    Skipped(String),
    /// These instruments did not let it run.
    Vetoed(String),
    /// A composite pass that it needs ran without a member that was vetoed; which, and by whom.
    Lacking(String),
    /// An instrument failed, and the pass did not run.
    Before(Error),
    /// An instrument failed after the pass had run; whether that changed the module, and its cost, if it was no
    /// Sequential.
    After(Error, bool, Option<Cost>),
}

/// The options of each pass that failed, and the module on which it did.
type Failed = HashMap<PassId, Vec<(Vec<OptionValue>, Module)>>;

/// What failed while the run went on.
#[derive(Default)]
struct Failures {
    errors: Vec<Error>,
    seen: Failed,
    /// What was skipped because of a veto.
    warnings: Vec<String>,
}

/// Time and bindings of the pass that ran last.
struct Cost {
    time: Duration,
    verify: Duration,
    bindings: (usize, usize),
}

impl Cost {
    /// Of a pass that was not run.
    fn none(bindings: usize) -> Cost {
        Cost { time: Duration::ZERO, verify: Duration::ZERO, bindings: (bindings, bindings) }
    }
}

impl<'e> Runner<'e> {
    /// A runner with a context of its own, which has these config values, and the opt_level of the plan.
    pub fn new(engine: &'e Engine, config: BTreeMap<String, OptionValue>) -> Runner<'e> {
        Runner::in_context(engine, &PassContext::with_config(config))
    }

    /// A runner in a context, in which the plan was made. The context is current during the run; its instruments are
    /// entered and exited if it was not entered before.
    pub fn in_context(engine: &'e Engine, context: &PassContext) -> Runner<'e> {
        let nothing = || Module::new(Vec::<(String, Body)>::new());
        Runner {
            engine,
            context: context.clone(),
            pass: RefCell::default(),
            diagnostics: RefCell::default(),
            counted: RefCell::default(),
            current: RefCell::new(nothing()),
            input: RefCell::new(Rc::new(Input::new(nothing()))),
            position: Cell::new(0),
            bindings: RefCell::new((nothing(), 0)),
            keep_going: false,
            paranoid: false,
            deny_unknown: false,
            marks: Marks::default(),
            claims: RefCell::default(),
            speaking: context.speaking(),
            workers: Workers::new(None),
            more: Vec::new(),
            hears: None,
            heard: Cell::new(0),
        }
    }

    /// Whether the run goes on after a pass that panicked, gave an error, or gave an ill-formed result. The module stays
    /// as it was before that pass; a pass that needs it is skipped. A plugin that panicked is not called again.
    pub fn keep_going(self, keep_going: bool) -> Runner<'e> {
        Runner { keep_going, ..self }
    }

    /// Whether functions are compared with copies after each pass, to find passes that write into their input.
    pub fn paranoid(self, paranoid: bool) -> Runner<'e> {
        Runner { paranoid, ..self }
    }

    /// Whether a pass fails that writes calls of an operator which no plugin declares and its input did not call. Without
    /// it that is a warning.
    pub fn deny_unknown_operators(self, deny_unknown: bool) -> Runner<'e> {
        Runner { deny_unknown, ..self }
    }

    /// How many threads passes over functions may have, up to 256; without it as many as there are cores.
    pub fn jobs(self, jobs: usize) -> Runner<'e> {
        Runner { workers: Workers::new(Some(jobs)), ..self }
    }

    /// With somebody who hears of each diagnostic when the pass is done that it is of, and not only in the report.
    pub fn hears(self, hears: impl Fn(&PassDiagnostic) + 'e) -> Runner<'e> {
        Runner { hears: Some(Box::new(hears)), ..self }
    }

    /// With an instrument in its context, where it stays, behind those given before, and before those of plugins.
    pub fn instrument(mut self, instrument: Instrument) -> Runner<'e> {
        self.more.push(instrument);
        self
    }

    fn instruments(&self) -> &RefCell<Instruments> {
        self.context.instruments()
    }

    /// Runs a plan. Plugins of the plan are opened before the first step, and instruments made and entered.
    ///
    /// # Errors
    /// If the plan is one of other passes, a plugin cannot be opened, an instrument cannot be made or entered, or one of
    /// its context is being called; what stops a later step is in the report.
    pub fn run(mut self, plan: &Plan, module: Module) -> Result<RunReport, Error> {
        if !plan.is_of(self.engine.registry()) {
            let message = "the plan was made for an engine with other passes".to_string();
            return Err(Error::Request { message, help: "plan again with the engine that runs it".to_string() });
        }
        verify_kinds(&module).map_err(|violation| Error::Request {
            message: format!("the module to run passes over: {violation}"),
            help: "make it of functions that were read, or built as functions".to_string(),
        })?;
        self.context = self.context.at_level(plan.opt_level);
        self.engine.open_for(plan)?;
        *self.current.borrow_mut() = module;
        let mode =
            Mode { keep_going: self.keep_going, tvm_compat: plan.tvm_compat, trace: self.engine.trace().cloned() };
        let more = std::mem::take(&mut self.more);
        let outer = self.context.watch(mode, more)?;
        let report = with_current(&self, plan.opt_level, || self.run_inside(plan));
        // A pass can run others in its own context.
        self.context.watch(outer, Vec::new())?;
        report
    }

    fn run_inside(&self, plan: &Plan) -> Result<RunReport, Error> {
        let scope = self.context.begin(Some((self.engine, &plan.instruments)));
        self.hear();
        let mut scope = scope?;
        let mut report = self.steps(plan);
        let (exited, beside) = scope.leave();
        match (exited, &report.error) {
            (Err(error), None) => report.error = Some(error),
            (exited, _) => report.failures.extend(exited.err()),
        }
        report.failures.extend(beside);
        // What is told on leaving is of this run, too.
        self.hear();
        report.diagnostics.append(&mut self.diagnostics.take());
        Ok(report)
    }

    fn steps(&self, plan: &Plan) -> RunReport {
        let registry = self.engine.registry();
        let mut driver = Driver::new(registry);
        let (mut steps, mut failures) = (Vec::new(), Failures::default());
        let mut error = None;
        for step in &plan.steps {
            if let Err(why) = self.step(&mut driver, plan, step, &mut steps, &mut failures) {
                error = Some(why);
                break;
            }
        }
        self.hear();
        self.heard.set(0);
        RunReport {
            module: self.current.borrow().clone(),
            steps,
            diagnostics: self.diagnostics.take(),
            statistics: statistics::summed(self.counted.take()),
            warnings: [driver.warnings(), &failures.warnings].concat(),
            failures: failures.errors,
            error,
        }
    }

    /// Runs a step that was asked for, with what it requires and contains.
    fn step(
        &self,
        driver: &mut Driver<'_>,
        plan: &Plan,
        step: &Step,
        steps: &mut Vec<StepReport>,
        failures: &mut Failures,
    ) -> Result<(), Error> {
        let body = step.unit.pass().filter(|_| step.skip.is_none() && plan.members(step).is_none());
        if let Some(why) = body.and_then(|pass| self.marked(pass)) {
            let (unit, given) = (step.unit.clone(), step.given.clone());
            steps.push(self.row(unit, given, Why::Asked, 0, Fate::Skipped(why)));
            driver.leave_out(plan, step);
            return Ok(());
        }
        let Failures { errors, seen, warnings } = &mut *failures;
        let rows = RefCell::new(steps);
        let cost = Cell::new(None);
        let mut run = |job: Job<'_>, facts: &mut Facts| {
            if let Some(why) = self.marked(job.pass).or_else(|| self.failed_before(seen, job)) {
                return Err(Stop::Skipped(why));
            }
            let before = self.current.borrow().clone();
            let (changed, spent) = self.pass(job, plan, facts).inspect_err(|stop| {
                if matches!(stop, Stop::Failed(_)) {
                    seen.entry(job.pass).or_default().push((job.options.to_vec(), before));
                }
            })?;
            cost.set(Some(spent));
            Ok(changed)
        };
        let frames = Frames::default();
        let mut framed = |frame: Frame<'_>| self.framed(frame, plan, &frames);
        let mut done = |StepRun { unit, given, why, nesting, inner, outcome }| {
            let mut row = self.row(unit, given, why, nesting, Fate::Done(outcome));
            if let Some(Cost { time, verify, bindings }) = cost.take() {
                (row.time, row.verify, row.bindings) = (time, verify, bindings);
            }
            // A composite pass stands before its members.
            let mut rows = rows.borrow_mut();
            let at = rows.len() - inner;
            rows.insert(at, row);
        };
        // Where a member is vetoed, the others run; so they do where it failed, if the run goes on.
        let mut pass_over = |stop, ended: &[(Doing, usize)]| match stop {
            Stop::Vetoed(by) => {
                let fate = if ended.len() > 1 { "was skipped".to_string() } else { format!("was vetoed by {by}") };
                self.vetoed(ended, by, &mut rows.borrow_mut(), warnings);
                Ok(fate)
            }
            Stop::Lacking(why) => {
                self.lacking(ended, why, &mut rows.borrow_mut(), warnings);
                Ok("was skipped".to_string())
            }
            Stop::Failed(error) if self.keep_going && matches!(error, Error::Step { .. }) => {
                errors.push(went_on(error));
                self.abandon(ended, &Fate::Failed, &mut rows.borrow_mut(), |_| true);
                Ok(if ended.len() > 1 { "was skipped" } else { "failed" }.to_string())
            }
            Stop::Skipped(why) if self.keep_going => {
                self.abandon(ended, &Fate::Skipped(why), &mut rows.borrow_mut(), |_| true);
                Ok("was skipped".to_string())
            }
            other => Err(other),
        };
        let Err(stop) = driver.run_step(plan, step, &mut run, &mut framed, &mut done, &mut pass_over) else {
            return Ok(());
        };
        self.unfinished(frames, &stop, plan);
        self.stopped(stop, &driver.abandoned(), &mut rows.borrow_mut(), failures)
    }

    /// What becomes of a step that was not done.
    fn stopped(
        &self,
        stop: Stop,
        doing: &[(Doing, usize)],
        steps: &mut Vec<StepReport>,
        failures: &mut Failures,
    ) -> Result<(), Error> {
        match stop {
            Stop::Skipped(why) => self.abandon(doing, &Fate::Skipped(why), steps, |_| true),
            Stop::Vetoed(by) => self.vetoed(doing, by, steps, &mut failures.warnings),
            Stop::Lacking(why) => self.lacking(doing, why, steps, &mut failures.warnings),
            Stop::Failed(error) if self.keep_going && matches!(error, Error::Step { .. }) => {
                failures.errors.push(went_on(error));
                self.abandon(doing, &Fate::Failed, steps, |_| true);
            }
            Stop::After(error, changed, cost) => {
                let fate = Fate::Done(if changed { Outcome::Changed } else { Outcome::Unchanged });
                self.abandon(doing, &fate, steps, |row| row.has_members || row.fate == fate);
                if let (Some(row), Some(Cost { time, verify, bindings })) = (steps.last_mut(), cost) {
                    (row.time, row.verify, row.bindings) = (time, verify, bindings);
                }
                return Err(error);
            }
            Stop::Failed(error) => {
                self.abandon(doing, &Fate::Failed, steps, |_| true);
                return Err(error);
            }
            // The pass itself neither ran nor failed.
            Stop::Before(error) => {
                self.abandon(doing, &Fate::Failed, steps, |row| row.has_members);
                return Err(error);
            }
        }
        Ok(())
    }

    /// What becomes of a step where instruments did not let it, or what it requires, run.
    fn vetoed(&self, doing: &[(Doing, usize)], by: String, steps: &mut Vec<StepReport>, warnings: &mut Vec<String>) {
        let name = |(doing, _): &(Doing, usize)| doing.unit.name(self.engine.registry()).to_string();
        if let [user, .., needed] = doing {
            let (user, needed) = (name(user), name(needed));
            warnings.push(format!("`{user}` is skipped: it needs `{needed}`, vetoed by {by}"));
        }
        self.abandon(doing, &Fate::Vetoed(by), steps, |_| true);
    }

    /// What becomes of a step that needs a composite pass of which a member was vetoed.
    fn lacking(&self, doing: &[(Doing, usize)], why: String, steps: &mut Vec<StepReport>, warnings: &mut Vec<String>) {
        if let Some((user, _)) = doing.last() {
            warnings.push(format!("`{}` is skipped: it {why}", user.unit.name(self.engine.registry())));
        }
        self.abandon(doing, &Fate::Skipped(why), steps, |_| true);
    }

    /// Rows for a step that was not done, and for those that needed or contained it, from the innermost one out; those
    /// that are `wanted`.
    fn abandon(
        &self,
        doing: &[(Doing, usize)],
        fate: &Fate,
        steps: &mut Vec<StepReport>,
        wanted: impl Fn(&StepReport) -> bool,
    ) {
        let registry = self.engine.registry();
        let mut needs = match fate {
            Fate::Failed => "which failed".to_string(),
            Fate::Vetoed(by) => format!("vetoed by {by}"),
            _ => "which was skipped".to_string(),
        };
        let mut inner: Option<(String, bool)> = None;
        let mut added = 0;
        for (Doing { unit, given, why, nesting, .. }, told) in doing.iter().rev() {
            let name = unit.name(registry).to_string();
            let is_part = matches!(why, Why::PartOf(_));
            let (fate, at) = match inner.take() {
                None => (fate.clone(), steps.len()),
                Some((member, true)) => (Fate::Stopped(member), steps.len() - added - told),
                Some((needed, false)) => {
                    let why = format!("needs {needed}, {needs}");
                    needs = "which was skipped".to_string();
                    (Fate::Skipped(why), steps.len())
                }
            };
            inner = Some((name, is_part));
            let row = self.row(unit.clone(), given.clone(), why.clone(), *nesting, fate);
            if wanted(&row) {
                steps.insert(at, row);
                added += 1;
            }
        }
    }

    fn row(&self, unit: Unit, given: Vec<(String, OptionValue)>, why: Why, nesting: usize, fate: Fate) -> StepReport {
        let Cost { time, verify, bindings } = Cost::none(self.bindings_of(&self.current.borrow()));
        let has_members = unit.pass().is_none_or(|pass| self.engine.registry().members(pass).is_some());
        StepReport { unit, given, why, nesting, has_members, fate, time, verify, bindings }
    }

    /// Bindings of a module. Functions that the last one had, too, are not counted again.
    fn bindings_of(&self, module: &Module) -> usize {
        let mut known = self.bindings.borrow_mut();
        if !known.0.same(module) {
            let relax = |body: &Body| if body.kind() == BodyKind::Function { body.n_bindings() } else { 0 };
            let n = match pairs(&known.0, module) {
                Some(pairs) => {
                    let other = pairs.filter(|(_, old, new)| !old.same(new));
                    let less_more =
                        |(less, more), (_, old, new): (&str, &Body, &Body)| (less + relax(old), more + relax(new));
                    let (less, more) = other.fold((0, 0), less_more);
                    (known.1 + more).checked_sub(less)
                }
                None => None,
            };
            let n = n.unwrap_or_else(|| module.n_bindings());
            *known = (module.clone(), n);
        }
        known.1
    }

    /// Why the plugin of a pass is not called any more.
    fn marked(&self, pass: PassId) -> Option<String> {
        self.marked_plugin(self.engine.registry().pass_place(pass).0)
    }

    fn marked_plugin(&self, owner: OwnerId) -> Option<String> {
        let file = self.engine.registry().owner(owner).file.as_deref();
        let by_instrument = || self.instruments().borrow().panicked(file?);
        self.marks.of(owner).or_else(by_instrument)
    }

    /// Type inference, as the run sees it.
    fn rules(&self) -> Rules<'_> {
        Rules { engine: self.engine, marks: &self.marks }
    }

    fn mark(&self, pass: PassId, did: &str) {
        let registry = self.engine.registry();
        let why = format!("plugin `{}` {did} `{}`", registry.pass_owner(pass).name, registry.pass(pass).name);
        self.marks.add(registry.pass_place(pass).0, why);
    }

    /// Whether a pass failed on this very module.
    fn failed_before(&self, seen: &Failed, job: Job<'_>) -> Option<String> {
        let module = self.current.borrow();
        let same = |(given, on): &&(Vec<OptionValue>, Module)| given == job.options && on.same(&module);
        seen.get(&job.pass)?.iter().rev().find(same).map(|_| "it failed before on the same module".to_string())
    }

    /// Runs one pass between its instruments; says whether the module changed in more than names.
    fn pass(&self, job: Job<'_>, plan: &Plan, held: &mut Facts) -> Result<(bool, Cost), Stop> {
        let (registry, Job { pass, options, number }) = (self.engine.registry(), job);
        let info = registry.pass(pass);
        self.position.set(number);
        *self.pass.borrow_mut() = info.name.clone();
        let span = tracing::info_span!("pass", name = %info.name);
        let _entered = span.enter();
        let before = self.current.borrow().clone();
        let facts = self.facts(pass);
        let _doing = calls::begins(registry, pass, number);
        let functions = || before.functions().filter(|(_, body)| calls::wants(info.granularity, body)).count();
        tracing::debug!(step = facts.position, plugin = facts.plugin, functions = functions(), "begins");
        let instruments = || self.instruments().borrow_mut();
        self.ask(&before, &facts, plan)?;
        self.check_required(pass, &before, held).map_err(Stop::Failed)?;
        let started = instruments().run_before(&before, &facts).map_err(Stop::Before)?;
        self.hear();
        let counted = self.counted.borrow().len();
        let span = self.engine.span("pass", &info.name, || json!({ "step": number }));
        let result = self.verified(pass, options, &before, held);
        self.hear();
        let (changed, cost) = match result {
            Ok(done) => done,
            Err(error) => {
                // What it did is undone.
                self.counted.borrow_mut().truncate(counted);
                let message = match &error {
                    Error::Step { message, .. } => message.clone(),
                    other => other.to_string(),
                };
                span.iter().for_each(|span| span.note("failed", &message));
                drop(span);
                instruments().run_failed(started, &self.current.borrow(), &facts, &message);
                return Err(Stop::Failed(error));
            }
        };
        drop(span);
        let after = self.current.borrow().clone();
        match instruments().run_after(started, &after, &facts) {
            Ok(()) => Ok((changed, cost)),
            Err(error) if plan.tvm_compat => {
                // The pass is done, and its result is lost.
                self.counted.borrow_mut().truncate(counted);
                *self.current.borrow_mut() = before;
                Err(Stop::Before(error))
            }
            Err(error) => Err(Stop::After(error, changed, Some(cost))),
        }
    }

    /// Tells of what was reported since.
    fn hear(&self) {
        let said = self.diagnostics.borrow();
        self.hears.iter().for_each(|hears| said[self.heard.get()..].iter().for_each(hears));
        self.heard.set(said.len());
    }

    /// What instruments are told of the pass at this position.
    fn facts(&self, pass: PassId) -> PassFacts<'e> {
        let registry = self.engine.registry();
        let (info, position) = (registry.pass(pass), self.position.get());
        let plugin = &registry.pass_owner(pass).name;
        let (name, opt_level, granularity, required) = (&info.name, info.opt_level, info.granularity, &info.required);
        PassFacts { name, opt_level, granularity, required, plugin, position }
    }

    /// Whether all instruments let a pass run that the context does not require.
    fn ask(&self, module: &Module, pass: &PassFacts<'_>, plan: &Plan) -> Result<(), Stop> {
        if plan.required.contains(pass.name) {
            return Ok(());
        }
        let vetoes = self.instruments().borrow_mut().should_run(module, pass).map_err(Stop::Before)?;
        if vetoes.is_empty() { Ok(()) } else { Err(Stop::Vetoed(vetoes.join(", "))) }
    }

    /// Runs one pass and verifies what it gave, which is the current module then.
    fn verified(
        &self,
        pass: PassId,
        options: &[OptionValue],
        before: &Module,
        held: &Facts,
    ) -> Result<(bool, Cost), Error> {
        let info = self.engine.registry().pass(pass);
        let snapshot = self.paranoid.then(|| Snapshot::of(before));
        let said = self.diagnostics.borrow().len();
        let start = Instant::now();
        let after = self.call(pass, info.granularity, before, options);
        let time = start.elapsed();
        if let Some(snapshot) = snapshot {
            self.check_input(pass, before, &snapshot)?;
        }
        let after = after?;
        self.check_said(pass, said)?;
        let start = Instant::now();
        let after = in_declared_form(before, after, self.engine)
            .map_err(|(function, why)| self.step_error(pass, Some(function), why.to_string(), None))?;
        let verifying = self.engine.span("verification", "verify", || json!({ "pass": info.name }));
        let affected = affected(before, &after);
        self.verify(before, &after, &affected).map_err(|violation| self.violation(pass, &after, &violation))?;
        self.check_operators(pass, &affected, before, &after)?;
        let changed = changed(before, &after);
        self.check_claims(pass, before, &after, held, changed)?;
        drop(verifying);
        let verify = start.elapsed();
        let bindings = (self.bindings_of(before), self.bindings_of(&after));
        tracing::debug!(changed, ?time, "done");
        *self.current.borrow_mut() = after;
        Ok((changed, Cost { time, verify, bindings }))
    }

    /// Whether a pass that gave something reported no error; `from`: what was reported before it.
    fn check_said(&self, pass: PassId, from: usize) -> Result<(), Error> {
        let errors = |said: &PassDiagnostic| said.severity == Severity::Error && said.instrument.is_none();
        let message = match self.diagnostics.borrow()[from..].iter().filter(|said| errors(said)).count() {
            0 => return Ok(()),
            1 => "reported an error".to_string(),
            n => format!("reported {n} errors"),
        };
        Err(self.step_error(pass, None, message, None))
    }

    /// Reports operators that a pass was the first to call, and that no plugin declares.
    fn check_operators(
        &self,
        pass: PassId,
        affected: &[Affected<'_>],
        before: &Module,
        after: &Module,
    ) -> Result<(), Error> {
        let found = undeclared_among(affected, before, &self.rules());
        if found.is_empty() {
            return Ok(());
        }
        let shown = Shown::new(self.engine, after, "what the pass returned");
        let place = |undeclared: &UndeclaredOperator| shown.place(&undeclared.function, undeclared.node);
        if let Some(first) = found.first().filter(|_| self.deny_unknown) {
            return Err(self.step_error(pass, Some(first.function.clone()), first.to_string(), place(first)));
        }
        let warnings = found.iter().map(|undeclared| PassDiagnostic {
            pass: self.pass.borrow().clone(),
            instrument: None,
            severity: Severity::Warning,
            function: Some(undeclared.function.clone()),
            message: undeclared.to_string(),
            place: place(undeclared),
        });
        self.diagnostics.borrow_mut().extend(warnings);
        Ok(())
    }

    /// Whether what a pass gave holds together. The first violation is told, however many threads look.
    fn verify(&self, before: &Module, after: &Module, affected: &[Affected<'_>]) -> Result<(), Violation> {
        let rules = self.rules();
        verify_attributes(before, after, &rules)?;
        let check = |stretch: &[Affected<'_>]| stretch.iter().try_for_each(|it| it.check(after, &rules));
        self.workers.run(affected, check).into_iter().collect()
    }

    /// Whether a pass left its input alone. What it wrote is undone.
    fn check_input(&self, pass: PassId, before: &Module, snapshot: &Snapshot) -> Result<(), Error> {
        let Some(written) = snapshot.written(before) else { return Ok(()) };
        self.mark(pass, "wrote to the input of");
        let message = self.put_back(snapshot, format!("wrote to {}", written.part));
        Err(self.step_error(pass, written.function, message, None))
    }

    /// The current module is that of a snapshot again; gives what to say.
    fn put_back(&self, snapshot: &Snapshot, message: String) -> String {
        match snapshot.restore() {
            Ok(module) => {
                // What was written into cannot be subtracted.
                *self.bindings.borrow_mut() = (module.clone(), module.n_bindings());
                *self.current.borrow_mut() = module;
            }
            Err(error) => return format!("{message}, and that cannot be put back: {error}"),
        }
        message
    }

    fn failed(&self, pass: PassId, function: Option<&str>, module: &Module, failure: RunFailure) -> Error {
        let (message, node, named) = match failure {
            RunFailure::Error(error) => (error.message, error.node, error.function),
            RunFailure::Panic(text) => {
                self.mark(pass, "panicked in");
                (format!("panicked: {text}"), None, None)
            }
            RunFailure::Protocol(text) => (text, None, None),
        };
        let function = named.or_else(|| function.map(str::to_string));
        let place =
            function.as_ref().zip(node).and_then(|(name, node)| self.place(module, name, node, "before the pass"));
        self.step_error(pass, function, message, place)
    }

    fn violation(&self, pass: PassId, after: &Module, violation: &Violation) -> Error {
        let place = self.place(after, &violation.function, violation.node, "what the pass returned");
        let message = format!("returned an ill-formed module: {}", violation.message);
        // What is wrong with the attributes of the module is in no function.
        let function = Some(violation.function.clone()).filter(|name| !name.is_empty());
        self.step_error(pass, function, message, place)
    }

    fn step_error(&self, pass: PassId, function: Option<String>, message: String, place: Option<ShownPlace>) -> Error {
        let message = if message.trim().is_empty() { NO_REASON.to_string() } else { message };
        let registry = self.engine.registry();
        let owner = registry.pass_owner(pass);
        Error::Step {
            position: self.position.get(),
            pass: registry.pass(pass).name.clone(),
            plugin: owner.name.clone(),
            file: owner.file.clone(),
            function,
            message,
            place,
            kept: Kept::Nothing,
            code: exit::PLUGIN,
        }
    }

    /// A node in the printed module.
    fn place(&self, module: &Module, function: &str, node: usize, what: &str) -> Option<ShownPlace> {
        Shown::new(self.engine, module, what).place(function, node)
    }
}

/// Replaces the message of a pass that returned an error without one.
const NO_REASON: &str = "returned an error without a text; its author should make it say what it found";

/// A failure after which the run goes on.
fn went_on(mut error: Error) -> Error {
    if let Error::Step { kept, .. } = &mut error {
        *kept = Kept::WentOn;
    }
    error
}

/// Whether passes leave a function alone.
fn skips(body: &Body) -> bool {
    body.function().is_some_and(|function| function.skips_optimization())
}

/// Whether anything but names of variables differs.
fn changed(before: &Module, after: &Module) -> bool {
    if before.same(after) {
        return false;
    }
    pairs(before, after).is_none() || !before.structural_eq(after)
}
