//! Runs a plan over a module: one pass after the other, each changed function verified.

use crate::engine::Engine;
use crate::error::{Error, Kept};
use crate::paranoia::Snapshot;
use crate::verify::{Violation, verify_changed};
use plugin_api::abi::host::{Diagnostic, HostServices, RunFailure, with_current};
use plugin_api::ir::{Body, BodyKind, Call, Module};
use plugin_api::meta::{Granularity, OptionValue};
use plugin_api::op::{Infer, InferError, Inferred};
use plugin_api::pass::Severity;
use registry::{Driver, Outcome, OwnerId, PassId, Plan, Registry, Step, StepRun};
use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

/// A step that was run or passed over, with what it cost.
#[derive(Clone, Debug)]
pub struct StepReport {
    /// The pass.
    pub pass: PassId,
    /// Options as given.
    pub given: Vec<(String, OptionValue)>,
    /// Who requires it; `None` for a step that was asked for.
    pub required_by: Option<PassId>,
    /// What became of it.
    pub fate: Fate,
    /// Time in the pass.
    pub time: Duration,
    /// Time to verify what it changed.
    pub verify: Duration,
    /// Bindings before and after.
    pub bindings: (usize, usize),
}

/// What became of a step.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fate {
    /// What the driver says of it.
    Done(Outcome),
    /// It failed, and the run went on.
    Failed,
    /// It was passed over after something else had failed; why.
    Skipped(String),
}

/// A diagnostic that a pass reported.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PassDiagnostic {
    /// Full name of the pass.
    pub pass: String,
    /// How bad it is.
    pub severity: Severity,
    /// Function that it is about.
    pub function: Option<String>,
    /// What it says.
    pub message: String,
    /// What the text shows, the text, and the place in it.
    pub place: Option<ShownPlace>,
}

/// A place in a printed module: what is shown, the text, and the range in it.
pub type ShownPlace = (String, String, std::ops::Range<usize>);

/// What a run gave.
#[derive(Debug)]
pub struct RunReport {
    /// The module after the last step that succeeded.
    pub module: Module,
    /// Steps in the order in which they were looked at.
    pub steps: Vec<StepReport>,
    /// Diagnostics of passes.
    pub diagnostics: Vec<PassDiagnostic>,
    /// What the driver noticed.
    pub warnings: Vec<String>,
    /// Failures after which the run went on.
    pub failures: Vec<Error>,
    /// What stopped the run, if anything did.
    pub error: Option<Error>,
}

/// Runs plans.
pub struct Runner<'e> {
    engine: &'e Engine,
    config: BTreeMap<String, OptionValue>,
    opt_level: i32,
    pass: RefCell<String>,
    diagnostics: RefCell<Vec<PassDiagnostic>>,
    current: RefCell<Module>,
    position: Cell<usize>,
    keep_going: bool,
    paranoid: bool,
    target: Option<String>,
    /// Plugins that cannot be trusted any more, and why.
    marked: RefCell<BTreeMap<OwnerId, String>>,
}

/// Why a step was not done.
enum Stop {
    /// It failed.
    Failed(Error),
    /// There was no sense in trying.
    Skipped(String),
}

/// What failed while the run went on.
#[derive(Default)]
struct Failures {
    errors: Vec<Error>,
    /// Passes with their options, and the module on which they failed.
    seen: Vec<(PassId, Vec<OptionValue>, Module)>,
}

impl HostServices for Runner<'_> {
    fn infer(&self, call: Call<'_>) -> Result<Inferred, InferError> {
        self.engine.infer(call)
    }

    fn print(&self, body: &Body) -> String {
        script::print_function("main", body, self.engine)
    }

    fn config(&self, key: &str) -> Option<OptionValue> {
        self.config.get(key).cloned()
    }

    fn pass_name(&self) -> String {
        self.pass.borrow().clone()
    }

    fn target(&self) -> Option<String> {
        self.target.clone()
    }

    fn diagnose(&self, diagnostic: &Diagnostic<'_>) {
        let place = diagnostic
            .function
            .zip(diagnostic.node)
            .and_then(|(function, node)| self.place(&self.current.borrow(), function, node, "before the pass"));
        self.diagnostics.borrow_mut().push(PassDiagnostic {
            pass: self.pass_name(),
            severity: diagnostic.severity,
            function: diagnostic.function.map(str::to_string),
            message: diagnostic.message.to_string(),
            place,
        });
    }
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

/// The passes between `user` and what it requires, directly or through others: `needed`, which the driver has just
/// tried to run.
fn way(registry: &Registry, driver: &Driver<'_>, user: PassId, needed: PassId) -> Vec<PassId> {
    let mut stack = vec![(user, Vec::new())];
    let mut seen = BTreeSet::new();
    while let Some((pass, path)) = stack.pop() {
        let required = &registry.pass(pass).required;
        // The driver takes them from left to right, and leaves out those that are valid.
        let open = required.iter().filter(|req| !driver.facts().is_valid(&req.name));
        let open: Vec<PassId> = open.filter_map(|req| registry.find_full(&req.name)).collect();
        if open.contains(&needed) {
            return path;
        }
        for next in open.into_iter().rev().filter(|next| seen.insert(*next)) {
            stack.push((next, [path.as_slice(), &[next]].concat()));
        }
    }
    Vec::new()
}

impl<'e> Runner<'e> {
    /// A runner with the config values of a run.
    pub fn new(engine: &'e Engine, config: BTreeMap<String, OptionValue>) -> Runner<'e> {
        Runner {
            engine,
            config,
            opt_level: registry::plan::DEFAULT_OPT_LEVEL,
            pass: RefCell::default(),
            diagnostics: RefCell::default(),
            current: RefCell::new(Module::new(Vec::<(String, Body)>::new())),
            position: Cell::new(0),
            keep_going: false,
            paranoid: false,
            target: None,
            marked: RefCell::default(),
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

    /// The compilation target that passes see: a name, or JSON.
    pub fn target(self, target: Option<String>) -> Runner<'e> {
        Runner { target, ..self }
    }

    /// Runs a plan. Plugins of the plan are opened before the first step.
    ///
    /// # Errors
    /// If a plugin cannot be opened; what stops a later step is in the report.
    pub fn run(mut self, plan: &Plan, module: Module) -> Result<RunReport, Error> {
        self.opt_level = plan.opt_level;
        let registry = self.engine.registry();
        self.engine.open_for(&plan.passes(registry))?;
        *self.current.borrow_mut() = module;
        let mut driver = Driver::new(registry);
        let (mut steps, mut failures) = (Vec::new(), Failures::default());
        let mut error = None;
        for step in &plan.steps {
            if let Err(why) = self.step(&mut driver, plan, step, &mut steps, &mut failures) {
                error = Some(why);
                break;
            }
        }
        Ok(RunReport {
            module: self.current.borrow().clone(),
            steps,
            diagnostics: self.diagnostics.take(),
            warnings: driver.warnings().to_vec(),
            failures: failures.errors,
            error,
        })
    }

    /// Runs a step that was asked for, with what it requires.
    fn step(
        &self,
        driver: &mut Driver<'_>,
        plan: &Plan,
        step: &Step,
        steps: &mut Vec<StepReport>,
        failures: &mut Failures,
    ) -> Result<(), Error> {
        let registry = self.engine.registry();
        if let Some(why) = self.marked(step.pass).filter(|_| step.skip.is_none()) {
            steps.push(self.not_done(step.pass, None, step, Fate::Skipped(why)));
            return Ok(());
        }
        let one = Plan { steps: vec![step.clone()], ..Plan::clone(plan) };
        let (cost, at) = (Cell::new(None), Cell::new(step.pass));
        let mut run = |pass: PassId, options: &[OptionValue]| {
            at.set(pass);
            if let Some(why) = self.marked(pass).or_else(|| self.failed_before(failures, pass, options)) {
                return Err(Stop::Skipped(why));
            }
            let before = self.current.borrow().clone();
            let (changed, spent) = self.pass(pass, options).map_err(|error| {
                failures.seen.push((pass, options.to_vec(), before));
                Stop::Failed(error)
            })?;
            cost.set(Some(spent));
            Ok(changed)
        };
        let mut done = |StepRun { pass, given, required_by, outcome }| {
            let n = self.current.borrow().n_bindings();
            let Cost { time, verify, bindings } = cost.take().unwrap_or(Cost::none(n));
            steps.push(StepReport { pass, given, required_by, fate: Fate::Done(outcome), time, verify, bindings });
        };
        let Err(stop) = driver.run(&one, &mut run, &mut done) else { return Ok(()) };
        let (error, fate) = match stop {
            Stop::Skipped(why) => (None, Fate::Skipped(why)),
            Stop::Failed(Error::Step { kept: _, position, pass, plugin, file, function, message, place })
                if self.keep_going =>
            {
                let kept = Kept::WentOn;
                let error = Error::Step { position, pass, plugin, file, function, message, place, kept };
                (Some(error), Fate::Failed)
            }
            Stop::Failed(error) => return Err(error),
        };
        let mut needs = if fate == Fate::Failed { "which failed" } else { "which was skipped" };
        failures.errors.extend(error);
        let path = way(registry, driver, step.pass, at.get());
        let mut users = path.iter().rev().copied().chain([step.pass]);
        let mut user = users.next().filter(|_| at.get() != step.pass);
        steps.push(self.not_done(at.get(), user, step, fate));
        let mut needed = at.get();
        while let Some(pass) = user {
            let why = format!("needs {}, {needs}", registry.pass(needed).name);
            user = users.next();
            steps.push(self.not_done(pass, user, step, Fate::Skipped(why)));
            (needed, needs) = (pass, "which was skipped");
        }
        Ok(())
    }

    fn not_done(&self, pass: PassId, required_by: Option<PassId>, step: &Step, fate: Fate) -> StepReport {
        let given = if required_by.is_none() { step.given.clone() } else { Vec::new() };
        let Cost { time, verify, bindings } = Cost::none(self.current.borrow().n_bindings());
        StepReport { pass, given, required_by, fate, time, verify, bindings }
    }

    /// Why the plugin of a pass is not called any more.
    fn marked(&self, pass: PassId) -> Option<String> {
        self.marked.borrow().get(&self.engine.registry().pass_place(pass).0).cloned()
    }

    fn mark(&self, pass: PassId, did: &str) {
        let registry = self.engine.registry();
        let why = format!("plugin `{}` {did} `{}`", registry.pass_owner(pass).name, registry.pass(pass).name);
        self.marked.borrow_mut().entry(registry.pass_place(pass).0).or_insert(why);
    }

    /// Whether a pass failed on this very module.
    fn failed_before(&self, failures: &Failures, pass: PassId, options: &[OptionValue]) -> Option<String> {
        let module = self.current.borrow();
        let same = |(other, given, on): &&(PassId, Vec<OptionValue>, Module)| {
            *other == pass && given == options && on.same(&module)
        };
        failures.seen.iter().find(same).map(|_| "it failed before on the same module".to_string())
    }

    /// Runs one pass; says whether the module changed in more than names.
    fn pass(&self, pass: PassId, options: &[OptionValue]) -> Result<(bool, Cost), Error> {
        let info = self.engine.registry().pass(pass);
        self.position.set(self.position.get() + 1);
        *self.pass.borrow_mut() = info.name.clone();
        let span = tracing::info_span!("pass", name = %info.name);
        let _entered = span.enter();
        let before = self.current.borrow().clone();
        let snapshot = self.paranoid.then(|| Snapshot::of(&before));
        let start = Instant::now();
        let after = with_current(self, self.opt_level, || self.call(pass, info.granularity, &before, options));
        let time = start.elapsed();
        if let Some(snapshot) = snapshot {
            self.check_input(pass, &before, &snapshot)?;
        }
        let after = after?;
        let start = Instant::now();
        verify_changed(&before, &after, self.engine).map_err(|violation| self.violation(pass, &after, &violation))?;
        let verify = start.elapsed();
        let changed = changed(&before, &after);
        let bindings = (before.n_bindings(), after.n_bindings());
        tracing::debug!(changed, ?time, "done");
        *self.current.borrow_mut() = after;
        Ok((changed, Cost { time, verify, bindings }))
    }

    /// Whether a pass left its input alone. What it wrote into is put back.
    fn check_input(&self, pass: PassId, before: &Module, snapshot: &Snapshot) -> Result<(), Error> {
        let Some(written) = snapshot.written() else { return Ok(()) };
        self.mark(pass, "wrote into the input of");
        let restored = snapshot.restore(before);
        let mut message = format!("wrote into the function that it was given (section `{}`)", written.part);
        match restored {
            Ok(module) => *self.current.borrow_mut() = module,
            Err(error) => message.push_str(&format!(", and that cannot be put back: {error}")),
        }
        Err(self.step_error(pass, Some(written.function), message, None))
    }

    fn call(
        &self,
        pass: PassId,
        granularity: Granularity,
        module: &Module,
        options: &[OptionValue],
    ) -> Result<Module, Error> {
        let (owner, at) = self.engine.registry().pass_place(pass);
        let plugin = self.engine.open(owner)?;
        if granularity == Granularity::Module {
            return plugin.run_module(at, module, options).map_err(|failure| self.failed(pass, None, module, failure));
        }
        let wanted = if granularity == Granularity::PrimFunc { BodyKind::PrimFunc } else { BodyKind::Function };
        let skips = |body: &Body| body.function().is_some_and(|function| function.skips_optimization());
        let functions: Vec<(&str, &Body)> =
            module.functions().filter(|(_, body)| body.kind() == wanted && !skips(body)).collect();
        let results = plugin.run_functions(at, &functions, options);
        let mut new = Vec::with_capacity(functions.len());
        for ((name, old), result) in functions.into_iter().zip(results) {
            let body = result.map_err(|failure| self.failed(pass, Some(name), module, failure))?;
            if old.kind() != body.kind() {
                let message = "gave back a function of another kind".to_string();
                return Err(self.failed(pass, Some(name), module, RunFailure::Protocol(message)));
            }
            new.push((name, body));
        }
        let mut new = new.into_iter().peekable();
        module.map_functions(|name, body| match new.next_if(|(done, _)| *done == name) {
            Some((_, new)) => Ok(new),
            None => Ok(body.clone()),
        })
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
        self.step_error(pass, Some(violation.function.clone()), message, place)
    }

    fn step_error(&self, pass: PassId, function: Option<String>, message: String, place: Option<ShownPlace>) -> Error {
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
        }
    }

    /// A node in the printed module.
    fn place(&self, module: &Module, function: &str, node: usize, what: &str) -> Option<ShownPlace> {
        let printed = script::print_with_spans(module, self.engine);
        let span = printed.spans.get(function)?.get(node)?.clone();
        let what = format!("<{what}>");
        (!span.is_empty()).then_some((what, printed.text, span))
    }
}

/// Whether anything but names of variables differs.
fn changed(before: &Module, after: &Module) -> bool {
    if before.same(after) {
        return false;
    }
    let same_names = before.len() == after.len() && before.functions().zip(after.functions()).all(|(a, b)| a.0 == b.0);
    !same_names || !before.structural_eq(after)
}
